"""The mapping in the making while loads are levelled: who owns what, and what that weighs.

Vnodes are numbered by *rank*, the lightest first, and units by their place among those of weight above 0. Sizes
are integers (loads scaled by a power of two), so that sums do not depend on their order.
"""

from dataclasses import dataclass
from typing import Self

import numpy as np

from meta.mapping.load_bound import CountBounds, Floats, Ints
from meta.mapping.stretches import WAITING

DRAINED = -2  # on a unit of weight 0: leaving it is a move


@dataclass(frozen=True, slots=True)
class Problem:
    """`sizes` ascend, int64 of shape (V,); `homes[r]` is the owner before, or `WAITING` (nobody's,
    or a gone owner's: placed for nothing) or `DRAINED`.

    `vnodes[r]` is the vnode of rank r.
    """

    sizes: Ints
    vnodes: Ints
    homes: Ints
    speeds: Floats
    bounds: CountBounds


class Loading:
    """Owners of all ranks with what follows from them; changes only by `take` and `move`."""

    def __init__(self, problem: Problem, owners: Ints) -> None:
        self.problem = problem
        self.owners = owners.copy()
        placed = np.flatnonzero(owners >= 0)
        units = len(problem.speeds)
        by_unit = placed[np.argsort(owners[placed], kind="stable")]
        self.counts = np.bincount(owners[placed], minlength=units)
        self.ranks_of = np.split(by_unit, np.cumsum(self.counts)[:-1])
        self.loads = np.array([problem.sizes[ranks].sum() for ranks in self.ranks_of], dtype=np.int64)
        self.levels = self.loads / problem.speeds
        self.moves = int(((owners != problem.homes) & (problem.homes != WAITING)).sum())

    def copy(self) -> Self:
        return type(self)(self.problem, self.owners)

    @property
    def max_level(self) -> float:
        return float(self.levels.max())

    def take(self, rank: int) -> None:
        """Off its owner, to be moved on; until then it counts as a move."""
        source = int(self.owners[rank])
        if source >= 0:
            ranks = self.ranks_of[source]
            self.ranks_of[source] = np.delete(ranks, ranks.searchsorted(rank))
            self._add(source, -1, -self.problem.sizes[rank])
        self.moves += int(source == self.problem.homes[rank] != WAITING)
        self.owners[rank] = WAITING

    def move(self, rank: int, target: int) -> None:
        self.take(rank)
        ranks = self.ranks_of[target]
        self.ranks_of[target] = np.insert(ranks, ranks.searchsorted(rank), rank)
        self._add(target, 1, self.problem.sizes[rank])
        self.owners[rank] = target
        self.moves -= int(target == self.problem.homes[rank])

    def _add(self, unit: int, count: int, size: int) -> None:
        self.counts[unit] += count
        self.loads[unit] += size
        self.levels[unit] = self.loads[unit] / self.problem.speeds[unit]

    def fits(self, rank: int, target: int, level: float) -> bool:
        """Whether the move keeps counts in bounds and leaves `target` at no more than `level`."""
        bounds = self.problem.bounds
        source = int(self.owners[rank])
        return bool(
            self.counts[target] < bounds.most[target]
            and self.counts[source] > bounds.least[source]
            and (self.loads[target] + self.problem.sizes[rank]) / self.problem.speeds[target] <= level
        )
