"""Sequences of weights, cut into so many stretches in all that the largest is as small as can be. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from typing import Self

import numpy as np
import numpy.typing as npt

Weights = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Lane:
    """The weights above 0 of a sequence of `length`: where each stands, and `sums[i]` of the first i of them."""

    length: int
    positions: list[int]
    sums: list[int]

    @classmethod
    def of(cls, weights: Weights) -> Self:
        positions = np.flatnonzero(weights)
        return cls(len(weights), positions.tolist(), [0, *np.cumsum(weights[positions]).tolist()])

    @property
    def total(self) -> int:
        return self.sums[-1]

    @property
    def parts_most(self) -> int:
        """What weighs nothing has to be somewhere, too."""
        return len(self.positions) or min(self.length, 1)

    def parts_least(self, largest: int) -> int:
        """How many stretches, none above `largest`, hold it all."""
        count, at = 0, 0
        while at < len(self.positions):
            at = self._latest(at, largest)
            count += 1
        return count or min(self.length, 1)

    def cut(self, parts: int, largest: int) -> tuple[int, ...]:
        """The ends of `parts` stretches: none is above `largest`, and on the way each takes its share of the rest."""
        ends, at = [], 0
        for left, earliest in zip(range(parts - 1, 0, -1), self._earliest(parts, largest), strict=True):
            share = -(-(self.total - self.sums[at]) // (left + 1))
            fair = bisect_left(self.sums, self.sums[at] + share)
            # One weight at least is left for each stretch to come.
            at = min(max(fair, earliest), self._latest(at, largest), len(self.positions) - left)
            # What weighs nothing goes with what is before it.
            ends.append(self.positions[at])
        return (*ends, self.length) if parts else ()

    def _latest(self, at: int, largest: int) -> int:
        return bisect_right(self.sums, self.sums[at] + largest) - 1

    def _earliest(self, parts: int, largest: int) -> list[int]:
        """For each end but the last: from any before this, the stretches to come could not hold the rest."""
        found, at = [], len(self.positions)
        for _ in range(parts - 1):
            at = bisect_left(self.sums, self.sums[at] - largest)
            found.append(at)
        return found[::-1]


def balanced(lanes: Sequence[Weights], parts: int) -> tuple[tuple[int, ...], ...]:
    """For each lane the ends of its stretches, the last being its length: at most `parts` in all.

    No stretch is empty, and none has weights of two lanes, of which there are at most `parts`. Fewer stretches are
    made only where there are fewer weights above 0. The largest sum of a stretch is the smallest that there can be.
    """
    cuttable = [_Lane.of(weights) for weights in lanes]
    assert sum(lane.length > 0 for lane in cuttable) <= parts
    heaviest = max((int(weights.max()) for weights in lanes if len(weights)), default=0)
    low = max(heaviest, -(-sum(lane.total for lane in cuttable) // parts))
    high = max([low, *(lane.total for lane in cuttable)])
    while low < high:
        middle = (low + high) // 2
        if sum(lane.parts_least(middle) for lane in cuttable) <= parts:
            high = middle
        else:
            low = middle + 1
    counts = _counts(cuttable, parts, high)
    return tuple(lane.cut(count, high) for lane, count in zip(cuttable, counts, strict=True))


def _counts(lanes: list[_Lane], parts: int, largest: int) -> list[int]:
    """How many stretches each lane gets: what it needs, then always one more where they are the largest."""
    counts = [lane.parts_least(largest) for lane in lanes]
    queue = [
        (-lane.total / count, at)
        for at, (lane, count) in enumerate(zip(lanes, counts, strict=True))
        if count < lane.parts_most
    ]
    heapify(queue)
    for _ in range(parts - sum(counts)):
        if not queue:
            break
        at = queue[0][1]
        counts[at] += 1
        # A lane of as many stretches as weights has nothing more to cut: it goes to the end, for good.
        full = counts[at] == lanes[at].parts_most
        heapreplace(queue, (1.0 if full else -lanes[at].total / counts[at], at))
        if queue[0][0] > 0:
            break
    return counts
