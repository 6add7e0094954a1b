"""Ranges against brute force: which keys are in, above all at the far ends."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys.column import Order
from storage_keys.errors import BadVnodeCount, MalformedKey, ValueOutOfRange
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.range import (
    ALL_PREFIXES,
    KeyRange,
    PrefixRun,
    merged,
    merged_runs,
    prefix_range,
    successor,
    table_range,
    vnode_range,
    vnode_ranges,
)
from storage_keys.types import BIGINT, STRING
from storage_keys.vnode import PREFIX_COUNT, check_vnode_count, prefixes_of, vnode_of

LAST_TABLE = 2**32 - 1
SHORT_ALPHABET = st.lists(st.sampled_from([0x00, 0x01, 0x7F, 0xFE, 0xFF]), max_size=5).map(bytes)
RANGES = st.builds(KeyRange, SHORT_ALPHABET, st.none() | SHORT_ALPHABET)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"\x00", b"\x01"),
        (b"\x01\xff", b"\x02"),
        (b"\x01\xff\x00", b"\x01\xff\x01"),
        (b"\xff\xff", None),
        (b"", None),
    ],
)
def test_successor(data: bytes, expected: bytes | None) -> None:
    assert successor(data) == expected


@given(SHORT_ALPHABET, SHORT_ALPHABET)
def test_a_range_up_to_the_successor_holds_what_starts_with_the_bytes(head: bytes, key: bytes) -> None:
    assert KeyRange(head, successor(head)).contains(key) == key.startswith(head)


def test_no_end_and_an_empty_end_are_not_the_same() -> None:
    assert KeyRange(b"", None).contains(b"\xff")
    assert not KeyRange(b"", b"").contains(b"\xff")


def test_table_ranges_meet_and_the_last_has_no_end() -> None:
    assert table_range(7) == KeyRange(bytes.fromhex("00000007"), bytes.fromhex("00000008"))
    assert table_range(0xFF).end == bytes.fromhex("000001")
    assert not table_range(0xFF).contains(table_range(0x100).start)
    assert table_range(LAST_TABLE) == KeyRange(b"\xff" * 4, None)


def test_the_last_vnode_is_scanned_to_the_end_of_its_table() -> None:
    # Phoenix 7580: the last bucket was silently missed.
    assert vnode_range(7, 255, 255, 256) == KeyRange(bytes.fromhex("00000007ff00"), bytes.fromhex("00000008"))
    assert vnode_range(7, 0, 255, 256).end == table_range(7).end
    assert vnode_range(LAST_TABLE, 255, 255, 256) == KeyRange(bytes.fromhex("ffffffffff00"), None)
    assert vnode_range(LAST_TABLE, 65535, 65535, 65536) == KeyRange(b"\xff" * 6, None)
    assert vnode_range(LAST_TABLE, 0, 0, 1) == KeyRange(bytes.fromhex("ffffffff0000"), None)


@pytest.mark.parametrize("table_id", [0, 7, LAST_TABLE])
@pytest.mark.parametrize("count", [1, 3, 256, 4096, 65536])
def test_a_key_is_in_the_range_of_its_vnode_and_in_no_other(table_id: int, count: int) -> None:
    columns = (KeyColumn("k", BIGINT), KeyColumn("s", STRING, Order(descending=True)))
    schema = KeySchema(table_id, columns, ("k",))
    for key in range(60):
        row = {"k": key, "s": "\0" * key}
        data, vnode = schema.storage_key(row), vnode_of(schema.prefix(row), count)
        assert vnode_range(table_id, vnode, vnode, count).contains(data)
        assert vnode == 0 or not vnode_range(table_id, 0, vnode - 1, count).contains(data)
        assert vnode == count - 1 or not vnode_range(table_id, vnode + 1, count - 1, count).contains(data)
        assert table_range(table_id).contains(data)
        assert not table_range(6).contains(data)


def test_table_ids_are_32_bits() -> None:
    for table_id in (-1, 2**32):
        with pytest.raises(ValueOutOfRange, match="a table id"):
            table_range(table_id)


@given(st.lists(RANGES, max_size=6), st.lists(SHORT_ALPHABET, max_size=20))
def test_merged_ranges_hold_the_same_keys_and_do_not_touch(ranges: list[KeyRange], keys: list[bytes]) -> None:
    found = merged(ranges)
    for key in keys + [one.start for one in ranges] + [one.end for one in ranges if one.end is not None]:
        assert any(one.contains(key) for one in found) == any(one.contains(key) for one in ranges)
    assert not any(one.is_empty for one in found)
    for one, following in pairwise(found):
        assert one.end is not None
        assert one.end < following.start


@given(RANGES, RANGES, SHORT_ALPHABET)
def test_an_intersection_holds_what_both_hold(one: KeyRange, other: KeyRange, key: bytes) -> None:
    both = one.intersection(other)
    assert both.contains(key) == (one.contains(key) and other.contains(key))
    assert not (both.is_empty and both.contains(key))


@given(RANGES, SHORT_ALPHABET, SHORT_ALPHABET)
def test_a_range_below_a_path_holds_the_path_with_what_the_range_holds(
    one: KeyRange, path: bytes, key: bytes
) -> None:
    below = one.below(path)
    assert below.contains(path + key) == one.contains(key)
    if not key.startswith(path):
        assert not below.contains(key) or one.is_empty


def test_below_a_path_no_end_is_the_end_of_the_path() -> None:
    assert KeyRange(b"\x05", None).below(b"\x07") == KeyRange(b"\x07\x05", b"\x08")
    assert KeyRange(b"\x05", None).below(b"\xff\xff") == KeyRange(b"\xff\xff\x05", None)
    assert KeyRange(b"", b"").below(b"\x07").is_empty


@pytest.mark.parametrize("count", [1, 3, 100, 256, 65536])
def test_adjacent_vnodes_are_one_range(count: int) -> None:
    chance = random.Random(count)
    assert vnode_ranges(7, reversed(range(count)), count) == (table_range_of_prefixes(7),)
    assert vnode_ranges(7, [], count) == ()
    for _ in range(20):
        vnodes = chance.sample(range(count), min(count, chance.randint(1, 12)))
        ranges = vnode_ranges(7, vnodes, count)
        runs = 1 + sum(later - earlier > 1 for earlier, later in pairwise(sorted(vnodes)))
        assert len(ranges) == runs
        for vnode in [*vnodes, *chance.choices(range(count), k=12)]:
            start = vnode_range(7, vnode, vnode, count).start
            assert any(one.contains(start) for one in ranges) == (vnode in vnodes)


def table_range_of_prefixes(table_id: int) -> KeyRange:
    """All keys of the table, from its first prefix on: nothing is stored under the bare table id."""
    whole = table_range(table_id)
    return KeyRange(whole.start + b"\0\0", whole.end)


def test_runs_of_prefixes_merge_where_they_touch() -> None:
    runs = [PrefixRun(5, 5), PrefixRun(0, 1), PrefixRun(2, 3), PrefixRun(0, 0)]
    assert merged_runs(runs) == (PrefixRun(0, 3), PrefixRun(5, 5))
    assert prefix_range(7, ALL_PREFIXES) == table_range_of_prefixes(7)
    assert prefix_range(LAST_TABLE, PrefixRun(0xFFFF, 0xFFFF)) == KeyRange(b"\xff" * 6, None)
    for make in BAD_RUNS:
        with pytest.raises((ValueOutOfRange, MalformedKey)):
            make()


BAD_RUNS: list[Callable[[], PrefixRun]] = [
    lambda: PrefixRun(-1, 3),
    lambda: PrefixRun(0, PREFIX_COUNT),
    lambda: PrefixRun(3, 2),
]


def is_vnode_count(count: int) -> bool:
    try:
        check_vnode_count(count)
    except BadVnodeCount:
        return False
    return True


def check_multiple(count: int, factor: int, vnodes: range | list[int]) -> None:
    """Each vnode of `count` is exactly its `factor` children, which follow each other."""
    for vnode in vnodes:
        children = range(factor * vnode, factor * vnode + factor)
        parts = [vnode_range(7, child, child, factor * count) for child in children]
        parent = vnode_range(7, vnode, vnode, count)
        assert (parts[0].start, parts[-1].end) == (parent.start, parent.end), (count, factor, vnode)
        for one, following in pairwise(parts):
            # A key has 6 bytes of head, so an end of fewer is one with zeros: ...80 is the prefix 8000.
            assert one.end is not None
            assert one.end.ljust(6, b"\0") == following.start, (count, factor, vnode)
        assert not any(part.is_empty for part in parts)
        assert vnode_range(7, children[0], children[-1], factor * count) == parent


def test_a_vnode_is_exactly_its_children_for_every_small_count_and_factor() -> None:
    for count in range(1, 25):
        for factor in range(1, 9):
            check_multiple(count, factor, range(count))
            first, last = prefixes_of(0, count - 1, count)
            for prefix in range(first, last + 1, 97):
                assert vnode_of(prefix, factor * count) // factor == vnode_of(prefix, count)


@pytest.mark.parametrize("pairs", [200, pytest.param(20_000, marks=pytest.mark.slow)])
def test_a_vnode_is_exactly_its_children_for_any_count_and_factor(pairs: int) -> None:
    chance = random.Random(3)
    counts = [count for count in range(1, PREFIX_COUNT + 1) if is_vnode_count(count)]
    for _ in range(pairs):
        count = chance.choice(counts) if chance.random() < 0.5 else 1 << chance.randint(0, 16)
        multiples = [many for many in counts if many % count == 0]
        many = chance.choice([*multiples[:8], *multiples[-8:]])
        # Parents of a few children of each, or the largest pairs would take all the time.
        vnodes = [0, count - 1, *chance.choices(range(count), k=6)]
        if many // count <= 256:
            check_multiple(count, many // count, vnodes)


@given(st.lists(st.tuples(st.integers(-(2**63), 2**63 - 1), st.text(max_size=9)), min_size=1, max_size=20))
def test_a_changed_count_changes_no_stored_key_and_keeps_it_with_the_children(
    rows: list[tuple[int, str]],
) -> None:
    # Nothing that makes a key takes a vnode count; the same bytes are in the parent and in one of its children.
    schema = KeySchema(7, (KeyColumn("s", STRING), KeyColumn("k", BIGINT)), ("k",))
    for k, s in rows:
        row = {"k": k, "s": s}
        stored, prefix = schema.storage_key(row), schema.prefix(row)
        for count, many in ((256, 1024), (3, 12), (100, 4000), (4096, 65536), (1, 7)):
            parent, child = vnode_of(prefix, count), vnode_of(prefix, many)
            assert child // (many // count) == parent
            assert vnode_range(7, parent, parent, count).contains(stored)
            assert vnode_range(7, child, child, many).contains(stored)
        assert schema.storage_key(row) == stored
