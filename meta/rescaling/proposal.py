"""From a goal to the next mapping: which units, by which rule, and what the operator should know of it.

Pure. The planner (`meta.mapping`) knows units; here are workers that are lost, drained or labelled.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from meta.errors import BadGoal, UnitsNotAlive, UnitsNotLabelled, shown_some
from meta.lifecycle import Moment, Worker
from meta.mapping.diff import Diff
from meta.mapping.errors import NoUnits
from meta.mapping.load import plan_by_load
from meta.mapping.mapping import VnodeMapping
from meta.mapping.placement import choose_units
from meta.mapping.plan import Certificate, Plan, plan
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from meta.rescaling.goal import ByLoad, ChangedUnits, Goal, OnUnits, SameUnits, ToParallelism
from storage_keys.errors import StorageKeyError
from storage_keys.vnode import check_vnode_count

Loads = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a goal comes to. `units` are the next version's; `leaving` live and own nothing any more.

    `reasons` has one text for each move of `Diff(base, mapping)`, in order of vnodes.
    """

    units: tuple[Unit, ...]
    leaving: tuple[Unit, ...]
    mapping: VnodeMapping
    certificate: Certificate
    reasons: tuple[str, ...]
    warnings: tuple[str, ...] = ()
    remaining_moves: int = 0


class Fleet:
    """The units that live at a moment. A draining worker's live, and no plan gives them anything."""

    def __init__(self, workers: Iterable[Worker], moment: Moment) -> None:
        self._workers = {worker.name: worker for worker in workers if worker.alive(moment)}
        self.alive = {unit.id: unit for worker in self._workers.values() for unit in worker.units}

    def usable(self, labels: Mapping[str, str]) -> dict[int, Unit]:
        """By id: those that a plan with these labels may choose."""
        return {
            unit.id: unit
            for worker in self._workers.values()
            if not worker.draining and labels.items() <= worker.labels.items()
            for unit in worker.units
        }

    def require_usable(self, unit_ids: Iterable[int], labels: Mapping[str, str]) -> None:
        """Raises `UnitsNotAlive`, `UnitsNotLabelled`."""
        wanted = set(unit_ids)
        if missing := sorted(wanted - self.usable({}).keys()):
            raise UnitsNotAlive(missing, self.draining(missing))
        if missing := sorted(wanted - self.usable(labels).keys()):
            raise UnitsNotLabelled(missing, dict(labels))

    def draining(self, unit_ids: Iterable[int]) -> list[str]:
        """The workers that live and drain, of these units."""
        names = {self.alive[unit_id].worker for unit_id in unit_ids if unit_id in self.alive}
        return sorted(name for name in names if self._workers[name].draining)


def levelled(goal: Goal, base: MappingVersion, fleet: Fleet, loads: Loads | None) -> Proposal:
    """The planner's mapping; `loads` are there for a goal by load. Raises `MetaError`, `MappingError`."""
    chosen = _chosen(goal, base, fleet)
    bearing = {unit.id for unit in chosen if unit.weight > 0}
    _require_chosen(goal, chosen, base)
    # Without the live units that leave, the planner would not know the workers that they are on.
    leaving = [
        replace(fleet.alive[unit.id], weight=0.0)
        for unit in (*base.units, *chosen)
        if unit.id not in bearing and unit.id in fleet.alive
    ]
    members = (*(unit for unit in chosen if unit.weight > 0), *dict.fromkeys(leaving))
    planned = _planned(goal, base, members, loads)
    owning = set(planned.mapping.units)
    return Proposal(
        units=tuple(sorted(unit for unit in members if unit.weight > 0 or unit.id in owning)),
        leaving=tuple(sorted(unit for unit in members if unit.weight == 0 and unit.id not in owning)),
        mapping=planned.mapping,
        certificate=planned.certificate,
        reasons=tuple(move.reason for move in planned.moves),
        warnings=(
            *_of_budget(planned.remaining_moves),
            *_of_lost(base, fleet, "their vnodes go to others"),
            *_of_draining(base, fleet),
            *_of_idle(bearing - owning),
        ),
        remaining_moves=planned.remaining_moves,
    )


def rolled_back(base: MappingVersion, then: MappingVersion, fleet: Fleet) -> Proposal:
    """The mapping of the version `then`, with its weights and its vnode count.

    Each of its units that lives and is not draining owns what it owned. Each other one is replaced by a unit that
    had nothing then, which owns just what that one owned and has its weight: lowest id for lowest id, the new units
    spread over workers as `choose_units` does. Only where there are not enough of these does the planner place the
    vnodes of the rest, which levels the counts of all. Raises `MetaError`, `MappingError`.
    """
    usable = fleet.usable({})
    if not usable:
        raise NoUnits
    owning = set(then.mapping.units)
    owners = [unit for unit in then.units if unit.id in owning]
    gone = [unit for unit in owners if unit.id not in usable]
    standing = dict(
        zip((unit.id for unit in gone), _substitutes(then, owners, usable, len(gone)), strict=False)
    )
    mapping = _replaced(then.mapping, standing)
    successors = [(standing.get(unit.id, unit.id), unit.weight) for unit in owners]
    units = [replace(usable[unit_id], weight=weight) for unit_id, weight in successors if unit_id in usable]
    if len(standing) < len(gone):
        mapping = plan(mapping, units).mapping
    diff = Diff(base.mapping, mapping)
    leaving = fleet.alive.keys() & {unit.id for unit in base.units} - {unit.id for unit in units}
    return Proposal(
        units=tuple(sorted(units)),
        leaving=tuple(replace(fleet.alive[unit_id], weight=0.0) for unit_id in sorted(leaving)),
        mapping=mapping,
        certificate=_certificate(diff, units, fleet),
        reasons=_reasons_of_rollback(diff, then, standing),
        warnings=(*_of_lost(then, fleet, "others take their place"), *_of_draining(then, fleet)),
    )


def recounted(base: MappingVersion, vnode_count: int, fleet: Fleet) -> Proposal:
    """The same owners at another vnode count. Raises `BadGoal`, `MappingError`."""
    try:
        check_vnode_count(vnode_count)
    except StorageKeyError as error:
        raise BadGoal("vnode_count", str(error)) from error
    mapping = base.mapping.with_vnode_count(vnode_count)
    bearing = {unit.id for unit in base.units if unit.weight > 0}
    idle = bearing - set(mapping.units)
    # No plan, and none without a lost unit, could start from more units than vnodes.
    left_out = idle if len(bearing) > vnode_count else frozenset()
    units = tuple(unit for unit in base.units if unit.id not in left_out)
    return Proposal(
        units=units,
        leaving=(),
        mapping=mapping,
        certificate=_certificate(Diff(base.mapping, mapping), units, fleet),
        reasons=(),
        warnings=(
            *_of_lost(base, fleet, "they keep their vnodes in this plan; plan again when it has settled"),
            *_of_idle(idle),
        ),
    )


def _chosen(goal: Goal, base: MappingVersion, fleet: Fleet) -> tuple[Unit, ...]:
    """Each with its weight; one whose weight is 0 is drained."""
    labels, usable = dict(goal.labels), fleet.usable(dict(goal.labels))
    weights = {unit.id: unit.weight for unit in base.units} | dict(goal.weights)
    today = frozenset(unit.id for unit in base.units if unit.weight > 0)
    match goal.aim:
        case ToParallelism(parallelism):
            weighed = [replace(unit, weight=weights.get(unit.id, 1.0)) for unit in usable.values()]
            if sum(unit.weight > 0 for unit in weighed) < parallelism:
                # Units that an earlier plan with a budget is still draining come back rather than be too few.
                weighed = [_readmitted(unit, goal) for unit in weighed]
            return choose_units(weighed, base.mapping, parallelism)
        case OnUnits(unit_ids):
            fleet.require_usable(unit_ids, labels)
            named = unit_ids
        case ChangedUnits(add, remove):
            _require_change(add, remove, base)
            fleet.require_usable(add, labels)
            named = (today - remove) & usable.keys() | add
        case SameUnits():
            named = today & usable.keys()
        case _:
            raise AssertionError(goal.aim)
    return tuple(
        _readmitted(replace(usable[unit_id], weight=weights.get(unit_id, 1.0)), goal)
        for unit_id in sorted(named)
    )


def _readmitted(unit: Unit, goal: Goal) -> Unit:
    """With a weight, unless the goal itself says 0."""
    return replace(unit, weight=1.0) if unit.weight == 0 and unit.id not in dict(goal.weights) else unit


def _planned(goal: Goal, base: MappingVersion, members: Iterable[Unit], loads: Loads | None) -> Plan:
    measure = goal.measure
    if isinstance(measure, ByLoad):
        assert loads is not None
        return plan_by_load(base.mapping, members, loads, count_slack=measure.count_slack, budget=goal.budget)
    return plan(base.mapping, members, level=measure.level, budget=goal.budget, defragment=measure.defragment)


def _require_change(add: frozenset[int], remove: frozenset[int], base: MappingVersion) -> None:
    known = {unit.id: unit.weight for unit in base.units}
    if there := sorted(unit_id for unit_id in add if known.get(unit_id)):
        raise BadGoal("add_units", f"the fragment runs on units {shown_some(there)} already; leave them out")
    if strange := sorted(remove - known.keys()):
        raise BadGoal(
            "remove_units", f"the fragment does not run on units {shown_some(strange)}; leave them out"
        )


def _require_chosen(goal: Goal, chosen: Iterable[Unit], base: MappingVersion) -> None:
    """Whoever weighs a unit wants it, and would not notice that it has no part in the plan."""
    known = {unit.id for unit in chosen}
    drained = known | {unit.id for unit in base.units}
    strange = sorted(unit for unit, weight in goal.weights if unit not in (known if weight else drained))
    if strange:
        raise BadGoal(
            "weights", f"units {shown_some(strange)} are none of this plan's; name them in units or add_units"
        )


def _substitutes(
    then: MappingVersion, owners: Iterable[Unit], usable: Mapping[int, Unit], count: int
) -> list[int]:
    """At most `count` units that owned nothing then, by id."""
    owned = {unit.id for unit in owners}
    spare = usable.keys() - owned
    surviving = usable.keys() & owned
    parallelism = len(surviving) + min(count, len(spare))
    # As if all weighed the same: weights are no reason to be passed over.
    chosen = choose_units(usable.values(), then.mapping, parallelism)
    return [unit.id for unit in chosen if unit.id not in owned]


def _replaced(mapping: VnodeMapping, standing: Mapping[int, int]) -> VnodeMapping:
    owners = mapping.array.copy()
    for gone, instead in standing.items():
        owners[mapping.array == gone] = instead
    return VnodeMapping.from_array(owners)


def _reasons_of_rollback(diff: Diff, then: MappingVersion, standing: Mapping[int, int]) -> tuple[str, ...]:
    moves, version = diff.moves, then.version
    owners_then = then.mapping.with_vnode_count(diff.vnode_count).array[moves.vnodes]

    def reason(target: int, owner: int) -> str:
        if target == owner:
            return f"unit {target} had it in version {version}"
        if standing.get(owner) == target:
            return f"unit {target} takes the place of unit {owner}, which had it in version {version}"
        return f"unit {owner} had it in version {version} and is gone; unit {target} has room"

    return tuple(map(reason, moves.targets.tolist(), owners_then.tolist()))


def _certificate(diff: Diff, units: Iterable[Unit], fleet: Fleet) -> Certificate:
    """Of a mapping that is given: there is nothing to minimise, so its moves are the fewest."""
    moves = diff.moves
    worker = {unit.id: unit.worker for unit in fleet.alive.values()}
    pairs = zip(moves.sources.tolist(), moves.targets.tolist(), strict=True)
    counts = _counts(diff.after, [unit.id for unit in units if unit.weight > 0])
    return Certificate(
        moves=len(moves),
        assigned=len(diff.assigned),
        lower_bound=len(moves),
        gap=0,
        spread=max(counts, default=0) - min(counts, default=0),
        runs=diff.after.run_count,
        cross_worker_moves=sum(worker.get(source) != worker.get(target) for source, target in pairs),
    )


def _counts(mapping: VnodeMapping, unit_ids: list[int]) -> list[int]:
    ids, counts = np.unique(mapping.array, return_counts=True)
    owned = dict(zip(ids.tolist(), counts.tolist(), strict=True))
    return [owned.get(unit_id, 0) for unit_id in unit_ids]


def _of_budget(remaining_moves: int) -> list[str]:
    if not remaining_moves:
        return []
    return [
        f"{remaining_moves} moves are left by the budget: apply this plan, and plan again with the same goal when it "
        "has settled"
    ]


def _of_lost(version: MappingVersion, fleet: Fleet, consequence: str) -> list[str]:
    lost = sorted(set(version.mapping.units) - fleet.alive.keys())
    return [f"units {shown_some(lost)} are lost: {consequence}"] if lost else []


def _of_draining(version: MappingVersion, fleet: Fleet) -> list[str]:
    draining = fleet.draining(version.mapping.units)
    return [f"workers {shown_some(draining)} are draining: their units leave"] if draining else []


def _of_idle(unit_ids: Iterable[int]) -> list[str]:
    idle = sorted(unit_ids)
    return [f"units {shown_some(idle)} get no vnode; leave them out, or weigh them more"] if idle else []
