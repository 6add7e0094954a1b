"""Before loads are levelled: vnodes that nobody has get an owner, and counts get within their bounds."""

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

import numpy as np

from meta.mapping.load_state import DRAINED, Loading
from meta.mapping.stretches import WAITING


def settle(loading: Loading, budget: int | None) -> bool:
    """Place what waits, largest first on the lowest level (Graham's LPT); then repair counts.

    Drained units and those of too many vnodes give, those of too few take, and where that is not enough the
    fullest others give. A `budget` that does not suffice for all goes to drained units first, to their lightest
    vnodes, and to the units of too few while there are any. Whether it did suffice.
    """
    _place(loading, np.flatnonzero(loading.owners == WAITING).tolist(), hurry=False)
    drained = np.flatnonzero(loading.owners == DRAINED).tolist()
    due = loading.problem.bounds.moves_due(loading.counts, len(drained))
    moves = due if budget is None else min(due, budget)
    leaving = drained[:moves]
    for rank in leaving:
        loading.take(rank)
    for unit in [*_surplus(loading), *[None] * due]:
        if len(leaving) == moves:
            break
        rank = _chosen(loading, _donor(loading) if unit is None else unit)
        loading.take(rank)
        leaving.append(rank)
    _place(loading, sorted(leaving), hurry=moves < due)
    return moves == due


def _surplus(loading: Loading) -> Iterator[int]:
    """Each unit as often as it has vnodes too many."""
    above = np.maximum(loading.counts - loading.problem.bounds.most, 0)
    yield from np.repeat(np.arange(len(above)), above).tolist()


def _donor(loading: Loading) -> int:
    """The fullest unit that can spare a vnode."""
    able = loading.counts > loading.problem.bounds.least
    return int(np.where(able, loading.levels, -1).argmax())


def _chosen(loading: Loading, unit: int) -> int:
    """The vnode that brings the unit down to the mean in as few moves as are due, or its lightest one."""
    problem = loading.problem
    due = max(int(loading.counts[unit] - problem.bounds.most[unit]), 1)
    excess = (loading.loads[unit] - problem.speeds[unit] * problem.sizes.sum() / len(problem.speeds)) / due
    ranks = loading.ranks_of[unit]
    return int(ranks[min(int(problem.sizes[ranks].searchsorted(excess)), len(ranks) - 1)])


def _place(loading: Loading, ranks: list[int], *, hurry: bool) -> None:
    """`ranks` ascend. Units of too few vnodes come first when nobody else may get one, or in a `hurry`."""
    bounds = loading.problem.bounds
    lacking = int(np.maximum(bounds.least - loading.counts, 0).sum())
    queue = [(float(level), unit) for unit, level in enumerate(loading.levels)]
    heapify(queue)
    passed_over: list[tuple[float, int]] = []
    for left, rank in zip(range(len(ranks), 0, -1), reversed(ranks), strict=True):
        must = lacking > 0 and (hurry or left <= lacking)
        while True:
            entry = heappop(queue)
            count, least, most = (int(of[entry[1]]) for of in (loading.counts, bounds.least, bounds.most))
            if count < least or (count < most and not must):
                break
            if count < most:
                passed_over.append(entry)
        unit = entry[1]
        loading.move(rank, unit)
        heappush(queue, (float(loading.levels[unit]), unit))
        lacking -= int(count < least)
        if not lacking:
            for entry in passed_over:
                heappush(queue, entry)
            passed_over.clear()
