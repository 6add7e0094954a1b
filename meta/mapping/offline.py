"""`vnodectl plan --offline`: the planner over JSON documents, without a service (offline-json.md)."""

from dataclasses import asdict
from typing import Any, Final

from meta.mapping.errors import Malformed
from meta.mapping.fields import require_known
from meta.mapping.load import plan_by_load
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Plan, plan
from meta.mapping.summary import summary
from meta.mapping.unit import Unit
from storage_keys.errors import shown

_FIELDS: Final = (
    "previous",
    "vnode_count",
    "units",
    "budget",
    "level",
    "defragment",
    "loads",
    "count_slack",
)
_UNIT_FIELDS: Final = ("id", "worker", "weight")
_OPTIONS: Final[tuple[str, ...]] = ("budget", "level", "defragment", "count_slack")
_OF_COUNTS: Final = {"level": "units", "defragment": 0}


def plan_offline(document: object) -> dict[str, Any]:
    """The answer document. Raises `PlanError` for whatever JSON cannot be planned, and nothing else."""
    if not isinstance(document, dict):
        raise Malformed("a plan document is a JSON object with units, and previous or vnode_count")
    require_known(document, _FIELDS)
    given = {name: value for name, value in document.items() if value is not None}
    units = _units(given)
    return _answer(_planned(given, _previous(given), units), units)


def _planned(document: dict[str, Any], previous: VnodeMapping, units: list[Unit]) -> Plan:
    options: dict[str, Any] = {name: document[name] for name in _OPTIONS if name in document}
    if "loads" not in document:
        if "count_slack" in options:
            raise Malformed("count_slack is for plans by load; give loads, or leave it out")
        return plan(previous, units, **options)
    for name, default in _OF_COUNTS.items():
        given: Any = options.pop(name, default)
        if type(given) is not type(default) or given != default:
            raise Malformed(f"a plan by load knows no {name}; leave out {name} or loads")
    return plan_by_load(previous, units, document["loads"], **options)


def _previous(document: dict[Any, Any]) -> VnodeMapping:
    vnode_count = document.get("vnode_count")
    owners = document.get("previous")
    if owners is None:
        if vnode_count is None:
            raise Malformed("name the previous owners, or a vnode_count for a first mapping")
        return VnodeMapping.unowned(vnode_count)
    if not isinstance(owners, list):
        raise Malformed(f"previous lists the owner of each vnode, or null; it is {shown(owners)}")
    if vnode_count is not None and (type(vnode_count) is not int or vnode_count != len(owners)):
        raise Malformed(f"vnode_count is {shown(vnode_count)} and previous has {len(owners)} owners")
    return VnodeMapping(tuple(owners))


def _units(document: dict[Any, Any]) -> list[Unit]:
    units = document.get("units")
    if units is None:
        raise Malformed('units is missing; list the units after the rescale, like {"id": 0, "worker": "a"}')
    if not isinstance(units, list):
        raise Malformed(f'units lists objects like {{"id": 0, "worker": "a"}}; it is {shown(units)}')
    return [_unit(fields) for fields in units]


def _unit(fields: Any) -> Unit:
    if not isinstance(fields, dict) or "id" not in fields:
        raise Malformed(f'a unit is an object like {{"id": 0, "worker": "a"}}, not {shown(fields)}')
    require_known(fields, _UNIT_FIELDS)
    # Without a worker's name each unit is a worker of its own.
    worker = fields.get("worker", f"worker of unit {shown(fields['id'])}")
    return Unit(fields["id"], worker, fields.get("weight", 1.0))


def _answer(plan: Plan, units: list[Unit]) -> dict[str, Any]:
    moves = [
        {"vnode": move.vnode, "from": move.source, "to": move.target, "reason": move.reason}
        for move in plan.moves
    ]
    return {
        "owners": list(plan.mapping.owners),
        **asdict(plan.certificate),
        "remaining_moves": plan.remaining_moves,
        "moves": moves,
        "summary": asdict(summary(plan.previous, plan.mapping, units)),
    }
