"""Ranges against brute force: which keys are in, above all at the far ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys.column import Order
from storage_keys.errors import ValueOutOfRange
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.range import KeyRange, successor, table_range, vnode_range
from storage_keys.types import BIGINT, STRING
from storage_keys.vnode import vnode_of

LAST_TABLE = 2**32 - 1
SHORT_ALPHABET = st.lists(st.sampled_from([0x00, 0x01, 0x7F, 0xFE, 0xFF]), max_size=5).map(bytes)


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
