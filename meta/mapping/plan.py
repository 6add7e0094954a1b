"""The rescale planner: from the previous owners and the units to the next mapping and its certificate.

A pure function that accepts any previous mapping: with gaps, gone owners, or badly unbalanced. The result does not
depend on the order of the units, and planning again from it moves nothing, but for what `defragment` allows anew.
`quota` says how many vnodes each unit gets, which makes the number of moves minimal; `layout` says which, which keeps
runs few; `defragment` spends extra moves on fewer runs; `budget` spreads the moves over several plans.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from meta.mapping.budget import Schedule, by_relief
from meta.mapping.defragment import exchanged, exchanges
from meta.mapping.errors import Malformed, MoreUnitsThanVnodes, NoCapacity, NoUnits
from meta.mapping.layout import lay_out
from meta.mapping.mapping import NOBODY, VnodeMapping
from meta.mapping.moves import Move, Moves
from meta.mapping.quota import Level, Quotas, quotas
from meta.mapping.reasons import Reasons
from meta.mapping.stretches import WAITING, Ids
from meta.mapping.unit import Unit, sorted_units
from storage_keys.errors import shown

__all__ = ["Certificate", "Level", "Move", "Moves", "Plan", "first_mapping", "plan", "steps"]


@dataclass(frozen=True, slots=True)
class Certificate:
    """The figures a plan is judged by.

    `moves` and `assigned` count vnodes: those that change their owner, and those that nobody owned. `lower_bound`
    is the fewest moves with which the goal can be reached, and `gap` is `moves - lower_bound`: 0, or the extra
    moves that defragmentation was allowed. With a budget both speak of this one step, which must place the vnodes
    of gone owners and of the other moves as many as the budget lets it; so `gap` is 0 here too, until
    defragmentation begins. `gap` is None only where loads are levelled instead of counts. `spread` is the difference
    between the most and the fewest vnodes that a unit with a weight above 0 owns. A move from a gone owner is one
    between workers.
    """

    moves: int
    assigned: int
    lower_bound: int
    gap: int | None
    spread: int
    runs: int
    cross_worker_moves: int


@dataclass(frozen=True, slots=True)
class Plan:
    """`mapping` follows `previous`; `remaining_moves` are those that later steps of a budget still have to make."""

    previous: VnodeMapping
    mapping: VnodeMapping
    moves: Moves
    certificate: Certificate
    remaining_moves: int = 0


def first_mapping(vnode_count: int, units: Iterable[Unit]) -> VnodeMapping:
    """One run for each unit, in order of ids. Raises `PlanError`."""
    return plan(VnodeMapping.unowned(vnode_count), units).mapping


def plan(
    previous: VnodeMapping,
    units: Iterable[Unit],
    *,
    level: Level = "units",
    budget: int | None = None,
    defragment: int = 0,
) -> Plan:
    """The plan with the fewest moves; with a `budget`, the first of `steps`.

    Each unit gets floor or ceil of its fair share; at level "workers" each worker, too, of its units' shares.
    `defragment` is how many moves more than the fewest may be made for fewer runs.
    Raises `NoUnits`, `NoCapacity`, `MoreUnitsThanVnodes`, `Malformed`.
    """
    return next(_sequence(previous, units, level, budget, defragment))


def steps(
    previous: VnodeMapping,
    units: Iterable[Unit],
    budget: int,
    *,
    level: Level = "units",
    defragment: int = 0,
) -> tuple[Plan, ...]:
    """The plans that lead to the goal, each with at most `budget` moves from live units; at least one.

    All vnodes of gone owners and of nobody are placed in the first, outside the budget. The fullest units are
    relieved first. There are max(1, ceil(moves from live units / budget)) of them and the last ends at the plan
    without a budget. `defragment` comes after that: its exchanges, none of more than `budget` moves, use what the
    last step leaves and then steps of their own. Raises as `plan`.
    """
    return tuple(_sequence(previous, units, level, budget, defragment))


def _sequence(
    previous: VnodeMapping, units: Iterable[Unit], level: Level, budget: int | None, defragment: int
) -> Iterator[Plan]:
    _require_options(level, budget, defragment)
    members = sorted_units(units)
    require_plannable(members, previous.vnode_count)
    start = _Start(previous, members)
    weights = [unit.weight for unit in members]
    quota = quotas(start.have, weights, start.workers, previous.vnode_count, level)
    goal = lay_out(start.before, start.have, quota.of_unit, start.workers)
    if budget is not None:
        return _budgeted(start, quota, goal, budget, defragment)
    after = goal
    if defragment:
        after = exchanged(goal, exchanges(start.before, goal, defragment))
    return iter([_plan(start, quota, goal, after, start.owned - quota.kept, 0)])


class _Start:
    """Where a plan starts, by slots of `units`: `before` is WAITING where the owner is gone or nobody."""

    def __init__(self, previous: VnodeMapping, units: tuple[Unit, ...]) -> None:
        self.previous = previous
        self.units = units
        self.ids = np.fromiter((unit.id for unit in units), np.int64, len(units))
        owners = previous.array
        slots = np.minimum(np.searchsorted(self.ids, owners), len(units) - 1)
        self.before: Ids = np.where(self.ids[slots] == owners, slots, WAITING)
        self.have: Ids = np.bincount(self.before + 1, minlength=len(units) + 1)[1:]
        self.owned = int(np.count_nonzero(owners != NOBODY))
        self.gone = self.owned - int(self.have.sum())

    @cached_property
    def workers(self) -> Ids:
        """The number of each unit's worker."""
        numbers: dict[str, int] = {}
        return np.array([numbers.setdefault(unit.worker, len(numbers)) for unit in self.units])


def _budgeted(start: _Start, quota: Quotas, goal: Ids, budget: int, defragment: int) -> Iterator[Plan]:
    order = by_relief(start.before, goal, start.have, start.units)
    trades = exchanges(None, goal, defragment, size_max=budget) if defragment else []
    schedule = Schedule(start.before, goal, order, trades, budget)
    voluntary = start.owned - quota.kept - start.gone
    for step, remaining_moves in enumerate(schedule.remaining_moves()):
        lower_bound = start.gone + max(0, min(budget, voluntary - step * budget))
        planned = _plan(start, quota, goal, schedule.end_of(step), lower_bound, remaining_moves)
        yield planned
        start = _Start(planned.mapping, start.units)


def _plan(
    start: _Start, quota: Quotas, goal: Ids, after: Ids, lower_bound: int, remaining_moves: int
) -> Plan:
    mapping = VnodeMapping.from_array(start.ids[after])
    owners = start.previous.array
    moved = np.flatnonzero((owners != mapping.array) & (owners != NOBODY))
    moves = Moves(
        moved,
        owners[moved],
        mapping.array[moved],
        Reasons(start.units, start.have, quota.of_unit, start.before, goal, after),
    )
    sources = start.before[moved]
    counts = np.bincount(after, minlength=len(start.units))
    shares = counts[[unit.weight > 0 for unit in start.units]]
    certificate = Certificate(
        moves=len(moves),
        assigned=start.previous.vnode_count - start.owned,
        lower_bound=lower_bound,
        gap=len(moves) - lower_bound,
        spread=int(shares.max() - shares.min()),
        runs=mapping.run_count,
        cross_worker_moves=int(
            np.count_nonzero((sources == WAITING) | (start.workers[sources] != start.workers[after[moved]]))
        ),
    )
    return Plan(start.previous, mapping, moves, certificate, remaining_moves)


def _require_options(level: object, budget: object, defragment: object) -> None:
    if level not in ("units", "workers"):
        raise Malformed(f'a level is "units" or "workers", not {shown(level)}')
    require_budget(budget)
    if type(defragment) is not int or defragment < 0:
        raise Malformed(f"defragment is a number of extra moves from 0, not {shown(defragment)}")


def require_budget(budget: object) -> None:
    # Not isinstance: True would pass for a budget of 1.
    if budget is not None and (type(budget) is not int or budget < 1):
        raise Malformed(
            f"a budget is a number of moves from 1, not {shown(budget)}; leave it out for one plan of all moves"
        )


def require_plannable(units: tuple[Unit, ...], vnode_count: int) -> None:
    if not units:
        raise NoUnits
    bearing = sum(unit.weight > 0 for unit in units)
    if not bearing:
        raise NoCapacity(len(units))
    if bearing > vnode_count:
        raise MoreUnitsThanVnodes(bearing, vnode_count)
