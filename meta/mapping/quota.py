"""How many vnodes each unit gets: the exact part of the planner.

Every unit gets the floor or the ceil of its fair share, V * weight / all weights. A unit's own vnodes
stay up to its quota, so moves = owned - sum(min(have, quota)). What is free is who gets the ceils; they
go, in this order,
  1. to units above their floor: each saves a move (leaving this out costs a move too many in 2.6 % of
     balanced cases, evidence/mapping.md);
  2. where a move can then stay inside its worker;
  3. to units that own nothing yet: else a 1:1 replacement touches a bystander;
  4. to the larger remainder; 5. to the smaller id.

A worker whose units give S vnodes away and take D keeps min(S, D) moves inside. A ceil for a giver lowers S,
one for a taker raises D: either is free, or gains one, as often as S exceeds D; after that it costs one, or
gains nothing. Both are concave in the number of ceils, so taking them one by one is exact.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Context, Decimal, Inexact, InvalidOperation, localcontext
from typing import Literal

import numpy as np
import numpy.typing as npt

Level = Literal["units", "workers"]
Counts = npt.NDArray[np.int64]

# Holds the sum of any weights: floats lie between 1e-324 and 1e309.
_EXACT = Context(prec=1000, traps=[Inexact, InvalidOperation])


@dataclass(frozen=True, slots=True)
class Quotas:
    """`of_unit` is in order of units and sums to the vnode count; `kept` vnodes can stay, and no more."""

    of_unit: Counts
    kept: int


@dataclass(frozen=True, slots=True)
class _Shares:
    """Of each unit floor(share) and, over `total`, the remainder, exactly."""

    floors: Counts
    remainders: list[Decimal]
    total: Decimal


def quotas(
    have: Counts, weights: Sequence[float], workers: Counts, vnode_count: int, level: Level = "units"
) -> Quotas:
    """`have` counts what each unit owns now, `workers` numbers its worker; units are in order of ids.

    Level "workers" asks more: that each worker, too, gets the floor or ceil of its units' shares together.
    """
    with localcontext(_EXACT):
        shares = _fair_shares(weights, vnode_count)
        floors = shares.floors
        ceils = vnode_count - int(floors.sum())
        above, others = _by_preference(have, shares)
        # S - D of each worker.
        surplus = np.zeros(int(workers.max()) + 1, dtype=np.int64)
        np.add.at(surplus, workers, have - floors)
        if level == "units":
            chosen = _spread(above, others, ceils, surplus.tolist(), workers.tolist())
            saved = min(ceils, len(above))
        else:
            lines = _lines(above, others, shares, workers.tolist())
            chosen, saved = _levelled(lines, ceils, surplus.tolist(), [*above, *others])
    quota = floors.copy()
    quota[chosen] += 1
    assert quota.sum() == vnode_count
    return Quotas(quota, saved + int(np.minimum(have, floors).sum()))


def _fair_shares(weights: Sequence[float], vnode_count: int) -> _Shares:
    """A weight counts as the decimal that was written."""
    decimals = {weight: Decimal(repr(weight)) for weight in set(weights)}
    total = sum(map(decimals.__getitem__, weights), Decimal(0))
    share = {weight: divmod(vnode_count * decimal, total) for weight, decimal in decimals.items()}
    floor = {weight: int(whole) for weight, (whole, _) in share.items()}
    return _Shares(
        np.array([floor[weight] for weight in weights]), [share[weight][1] for weight in weights], total
    )


def _by_preference(have: Counts, shares: _Shares) -> tuple[list[int], list[int]]:
    """The units that may get a ceil: those above their floors, and the others."""
    # By id, for sorting is stable.
    by_remainder = sorted(range(len(have)), key=shares.remainders.__getitem__, reverse=True)
    able = np.array(by_remainder)[: sum(map(bool, shares.remainders))]
    able = np.concatenate((able[have[able] == 0], able[have[able] > 0]))
    above = have[able] > shares.floors[able]
    return able[above].tolist(), able[~above].tolist()


def _spread(
    above: Sequence[int], others: Sequence[int], ceils: int, surplus: list[int], workers: Sequence[int]
) -> list[int]:
    """The units that get a ceil at level "units"; `surplus` shrinks."""
    chosen: list[int] = []
    for candidates in (above, others):
        free: list[int] = []
        later: list[int] = []
        for at in candidates:
            if len(chosen) + len(free) < ceils and surplus[workers[at]] > 0:
                surplus[workers[at]] -= 1
                free.append(at)
            else:
                later.append(at)
        costly = later[: ceils - len(chosen) - len(free)]
        for at in costly:
            surplus[workers[at]] -= 1
        chosen += free + costly
    return chosen


@dataclass(slots=True)
class _Line:
    """A worker's units in the order in which they get its ceils: `least` of them, or one more if `may_more`."""

    units: list[int] = field(default_factory=list)
    above: int = 0
    rest: Decimal = Decimal(0)
    least: int = 0
    may_more: bool = False


def _lines(
    above: Sequence[int], others: Sequence[int], shares: _Shares, workers: Sequence[int]
) -> dict[int, _Line]:
    lines: defaultdict[int, _Line] = defaultdict(_Line)
    for candidates in (above, others):
        for at in candidates:
            line = lines[workers[at]]
            line.units.append(at)
            line.above += candidates is above
            line.rest += shares.remainders[at]
    for line in lines.values():
        least, remainder = divmod(line.rest, shares.total)
        line.least, line.may_more = int(least), remainder > 0
    return lines


def _levelled(
    lines: dict[int, _Line], ceils: int, surplus: Sequence[int], by_preference: Sequence[int]
) -> tuple[list[int], int]:
    """The units that get a ceil at level "workers", and how many moves that saves.

    One more ceil for a worker goes to the next in its line, so what it saves, then whether it is free, then
    who that unit is say which workers get one.
    """
    chosen = [at for line in lines.values() for at in line.units[: line.least]]
    saved = sum(min(line.least, line.above) for line in lines.values())
    place = {at: number for number, at in enumerate(by_preference)}

    def rank(worker: int) -> tuple[bool, bool, int]:
        line = lines[worker]
        free = surplus[worker] > line.least
        return line.least >= line.above, not free, place[line.units[line.least]]

    able = sorted((worker for worker, line in lines.items() if line.may_more), key=rank)
    for worker in able[: ceils - len(chosen)]:
        line = lines[worker]
        saved += line.least < line.above
        chosen.append(line.units[line.least])
    return chosen, saved
