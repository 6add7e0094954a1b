"""The planner by load: from what each vnode weighs to the mapping whose fullest unit carries the least.

A pure function, as `plan`: any previous mapping, independent of the order of the units, and planning again from
the result of a plan without a budget moves nothing. The problem is NP-hard, so the answer is a local optimum
(`load_search`) that carries a proven lower bound (`load_bound`) to be judged by.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
import numpy.typing as npt

from meta.mapping.amount import is_amount
from meta.mapping.errors import Malformed
from meta.mapping.load_bound import CountBounds, Floats, Ints, count_bounds, lower_bound, speeds_of
from meta.mapping.load_search import level_out, level_within
from meta.mapping.load_state import DRAINED, Loading, Problem
from meta.mapping.mapping import VnodeMapping
from meta.mapping.moves import Moves
from meta.mapping.plan import Certificate, Plan, first_mapping, plan, require_budget, require_plannable
from meta.mapping.stretches import WAITING
from meta.mapping.unit import Unit, sorted_units
from storage_keys.errors import shown

_EXACT_BITS = 52  # sums of integers below 2**52 are exact in float64 too


@dataclass(frozen=True, slots=True)
class LoadCertificate(Certificate):
    """`max_load` is the largest load of a unit of weight above 0, in the unit of the loads.

    A unit's load counts divided by its weight over the mean of these weights. No mapping within the count bounds
    and the budget has a largest load below `max_load_lower_bound`. `max_load_before` leaves out the vnodes that no
    such unit had. `lower_bound` is 0 and `gap` None: moves are not what is minimal.
    """

    max_load: float
    max_load_lower_bound: float
    max_load_before: float


def plan_by_load(
    previous: VnodeMapping,
    units: Iterable[Unit],
    loads: Sequence[float] | npt.NDArray[np.float64],
    *,
    count_slack: float = 0.25,
    budget: int | None = None,
) -> Plan:
    """The plan for the smallest largest load, with few moves: none that does not lower it.

    `loads[v]` is what vnode v weighs, in bytes or rows a second. Counts stay within `count_slack` of a unit's fair
    share, at least 1. With a `budget`, at most so many moves from units that are listed, and none but repairs
    (draining, counts out of bounds) while there are any, even where these raise the largest load; then it falls as
    far as the budget lets it.
    `remaining_moves` is what a plan without a budget would move after this one; 0 also where the budget is too
    small for any further step. Where all loads are 0, counts are levelled, as
    `plan` does.
    Raises `NoUnits`, `NoCapacity`, `MoreUnitsThanVnodes`, `Malformed`.
    """
    start = _Start(previous, sorted_units(units), loads, count_slack)
    require_budget(budget)
    if not start.loads.any():
        return _by_count(previous, start.units, budget)
    return _planned(start, None if budget is None else min(budget, previous.vnode_count))


def max_load_of(mapping: VnodeMapping, units: Iterable[Unit], loads: Sequence[float]) -> float:
    """The largest load as `LoadCertificate` counts it, of any mapping. Raises as `plan_by_load`."""
    start = _Start(mapping, sorted_units(units), loads, 0.0)
    return float(start.levels(start.homes).max())


class _Start:
    """The input, checked; owners as places among the units of weight above 0 (`bearing`)."""

    def __init__(
        self, previous: VnodeMapping, units: tuple[Unit, ...], loads: Sequence[float] | Floats, slack: float
    ) -> None:
        _require_slack(slack)
        self.previous = previous
        self.units = units
        self.slack = slack
        self.loads = _checked_loads(loads, previous.vnode_count)
        require_plannable(units, previous.vnode_count)
        self.bearing = tuple(unit for unit in units if unit.weight > 0)
        self.ids = np.array([unit.id for unit in self.bearing], dtype=np.int64)
        self.speeds = speeds_of(np.array([unit.weight for unit in self.bearing]))
        with np.errstate(over="ignore"):
            greatest = float(self.loads.sum() / self.speeds.min())
        if not math.isfinite(greatest):
            raise Malformed("loads over weights are beyond what a float holds; give loads in a larger unit")
        self.homes = self._slots(previous.array)

    def _slots(self, owners: Ints) -> Ints:
        places = np.minimum(np.searchsorted(self.ids, owners), len(self.ids) - 1)
        slots = np.where(self.ids[places] == owners, places, WAITING)
        drained = [unit.id for unit in self.units if unit.weight == 0]
        slots[np.isin(owners, drained)] = DRAINED
        return slots

    @property
    def bounds(self) -> CountBounds:
        return count_bounds(self.speeds, self.previous.vnode_count, self.slack)

    def levels(self, slots: Ints) -> Floats:
        borne = slots >= 0
        loads = np.bincount(slots[borne], self.loads[borne], minlength=len(self.speeds))
        levels: Floats = loads / self.speeds
        return levels

    def counts(self, slots: Ints) -> Ints:
        return np.bincount(slots[slots >= 0], minlength=len(self.speeds))


def _planned(start: _Start, budget: int | None) -> Plan:
    order = np.lexsort((np.arange(len(start.loads)), start.loads))
    exponent = _exponent(start.loads)
    sizes = np.floor(np.ldexp(start.loads, exponent)).astype(np.int64)[order]
    problem = Problem(sizes, order, start.homes[order], start.speeds, start.bounds)
    owners = problem.homes
    if (owners == WAITING).all():
        # Nobody has anything to keep or to move, so begin with one run for each unit, and with no budget.
        budget = None
        owners = start._slots(first_mapping(len(order), start.bearing).array)[order]
    bound, within = (
        lower_bound(sizes.astype(np.float64), problem.homes, start.speeds, problem.bounds, limit)
        for limit in (None, budget)
    )
    if budget is None:
        loading, complete = level_out(problem, owners, bound), True
    else:
        loading, complete = level_within(problem, owners, bound, budget, within)
    after = np.empty_like(order)
    after[order] = loading.owners
    remaining = 0 if complete or not loading.moves else _moves_left(problem, loading, bound)
    # What is true of loads rounded down is true of the loads.
    return _plan_of(start, after, math.ldexp(within, -exponent), remaining)


def _moves_left(problem: Problem, loading: Loading, bound: float) -> int:
    later = Problem(problem.sizes, problem.vnodes, loading.owners, problem.speeds, problem.bounds)
    return level_out(later, loading.owners, bound).moves


def _plan_of(start: _Start, after: Ints, bound: float, remaining_moves: int) -> Plan:
    owners = start.previous.array
    mapping = VnodeMapping.from_array(np.where(after >= 0, start.ids[np.maximum(after, 0)], owners))
    owned = owners >= 0
    moved = np.flatnonzero(owned & (owners != mapping.array))
    moves = Moves(moved, owners[moved], mapping.array[moved], _Reasons(start))
    max_load = float(start.levels(after).max())
    counts = start.counts(after)
    worker = {unit.id: unit.worker for unit in start.units}
    pairs = zip(moves.sources.tolist(), moves.targets.tolist(), strict=True)
    certificate = LoadCertificate(
        moves=len(moves),
        assigned=int((~owned).sum()),
        lower_bound=0,
        gap=None,
        spread=int(counts.max() - counts.min()),
        runs=mapping.run_count,
        cross_worker_moves=sum(worker.get(source) != worker[target] for source, target in pairs),
        max_load=max_load,
        # Both are rounded, so an exact optimum could come out a hair below its bound.
        max_load_lower_bound=min(bound, max_load),
        max_load_before=float(start.levels(start.homes).max()),
    )
    return Plan(start.previous, mapping, moves, certificate, remaining_moves)


def _by_count(previous: VnodeMapping, units: tuple[Unit, ...], budget: int | None) -> Plan:
    counted = plan(previous, units, budget=budget)
    figures = counted.certificate
    nothing = {"max_load": 0.0, "max_load_lower_bound": 0.0, "max_load_before": 0.0}
    certificate = LoadCertificate(**asdict(figures) | {"lower_bound": 0, "gap": None} | nothing)
    return Plan(previous, counted.mapping, counted.moves, certificate, counted.remaining_moves)


class _Reasons:
    """Why a vnode moves, by what the units carried before."""

    def __init__(self, start: _Start) -> None:
        self._slot_of = {unit.id: slot for slot, unit in enumerate(start.bearing)}
        self._drained = {unit.id for unit in start.units if unit.weight == 0}
        self._times = start.levels(start.homes) * len(start.bearing) / start.loads.sum()
        self._counts = start.counts(start.homes)
        self._bounds = start.bounds

    def __call__(self, _vnode: int, source: int, target: int) -> str:
        return f"{self._why_given(source, target)}; {self._why_taken(target)}"

    def _why_given(self, source: int, target: int) -> str:
        if source in self._drained:
            return f"unit {source} is drained (weight 0)"
        slot = self._slot_of.get(source)
        if slot is None:
            return f"unit {source} is gone"
        if self._counts[slot] > self._bounds.most[slot]:
            return f"unit {source} has {self._counts[slot]} vnodes and may have {self._bounds.most[slot]}"
        carries = f"unit {source} carries {self._times[slot]:.2f} times the mean"
        exchanged = self._times[slot] <= self._times[self._slot_of[target]]
        return f"{carries} and gives it in exchange" if exchanged else carries

    def _why_taken(self, target: int) -> str:
        slot = self._slot_of[target]
        if not self._counts[slot]:
            return f"unit {target} is new"
        if self._counts[slot] < self._bounds.least[slot]:
            return f"unit {target} has {self._counts[slot]} vnodes and needs {self._bounds.least[slot]}"
        return f"unit {target} carries {self._times[slot]:.2f} times"


def _exponent(loads: Floats) -> int:
    """Of the power of two that makes loads integers: exact for integers that sum to less than 2**52."""
    greatest = math.frexp(float(loads.max()))[1]
    return _EXACT_BITS - greatest - math.frexp(float(np.ldexp(loads, -greatest).sum()))[1]


def _checked_loads(loads: object, vnode_count: int) -> Floats:
    if not isinstance(loads, np.ndarray) and (
        not isinstance(loads, Sequence) or isinstance(loads, str | bytes)
    ):
        raise Malformed(f"loads are a list of numbers, one for each vnode, not {shown(loads)}")
    values = loads.tolist() if isinstance(loads, np.ndarray) else loads
    if not isinstance(values, Sequence):
        raise Malformed(f"loads are a list of numbers, one for each vnode, not {shown(values)}")
    if len(values) != vnode_count:
        raise Malformed(
            f"there are {len(values)} loads and {vnode_count} vnodes; give one load for each vnode"
        )
    for vnode, value in enumerate(values):
        if not is_amount(value):
            raise Malformed(
                f"vnode {vnode}: a load is a finite number from 0 (bytes or rows a second), not {shown(value)};"
                " give 0 where nothing is known"
            )
    return np.array(values, dtype=np.float64)


def _require_slack(slack: object) -> None:
    if not is_amount(slack):
        raise Malformed(f"a count slack is a finite number from 0, such as 0.25, not {shown(slack)}")
