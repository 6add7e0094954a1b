"""The rescale planner: from the previous owners and the units to the next mapping and its certificate.

A pure function that accepts any previous mapping: with gaps, gone owners, or badly unbalanced. The result
does not depend on the order of the units, and planning again from it moves nothing. `quota` says how many
vnodes each unit gets, which makes the number of moves minimal; `layout` says which, which keeps runs few.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from meta.mapping.errors import MoreUnitsThanVnodes, NoCapacity, NoUnits
from meta.mapping.layout import Cells, fill, release
from meta.mapping.mapping import VnodeMapping
from meta.mapping.quota import fewest_moves, quotas
from meta.mapping.unit import Unit, sorted_units


@dataclass(frozen=True, slots=True)
class Move:
    """A vnode that had an owner and gets another one; a `source` that is gone is none of the plan's units."""

    vnode: int
    source: int
    target: int
    reason: str


@dataclass(frozen=True, slots=True)
class Certificate:
    """The figures a plan is judged by.

    `moves` and `assigned` count vnodes: those that change their owner, and those that nobody owned. `gap` is
    `moves - lower_bound`, 0 where fewer moves are not possible. `spread` is the difference between the most and
    the fewest vnodes that a unit with a weight above 0 owns. A move from a gone owner is one between workers.
    """

    moves: int
    assigned: int
    lower_bound: int
    gap: int
    spread: int
    runs: int
    cross_worker_moves: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The next mapping; `moves` are in order of vnodes."""

    mapping: VnodeMapping
    moves: tuple[Move, ...]
    certificate: Certificate


def first_mapping(vnode_count: int, units: Iterable[Unit]) -> VnodeMapping:
    """One run for each unit, in order of ids. Raises `PlanError`."""
    return plan(VnodeMapping.unowned(vnode_count), units).mapping


def plan(previous: VnodeMapping, units: Iterable[Unit]) -> Plan:
    """The plan with the fewest moves. Raises `NoUnits`, `NoCapacity`, `MoreUnitsThanVnodes`, `Malformed`."""
    members = sorted_units(units)
    _require_plannable(members, previous.vnode_count)
    have = Counter(owner for owner in previous.owners if owner is not None)
    quota = quotas(have, members, previous.vnode_count)
    mapping = _next_mapping(previous, members, have, quota)
    moves = _moves(previous, mapping, members, have, quota)
    worker = {unit.id: unit.worker for unit in members}
    shares = [quota[unit.id] for unit in members if unit.weight > 0]
    lower_bound = fewest_moves(have, quota)
    certificate = Certificate(
        moves=len(moves),
        assigned=previous.owners.count(None),
        lower_bound=lower_bound,
        gap=len(moves) - lower_bound,
        spread=max(shares) - min(shares),
        runs=mapping.run_count,
        cross_worker_moves=sum(worker.get(move.source) != worker[move.target] for move in moves),
    )
    return Plan(mapping, moves, certificate)


def _require_plannable(units: tuple[Unit, ...], vnode_count: int) -> None:
    if not units:
        raise NoUnits
    bearing = sum(unit.weight > 0 for unit in units)
    if not bearing:
        raise NoCapacity(len(units))
    if bearing > vnode_count:
        raise MoreUnitsThanVnodes(bearing, vnode_count)


def _next_mapping(
    previous: VnodeMapping, units: Sequence[Unit], have: Mapping[int, int], quota: Mapping[int, int]
) -> VnodeMapping:
    if not have:
        return VnodeMapping(tuple(unit.id for unit in units for _ in range(quota[unit.id])))
    cells: Cells = [owner if owner in quota else None for owner in previous.owners]
    surplus = {u.id: have[u.id] - quota[u.id] for u in units if have.get(u.id, 0) > quota[u.id]}
    wanted = {u.id: quota[u.id] - have.get(u.id, 0) for u in units if have.get(u.id, 0) < quota[u.id]}
    release(cells, surplus, wanted)
    _fill_within_workers(cells, previous, units, wanted)
    fill(cells, (vnode for vnode, owner in enumerate(cells) if owner is None), wanted)
    return VnodeMapping(tuple(cells))


def _fill_within_workers(
    cells: Cells, previous: VnodeMapping, units: Sequence[Unit], wanted: dict[int, int]
) -> None:
    """Match what a worker's units give with what its other units take, so that few moves leave a worker."""
    worker = {unit.id: unit.worker for unit in units}
    takers: dict[str, dict[int, int]] = {}
    for unit, count in wanted.items():
        takers.setdefault(worker[unit], {})[unit] = count
    released: dict[str, list[int]] = {}
    for vnode, owner in enumerate(previous.owners):
        if cells[vnode] is None and owner in worker and worker[owner] in takers:
            released.setdefault(worker[owner], []).append(vnode)
    for name, vnodes in sorted(released.items()):
        local = takers[name]
        members = tuple(local)
        fill(cells, vnodes, local)
        for unit in members:
            if unit in local:
                wanted[unit] = local[unit]
            else:
                del wanted[unit]


def _moves(
    previous: VnodeMapping,
    mapping: VnodeMapping,
    units: Sequence[Unit],
    have: Mapping[int, int],
    quota: Mapping[int, int],
) -> tuple[Move, ...]:
    drained = {unit.id for unit in units if unit.weight == 0}
    reasons: dict[tuple[int, int], str] = {}
    moves = []
    for vnode, (source, target) in enumerate(zip(previous.owners, mapping.owners, strict=True)):
        if source is None or target is None or source == target:
            continue
        reason = reasons.get((source, target))
        if reason is None:
            giver = _why_given(source, drained, have, quota)
            reason = f"{giver}; {_why_taken(target, have, quota)}"
            reasons[source, target] = reason
        moves.append(Move(vnode, source, target, reason))
    return tuple(moves)


def _why_given(source: int, drained: set[int], have: Mapping[int, int], quota: Mapping[int, int]) -> str:
    if source not in quota:
        return f"unit {source} is gone"
    if source in drained:
        return f"unit {source} is drained (weight 0)"
    return f"unit {source} has {have[source]} and keeps {quota[source]}, its share"


def _why_taken(target: int, have: Mapping[int, int], quota: Mapping[int, int]) -> str:
    if have.get(target, 0):
        return f"unit {target} has {have[target]} and its share is {quota[target]}"
    return f"unit {target} is new and its share is {quota[target]}"
