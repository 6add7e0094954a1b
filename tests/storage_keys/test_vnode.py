"""Vnodes are runs of prefixes: every count against a count of all 65,536 prefixes."""

from collections import Counter

import pytest

from storage_keys.errors import BadVnodeCount, MalformedKey, ValueOutOfRange
from storage_keys.hash import hash_row
from storage_keys.types import BIGINT
from storage_keys.vnode import PREFIX_COUNT, check_vnode_count, prefix_of, prefixes_of, vnode_of

COUNTS = [1, 2, 3, 100, 256, 1000, 2333, 4095, 4096, 8192, 65536]


@pytest.mark.parametrize("count", COUNTS)
def test_vnodes_are_contiguous_and_cover_every_prefix(count: int) -> None:
    runs: dict[int, list[int]] = {}
    for prefix in range(PREFIX_COUNT):
        runs.setdefault(vnode_of(prefix, count), []).append(prefix)
    assert list(runs) == list(range(count))
    for vnode, run in runs.items():
        assert prefixes_of(vnode, vnode, count) == (run[0], run[-1])
        assert len(run) == run[-1] - run[0] + 1
    assert prefixes_of(0, count - 1, count) == (0, PREFIX_COUNT - 1)
    assert prefixes_of(count // 3, count - 1, count) == (runs[count // 3][0], PREFIX_COUNT - 1)


@pytest.mark.parametrize("step", [101, pytest.param(1, marks=pytest.mark.slow)])
def test_no_vnode_is_more_than_6_percent_above_the_mean(step: int) -> None:
    for count in range(1, 4097, step):
        sizes = [last - first + 1 for first, last in (prefixes_of(v, v, count) for v in range(count))]
        assert max(sizes) * count / PREFIX_COUNT <= 1.07, count


def test_children_of_a_vnode_under_a_multiple_are_adjacent() -> None:
    for prefix in range(PREFIX_COUNT):
        assert vnode_of(prefix, 1024) // 4 == vnode_of(prefix, 256)


def test_prefix_is_the_top_16_bits_whatever_the_sign() -> None:
    assert prefix_of(-1) == prefix_of(2**64 - 1) == 0xFFFF
    assert prefix_of(-(2**63)) == prefix_of(2**63) == 0x8000
    assert prefix_of(2**48) == 1
    assert prefix_of(42) == 0


def test_counts_are_up_to_4096_or_powers_of_two_up_to_65536() -> None:
    accepted = []
    for count in range(-2, 2 * PREFIX_COUNT + 2):
        try:
            check_vnode_count(count)
        except BadVnodeCount:
            continue
        accepted.append(count)
    assert accepted == [*range(1, 4097), 8192, 16384, 32768, 65536]


def test_vnodes_outside_of_the_count_are_refused() -> None:
    with pytest.raises(ValueOutOfRange, match=r"a vnode must be in 0..255, not 256"):
        prefixes_of(0, 256, 256)
    with pytest.raises(ValueOutOfRange):
        prefixes_of(-1, 3, 256)
    with pytest.raises(MalformedKey):
        prefixes_of(4, 3, 256)


def test_sequential_keys_spread_evenly() -> None:
    counts = Counter(vnode_of(prefix_of(hash_row([BIGINT], [key])), 256) for key in range(100_000))
    assert len(counts) == 256
    assert max(counts.values()) * 256 / 100_000 < 1.25
