"""The search for the smallest maximum level: the fullest unit gives, again and again, until nothing helps.

Every step leaves both units below the level that was the greatest, so the sorted levels fall and the search ends.
The result is a local optimum over exchanges of up to two vnodes each way, to be held against the lower bound.
"""

from dataclasses import replace

import numpy as np

from meta.mapping.load_bound import Ints
from meta.mapping.load_exchange import find_step
from meta.mapping.load_settling import settle
from meta.mapping.load_state import Loading, Problem
from meta.mapping.stretches import WAITING

# A maximum this near to its bound is the smallest for all purposes, and one that falls by less is not worth a move.
NEAR_ENOUGH = 1e-3
WORTH_A_MOVE = 1e-4

ROUNDING = 1e-9


def level_out(problem: Problem, owners: Ints, bound: float) -> Loading:
    """Without a budget: settled, then levelled until that lowers the maximum no more.

    `owners` is where to start from: the homes, or more where those are nowhere. `bound` is one on the maximum.
    """
    start = Loading(problem, owners)
    settle(start, None)
    return _levelled(start, bound)


def level_within(
    problem: Problem, owners: Ints, bound: float, budget: int, budget_bound: float
) -> tuple[Loading, bool]:
    """The smallest maximum found with at most `budget` moves; what is left of them goes to the next fullest.

    And whether that is all that `level_out` would do. `budget_bound` is one on the maximum within the budget.
    """
    start = Loading(problem, owners)
    if not settle(start, budget):
        # Nothing is left but what was placed for nothing.
        lower(start, bound, budget)
        return start, False
    goal = _levelled(start, bound)
    if goal.moves <= budget:
        return goal, True
    best = start
    low, high = max(goal.max_level, budget_bound), start.max_level
    target = low * (1 + NEAR_ENOUGH)
    while high > low * (1 + NEAR_ENOUGH):
        trial = start.copy()
        lower(trial, target, budget)
        if trial.max_level < best.max_level:
            best = trial
        if trial.max_level <= target:
            high = trial.max_level
        else:
            low = target
        target = (low + high) / 2
    best = best.copy()
    lower(best, goal.max_level, budget)
    return best, False


def lower(loading: Loading, target: float, budget: int | None = None) -> None:
    """Towards `target` with at most `budget` moves in all; stops at the first unit that cannot be relieved."""
    while loading.max_level > target:
        left = None if budget is None else budget - loading.moves
        step = find_step(loading, int(loading.levels.argmax()), target, left)
        if step is None:
            return
        for rank, unit in step:
            loading.move(rank, unit)


def _levelled(start: Loading, bound: float) -> Loading:
    """Pass after pass, the last of which found nothing: so planning again from the result finds nothing."""
    current = start
    while True:
        following = _pass(current, bound)
        if following is None:
            if (current.problem.homes == current.owners).all():
                return Loading(start.problem, current.owners)
            following = current
            _tidy(following)
        current = Loading(replace(start.problem, homes=following.owners), following.owners)


def _pass(start: Loading, bound: float) -> Loading | None:
    """A lower maximum with few moves, or None."""
    target = bound * (1 + NEAR_ENOUGH)
    trial = start.copy()
    lower(trial, target)
    if trial.max_level > start.max_level * (1 - WORTH_A_MOVE):
        return None
    if trial.max_level > target:
        # Now that the level is known, units below it need not move anything.
        again = start.copy()
        reached = trial.max_level * (1 + ROUNDING)
        lower(again, reached)
        if again.max_level <= reached and again.moves < trial.moves:
            trial = again
    _return_needless(trial)
    _tidy(trial)
    return trial


def _return_needless(loading: Loading) -> None:
    """Undo each move that the maximum does not need, the heaviest first."""
    level = loading.max_level
    homes = loading.problem.homes
    for rank in np.flatnonzero((loading.owners != homes) & (homes >= 0))[::-1].tolist():
        if loading.fits(rank, int(homes[rank]), level):
            loading.move(rank, int(homes[rank]))


def _tidy(loading: Loading) -> None:
    """Give what moves anyway to a neighbour's owner where the maximum allows it: that saves a run."""
    level = loading.max_level
    problem = loading.problem
    rank_of = np.empty_like(problem.vnodes)
    rank_of[problem.vnodes] = np.arange(len(rank_of))
    free = (loading.owners != problem.homes) | (problem.homes == WAITING)
    for vnode in np.sort(problem.vnodes[free & (loading.owners >= 0)]).tolist():
        beside = [rank_of[v] for v in (vnode - 1, vnode + 1) if 0 <= v < len(rank_of)]
        owners = [int(loading.owners[rank]) for rank in beside]
        rank = int(rank_of[vnode])
        if loading.owners[rank] in owners:
            continue
        taker = next((u for u in owners if u >= 0 and loading.fits(rank, u, level)), None)
        if taker is not None:
            loading.move(rank, taker)
