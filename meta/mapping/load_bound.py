"""What any mapping must bear: count bounds, and a proven lower bound on the largest load.

Loads are float64 of shape (V,), speeds float64 of shape (U,): a unit's weight over the mean weight, so that a
unit's *level* is its load divided by its speed, and speeds sum to U. Every bound below holds for each mapping
within the bounds, so the largest of them does.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_ROUNDING = 1e-9  # a share of 3.9999999999 is 4
_HOSTED = 4  # vnodes whose hosts are considered, the heaviest
_ROUNDS = 20  # of bisection, between a bound and its double
_SPEED_MIN = 1e-200  # a weight this far below the others would divide by zero


@dataclass(frozen=True, slots=True)
class CountBounds:
    """The least and the most vnodes of each unit, int64 of shape (U,)."""

    least: Ints
    most: Ints

    def moves_due(self, counts: Ints, drained: int) -> int:
        """The fewest moves that bring `counts` within the bounds and leave drained units with nothing."""
        above = int(np.maximum(counts - self.most, 0).sum()) + drained
        return max(above, int(np.maximum(self.least - counts, 0).sum()))


def speeds_of(weights: Floats) -> Floats:
    """Each weight over their mean; `weights` are above 0."""
    relative = weights / weights.max()
    speeds: Floats = np.maximum(relative / relative.mean(), _SPEED_MIN)
    return speeds


def count_bounds(speeds: Floats, vnode_count: int, slack: float) -> CountBounds:
    """From floor(share * (1 - slack)), at least 1, to ceil(share * (1 + slack)); V >= U.

    Where the ones for units of tiny shares leave too little, the others' least is cut to their share of the rest.
    """
    share = vnode_count * speeds / len(speeds)
    slack = min(slack, float(vnode_count))  # more lets nothing else through
    least = np.maximum(np.floor(share * (1 - slack) + _ROUNDING), 1)
    if least.sum() > vnode_count:
        rest = (vnode_count - len(speeds)) * speeds / len(speeds)
        least = np.minimum(least, 1 + np.floor(rest * (1 - _ROUNDING)))
    most = np.clip(np.ceil(share * (1 + slack) - _ROUNDING), least, vnode_count)
    return CountBounds(least.astype(np.int64), most.astype(np.int64))


def spread_bound(loads: Floats, speeds: Floats) -> float:
    """The bound without counts and moves. Raises nothing; `loads` may be empty (then 0).

    The mean: levels weighted by speed have the mean sum(loads) / sum(speeds), and the largest is no less.
    k vnodes on one unit: of the k * U + 1 largest, some unit holds k + 1, on no more than the greatest speed.
    The i-th: of the i largest two share a unit, or one is on a unit that is not among the i - 1 fastest.
    """
    if not len(loads):
        return 0.0
    down = np.sort(loads)[::-1]
    units, fastest = len(speeds), float(speeds.max())
    bound = float(loads.sum() / speeds.sum())
    prefix = np.concatenate(([0.0], np.cumsum(down)))
    k = np.arange((len(down) - 1) // units + 1)
    ends = k * units + 1
    bound = max(bound, float((prefix[ends] - prefix[ends - k - 1]).max()) / fastest)
    few = min(units, len(down))
    alone = down[:few] / np.sort(speeds)[::-1][:few]
    paired = (down[:few] + np.concatenate(([np.inf], down[: few - 1]))) / fastest
    return max(bound, float(np.minimum(alone, paired).max()))


def count_bound(loads: Floats, speeds: Floats, bounds: CountBounds) -> float:
    """The bound from counts.

    Company: who holds the largest vnode holds `least - 1` more, which weigh no less than the lightest ones.
    Least: each unit holds at least its `least` lightest vnodes.
    Room: a unit of level T holds no more than T * speed and than its `most` heaviest vnodes; these must sum to
    the total. The smallest such T is found among the levels where a unit's second limit sets in.
    """
    up = np.sort(loads)
    lightest = np.concatenate(([0.0], np.cumsum(up)))
    heaviest = np.concatenate(([0.0], np.cumsum(up[::-1])))
    company = float(((up[-1] + lightest[bounds.least - 1]) / speeds).min())
    least = float((lightest[bounds.least] / speeds).max())
    return max(company, least, _room(heaviest[bounds.most], speeds, float(loads.sum())))


def _room(limits: Floats, speeds: Floats, total: float) -> float:
    order = np.argsort(limits / speeds, kind="stable")
    limits, speeds = limits[order], speeds[order]
    full = np.concatenate(([0.0], np.cumsum(limits)[:-1]))
    speed_left = np.cumsum(speeds[::-1])[::-1]
    # With the first i units at their limit, the others share what is left.
    level = (total - full) / speed_left
    fits = level <= limits / speeds
    return float(level[int(np.argmax(fits))]) if fits.any() else 0.0


class _Gifts:
    """How many vnodes each unit must give for a level, where `owners[v]` is an index of `speeds` or below 0."""

    def __init__(self, loads: Floats, owners: Ints, speeds: Floats, gifts_max: int) -> None:
        vnodes = np.flatnonzero(owners >= 0)
        # By unit, the lightest first: the running sum within a unit is what is left when all heavier ones went.
        vnodes = vnodes[np.lexsort((loads[vnodes], owners[vnodes]))]
        unit = owners[vnodes]
        counts = np.bincount(unit, minlength=len(speeds))
        firsts = np.cumsum(counts) - counts
        left = np.concatenate([np.cumsum(part) for part in np.split(loads[vnodes], firsts[1:])])
        few = counts[unit] - 1 - (np.arange(len(vnodes)) - firsts[unit]) <= gifts_max
        self._left, self._unit, self.speeds = left[few], unit[few], speeds

    def needed(self, level: float, reserved: float) -> Ints:
        """The fewest, heaviest first, after which the rest and `reserved` are no more than `level`; int64 (U,)."""
        above = self._left > (level * self.speeds - reserved)[self._unit]
        return np.bincount(self._unit[above], minlength=len(self.speeds))


@dataclass(frozen=True, slots=True)
class Allowance:
    """`moves` from units that bear loads, each of which gives `due` anyway and `spare` without taking any back.

    `spare` and `due` are int64 of shape (U,).
    """

    moves: int
    due: Ints
    spare: Ints


def move_bound(loads: Floats, owners: Ints, speeds: Floats, allowed: Allowance, floor: float) -> float:
    """The bound from a budget, or `floor` (above 0) where that is greater; `owners` as in `_Gifts`.

    Gifts: a unit gets to level T by no fewer moves than giving its heaviest vnodes one by one takes.
    Floors: a unit that gives more than it can spare takes as many back, and each of these is a gift of another.
    Hosts: each of the heaviest vnodes has a host, which gives what makes room for it, while the others give what
    they must; if the host is not its owner, its owner gives at least the vnode.
    What no such choice affords at T has no mapping of largest level T or less; the greatest such T is bisected.
    """
    gifts = _Gifts(loads, owners, speeds, allowed.moves + 1)
    heaviest = np.argsort(loads, kind="stable")[-_HOSTED:]
    hosted = [(float(loads[vnode]), int(owners[vnode])) for vnode in heaviest]

    def affordable(level: float) -> bool:
        needed = np.maximum(gifts.needed(level, 0.0), allowed.due)
        if _moves(needed, needed, allowed).max() > allowed.moves:
            return False
        return all(_host_moves(gifts, level, needed, vnode, allowed) <= allowed.moves for vnode in hosted)

    if affordable(floor):
        return floor
    low, high = floor, 2 * floor
    while not affordable(high):
        low, high = high, 2 * high
    for _ in range(_ROUNDS):
        middle = (low + high) / 2
        low, high = (low, middle) if affordable(middle) else (middle, high)
    return low


def _moves(giving: Ints, needed: Ints, allowed: Allowance) -> Ints:
    """The fewest moves in all where one unit gives `giving` and the others what they need; for each unit."""
    moves: Ints = giving + np.maximum(needed.sum() - needed, giving - allowed.spare)
    return moves


def _host_moves(
    gifts: _Gifts, level: float, needed: Ints, vnode: tuple[float, int], allowed: Allowance
) -> int:
    """The fewest moves in all, whoever hosts `vnode`, which is its load and its owner."""
    load, owner = vnode
    hosting = gifts.needed(level, load)
    giving = np.maximum(hosting, needed)
    if owner < 0:
        moves = _moves(giving, needed, allowed)
    else:
        # Its owner may keep it, and so gives one other less.
        giving[owner] = max(hosting[owner] - 1, needed[owner])
        elsewhere = needed.copy()
        elsewhere[owner] = max(needed[owner], 1)
        moves = _moves(giving, elsewhere, allowed)
    moves[load > level * gifts.speeds] = allowed.moves + 1
    return int(moves.min())


def lower_bound(
    loads: Floats, owners: Ints, speeds: Floats, bounds: CountBounds, budget: int | None
) -> float:
    """The greatest bound of a problem; `owners` as in `_Gifts`, with -2 for vnodes of drained units.

    Where the budget is too small for the moves that are due, drained units keep vnodes and counts stay out of
    bounds: then only the vnodes elsewhere are sure to be borne, and counts prove nothing.
    """
    counts = np.bincount(owners[owners >= 0], minlength=len(speeds))
    drained = int((owners == -2).sum())
    waiting = int((owners == -1).sum())
    due = np.maximum(counts - bounds.most, 0)
    lacking = int(np.maximum(bounds.least - counts, 0).sum()) - waiting
    complete = budget is None or max(int(due.sum()) + drained, lacking) <= budget
    if not complete:
        loads, owners = loads[owners != -2], owners[owners != -2]
    bound = spread_bound(loads, speeds)
    if complete:
        bound = max(bound, count_bound(loads, speeds, bounds))
    if budget is None or not bound:
        return bound
    # What waits or is drained may be taken by a unit that gives more than it can spare.
    allowed = Allowance(budget - drained, due, counts - bounds.least + waiting + drained)
    if not complete:
        allowed = Allowance(budget, np.zeros_like(due), counts)
    return move_bound(loads, owners, speeds, allowed, bound)
