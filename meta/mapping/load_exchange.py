"""One step of the search: what the fullest unit gives to another unit, and takes for it.

Load rebalancing is NP-hard (Aggarwal, Motwani & Zhu 2003). As there, a unit gives few vnodes to get down to the
target; where nothing fits whole, two units exchange. `Step` is the best exchange found: by gain for each move,
then by fewest bytes.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from meta.mapping.load_bound import Ints
from meta.mapping.load_state import Loading
from meta.mapping.stretches import WAITING

_NEAR = 32  # units with the most room, looked at before all others
_PAIRS_MAX = 32  # vnodes of a unit up to which pairs of them are tried
_PAIRS_IN_ALL = 1 << 13  # of other units
_SAMPLE = 512  # vnodes of other units looked at before all others
_ALL = 1 << 62
_NOISE = 1e-9  # loads that were meant to be equal may differ by their rounding


class _Reach(NamedTuple):
    """How far one look goes: bundles of up to `depth` vnodes, and about `vnodes` of the other units'."""

    depth: int
    vnodes: int


Step = tuple[tuple[int, int], ...]
"""Moves that belong together: rank and target of each."""


@dataclass(frozen=True, slots=True)
class _Bundles:
    """Things that may change hands together, the lightest first."""

    sizes: Ints  # (N,)
    ranks: Ints  # (N, K)
    owners: Ints  # (N,)


def find_step(loading: Loading, giver: int, target: float, moves_left: int | None) -> Step | None:
    """A step after which `giver` and the other unit are below the giver's level now, at `target` if possible.

    It costs at most `moves_left` moves, and there is none where none is left; returning a vnode to where it came
    from gives one back.
    """
    if moves_left == 0:
        return None
    step = _whole(loading, giver, target)
    if step is not None:
        return step
    near = np.argpartition(loading.levels, min(_NEAR, len(loading.levels)) - 1)[:_NEAR]
    step = _best_exchange(loading, giver, near, target, moves_left, _Reach(1, _SAMPLE))
    if step is not None:
        return step
    emptiest_first = np.argsort(loading.levels, kind="stable")
    for reach in (_Reach(1, _ALL), _Reach(2, _ALL)):
        step = _best_exchange(loading, giver, emptiest_first, target, moves_left, reach)
        if step is not None:
            return step
    return None


def _whole(loading: Loading, giver: int, target: float) -> Step | None:
    """The lightest vnode that brings the giver down to the target, to the unit that it fits best."""
    problem = loading.problem
    if loading.counts[giver] <= problem.bounds.least[giver]:
        return None
    ranks = loading.ranks_of[giver]
    excess = loading.loads[giver] - int(target * problem.speeds[giver])
    place = int(problem.sizes[ranks].searchsorted(excess))
    if place == len(ranks):
        return None
    rank = int(ranks[place])
    room = target * problem.speeds - loading.loads - problem.sizes[rank]
    room[(room < 0) | (loading.counts >= problem.bounds.most)] = np.inf
    room[giver] = np.inf
    home = int(problem.homes[rank])
    taker = home if home >= 0 and room[home] < np.inf else int(room.argmin())
    return ((rank, taker),) if room[taker] < np.inf else None


def _best_exchange(
    loading: Loading, giver: int, others: Ints, target: float, moves_left: int | None, reach: _Reach
) -> Step | None:
    others = others[loading.levels[others] < loading.levels[giver]]
    best: tuple[float, int] = (0.0, 0)
    step = None
    for gives, takes in _combinations(loading, giver, others, reach):
        found = _evaluate(loading, giver, gives, takes, target, moves_left)
        if found is not None and found[0] > best:
            best, step = found
    return step


def _combinations(
    loading: Loading, giver: int, others: Ints, reach: _Reach
) -> Iterator[tuple[_Bundles, _Bundles]]:
    """What may change hands within the count bounds: 1 against 0 or 1; at depth 2 also pairs."""
    counts, bounds = loading.counts, loading.problem.bounds
    give_max = reach.depth if counts[giver] <= _PAIRS_MAX else 1
    gives_of = [_bundles(loading, np.array([giver]), number, _ALL) for number in range(1, give_max + 1)]
    for number, gives in enumerate(gives_of, 1):
        for back in range(reach.depth + 1):
            net = number - back
            if (net > 0 and counts[giver] - net < bounds.least[giver]) or (
                net < 0 and counts[giver] - net > bounds.most[giver]
            ):
                continue
            able = others
            if net > 0:
                able = others[counts[others] + net <= bounds.most[others]]
            elif net < 0:
                able = others[counts[others] + net >= bounds.least[others]]
            if len(gives.sizes) and len(able):
                yield gives, _bundles(loading, able, back, reach.vnodes)


def _bundles(loading: Loading, units: Ints, number: int, vnodes_max: int) -> _Bundles:
    """Every choice of `number` (0, 1 or 2) vnodes of one of `units`, of every so-manieth where there are too many."""
    if number == 0:
        return _Bundles(np.zeros(len(units), np.int64), np.zeros((len(units), 0), np.int64), units)
    parts = [loading.ranks_of[unit] for unit in units]
    stride = 1 + sum(map(len, parts)) // vnodes_max
    if stride > 1:
        parts = [part[::stride] for part in parts]
    if number == 2:
        parts = _pairs(parts)
        units = units[: len(parts)]
    ranks = np.concatenate(parts).reshape(-1, number)
    owners = np.repeat(units, [len(part) for part in parts])
    sizes = loading.problem.sizes[ranks].sum(axis=1)
    if len(units) == 1:
        order = np.argsort(sizes, kind="stable")
        return _Bundles(sizes[order], ranks[order], owners)
    return _Bundles(sizes, ranks, owners)


def _pairs(parts: list[Ints]) -> list[Ints]:
    pairs: list[Ints] = []
    size = 0
    for part in parts:
        few = part if len(part) <= _PAIRS_MAX else part[-_PAIRS_MAX:]
        first, second = np.triu_indices(len(few), 1)
        pairs.append(np.stack((few[first], few[second]), axis=1))
        size += len(first)
        if size > _PAIRS_IN_ALL:
            break
    return pairs


def _evaluate(
    loading: Loading, giver: int, gives: _Bundles, takes: _Bundles, target: float, moves_left: int | None
) -> tuple[tuple[float, int], Step] | None:
    """The best of these exchanges with its gain for each move and, negative, its size."""
    speeds, loads = loading.problem.speeds, loading.loads
    speed, load = speeds[giver], int(loads[giver])
    taker_speed, taker_load = speeds[takes.owners], loads[takes.owners]
    # Either what brings the giver just down to the target, or what levels the two.
    enough = gives.sizes.searchsorted(takes.sizes + (load - int(target * speed)))
    level = (load * taker_speed - taker_load * speed) / (speed + taker_speed)
    even = gives.sizes.searchsorted(takes.sizes + level)
    give = np.concatenate((enough, even, even - 1)).clip(0, len(gives.sizes) - 1)
    take = np.tile(np.arange(len(takes.sizes)), 3)
    net = gives.sizes[give] - takes.sizes[take]
    after = np.maximum((load - net) / speed, (taker_load[take] + net) / taker_speed[take])
    gain = loading.levels[giver] - np.maximum(after, target)
    able = gain > _NOISE * loading.levels[giver]
    give, take, gain = give[able], take[able], gain[able]
    cost = _cost(loading, gives.ranks[give], giver, takes.owners[take])
    cost += _cost(loading, takes.ranks[take], takes.owners[take], giver)
    rate = gain / np.maximum(cost, 0.5)
    if moves_left is not None:
        rate[cost > moves_left] = 0
    top = float(rate.max(initial=0.0))
    if top == 0:
        return None
    best = np.flatnonzero(rate == top)
    moved = gives.sizes[give[best]] + takes.sizes[take[best]]
    at = best[moved.argmin()]
    step = _step(gives.ranks[give[at]], takes.ranks[take[at]], giver, int(takes.owners[take[at]]))
    return (top, -int(moved.min())), step


def _step(given: Ints, taken: Ints, giver: int, taker: int) -> Step:
    return (*product(given.tolist(), [taker]), *product(taken.tolist(), [giver]))


def _cost(loading: Loading, ranks: Ints, source: Ints | int, target: Ints | int) -> Ints:
    """How many moves more there are in all, where each row of `ranks` goes from `source` to `target`."""
    cost = np.zeros(len(ranks), dtype=np.int64)
    for column in loading.problem.homes[ranks].T:
        counted = column != WAITING
        cost += counted & (column != target)
        cost -= counted & (column != source)
    return cost
