"""How many vnodes each unit gets: the exact part of the planner.

Every unit gets the floor or the ceil of its fair share, V * weight / all weights. A unit's own vnodes
stay up to its quota, so moves = owned - sum(min(have, quota)). What is free is who gets the ceils; they
go, in this order,
  1. to units above their floor: each saves a move (leaving this out costs a move too many in 2.6 % of
     balanced cases, evidence/mapping.md);
  2. where a move can then stay inside its worker;
  3. to units that own nothing yet: else a 1:1 replacement touches a bystander;
  4. to the larger remainder; 5. to the smaller id.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from decimal import Decimal

from meta.mapping.unit import Unit


def quotas(have: Mapping[int, int], units: Sequence[Unit], vnode_count: int) -> dict[int, int]:
    """The quota of each unit id; they sum to `vnode_count`. `have` counts what each unit owns now."""
    shares = _fair_shares(units, vnode_count)
    quota = {unit.id: floor for unit, (floor, _) in zip(units, shares, strict=True)}
    remainder = {unit.id: rest for unit, (_, rest) in zip(units, shares, strict=True)}
    ceils = vnode_count - sum(quota.values())

    by_preference = sorted(
        (unit for unit in units if remainder[unit.id]),
        key=lambda unit: (have.get(unit.id, 0) > 0, -remainder[unit.id], unit.id),
    )
    above = [unit for unit in by_preference if have.get(unit.id, 0) > quota[unit.id]]
    others = [unit for unit in by_preference if have.get(unit.id, 0) <= quota[unit.id]]
    for candidates in (above, others):
        chosen = _spread(candidates, ceils, _local_room(have, units, quota))
        for unit in chosen:
            quota[unit.id] += 1
        ceils -= len(chosen)
    assert ceils == 0
    return quota


def fewest_moves(have: Mapping[int, int], quota: Mapping[int, int]) -> int:
    """The lower bound for these quotas, where `have` counts the vnodes of gone owners too."""
    return sum(have.values()) - sum(min(have.get(unit, 0), most) for unit, most in quota.items())


def _fair_shares(units: Sequence[Unit], vnode_count: int) -> list[tuple[int, int]]:
    """Floor and remainder of each share, exactly; a weight counts as the decimal that was written."""
    if len({unit.weight for unit in units}) == 1:
        weights = [1] * len(units)
    else:
        ratios = [Decimal(repr(unit.weight)).as_integer_ratio() for unit in units]
        scale = math.lcm(*(denominator for _, denominator in ratios))
        weights = [numerator * (scale // denominator) for numerator, denominator in ratios]
    total = sum(weights)
    return [divmod(vnode_count * weight, total) for weight in weights]


def _local_room(have: Mapping[int, int], units: Sequence[Unit], quota: Mapping[int, int]) -> Counter[str]:
    """How many more ceils a worker can take before they cost a move between workers.

    A worker gives S vnodes away and its other units take D, so min(S, D) moves stay inside. A ceil for a
    giver lowers S, one for a taker raises D: either is free S - D times.
    """
    room: Counter[str] = Counter()
    for unit in units:
        room[unit.worker] += have.get(unit.id, 0) - quota[unit.id]
    return room


def _spread(candidates: Sequence[Unit], count: int, room: Counter[str]) -> list[Unit]:
    """The first `count` candidates, those first for whose worker there is room."""
    chosen: list[Unit] = []
    later: list[Unit] = []
    for unit in candidates:
        if len(chosen) < count and room[unit.worker] > 0:
            room[unit.worker] -= 1
            chosen.append(unit)
        else:
            later.append(unit)
    return chosen + later[: count - len(chosen)]
