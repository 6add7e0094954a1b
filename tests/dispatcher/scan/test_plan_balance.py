"""Cutting sequences of weights, against the best of all ways."""

from functools import cache
from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.scan.balance import balanced

lanes_of_weights = st.lists(st.lists(st.integers(0, 9), max_size=7), min_size=1, max_size=3)


def smallest_largest(lanes: list[list[int]], parts: int) -> int:
    """By trying every first stretch."""

    @cache
    def best(lane: int, start: int, left: int) -> float:
        if lane == len(lanes):
            return 0
        weights = lanes[lane]
        if start == len(weights):
            return best(lane + 1, 0, left)
        if left == 0:
            return float("inf")
        ends = range(start + 1, len(weights) + 1)
        return min(max(sum(weights[start:end]), best(lane, end, left - 1)) for end in ends)

    return int(best(0, 0, parts))


@given(lanes_of_weights, st.integers(0, 12))
def test_the_largest_stretch_is_as_small_as_can_be(lanes: list[list[int]], spare: int) -> None:
    parts = max(1, sum(map(bool, lanes))) + spare
    found = balanced([np.array(lane, np.int64) for lane in lanes], parts)
    sums, weighty = [], 0
    for lane, ends in zip(lanes, found, strict=True):
        bounds = [0, *ends]
        assert bounds == sorted(set(bounds))
        assert bounds[-1] == len(lane)
        sums += [sum(lane[first:end]) for first, end in pairwise(bounds)]
        weighty += max(sum(weight > 0 for weight in lane), min(len(lane), 1))
    assert len(sums) == min(parts, weighty)
    assert max(sums, default=0) == smallest_largest(lanes, parts)


def test_what_is_left_is_shared_evenly_and_not_greedily() -> None:
    assert balanced([np.ones(10, np.int64)], 4) == ((3, 6, 8, 10),)


def test_weights_beyond_what_a_float_can_tell_apart() -> None:
    weights = np.array([1 << 60, (1 << 60) + 1, 1 << 60], np.int64)
    assert balanced([weights], 3) == ((1, 2, 3),)
    assert balanced([weights], 2) == ((1, 3),) or balanced([weights], 2) == ((2, 3),)
