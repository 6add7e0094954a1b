"""A plan's moves spread over steps, none with more moves from live units than a budget."""

import math
from collections.abc import Sequence
from itertools import accumulate, chain

import numpy as np

from meta.mapping.defragment import Exchange, exchanged
from meta.mapping.stretches import WAITING, Ids, stretches
from meta.mapping.unit import Unit


class Schedule:
    """The steps from `before` to `goal`, both slots, and on through `exchanges`, of at most `budget` moves each.

    `order` has the vnodes that leave live units; vnodes that wait for an owner are placed in the first step. What
    the last move leaves of its step's budget is for exchanges; there is always one step.
    """

    def __init__(
        self, before: Ids, goal: Ids, order: Ids, exchanges: Sequence[Exchange], budget: int
    ) -> None:
        self._placed = np.where(before == WAITING, goal, before)
        self._goal = goal
        self._order = order
        self._budget = budget
        self._last = max(1, math.ceil(len(order) / budget)) - 1  # the step that reaches the goal
        self._batches = _batches(exchanges, budget - (len(order) - self._last * budget), budget)

    def __len__(self) -> int:
        return self._last + len(self._batches)

    def end_of(self, step: int) -> Ids:
        if step >= self._last:
            return exchanged(self._goal, chain(*self._batches[: step - self._last + 1]))
        end = self._placed.copy()
        moved = self._order[: (step + 1) * self._budget]
        end[moved] = self._goal[moved]
        return end

    def remaining_moves(self) -> list[int]:
        """After each step, how many moves the later ones make."""
        moves = [self._moves_of(step) for step in range(1, len(self))]
        return [*accumulate(reversed(moves), initial=0)][::-1]

    def _moves_of(self, step: int) -> int:
        if step < self._last:
            return self._budget
        return int(np.count_nonzero(self.end_of(step) != self.end_of(step - 1)))


def by_relief(before: Ids, goal: Ids, have: Ids, units: Sequence[Unit]) -> Ids:
    """The vnodes that leave a live unit, in order: each leaves the unit that is then fullest against its share.

    A drained unit is infinitely full; among drained ones the one with the most vnodes is first. `before` and
    `goal` are slots of `units`, `have` counts vnodes.
    """
    vnodes = np.flatnonzero((before != WAITING) & (before != goal))
    if not len(vnodes):
        return vnodes
    vnodes = vnodes[np.lexsort((goal[vnodes], before[vnodes]))]
    sources = before[vnodes]
    heads, sizes = stretches(sources)
    left_before = np.arange(len(vnodes)) - np.repeat(heads, sizes)
    remaining = have[sources] - left_before
    weights = np.array([unit.weight for unit in units])
    with np.errstate(divide="ignore", over="ignore"):
        fullness = remaining / (weights / weights.max())[sources]
    return vnodes[np.lexsort((sources, -remaining, -fullness))]


def _batches(exchanges: Sequence[Exchange], spare: int, budget: int) -> list[list[Exchange]]:
    """In order: a first batch of at most `spare` moves, perhaps none, then others of at most `budget`."""
    batches: list[list[Exchange]] = [[]]
    for exchange in exchanges:
        moves = 2 * exchange.length
        if moves > spare:
            batches.append([])
            spare = budget
        batches[-1].append(exchange)
        spare -= moves
    return batches
