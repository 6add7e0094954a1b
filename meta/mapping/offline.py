"""`vnodectl plan --offline`: the planner over JSON documents, without a service (offline-json.md)."""

from dataclasses import asdict
from typing import Any

from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Plan, plan
from meta.mapping.unit import Unit
from storage_keys.errors import shown

_NOT_YET = ("loads", "budget", "defragment")


def plan_offline(document: object) -> dict[str, Any]:
    """The answer document. Raises `PlanError` for whatever JSON cannot be planned, and nothing else."""
    if not isinstance(document, dict):
        raise Malformed("a plan document is a JSON object with units, and previous or vnode_count")
    _refuse_other_goals(document)
    return _answer(plan(_previous(document), _units(document)))


def _refuse_other_goals(document: dict[Any, Any]) -> None:
    for name in _NOT_YET:
        if document.get(name) is not None:
            raise Malformed(f"plans with {name} are not supported by this version; leave {name} out")
    level = document.get("level", "units")
    if level != "units":
        raise Malformed(f'level {shown(level)} is not supported by this version; use "units" or leave it out')


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
    if not isinstance(units, list):
        raise Malformed(f'units lists objects like {{"id": 0, "worker": "a"}}; it is {shown(units)}')
    return [_unit(fields) for fields in units]


def _unit(fields: Any) -> Unit:
    if not isinstance(fields, dict) or "id" not in fields:
        raise Malformed(f'a unit is an object like {{"id": 0, "worker": "a"}}, not {shown(fields)}')
    # Without a worker's name each unit is a worker of its own.
    worker = fields.get("worker", f"worker of unit {shown(fields['id'])}")
    return Unit(fields["id"], worker, fields.get("weight", 1.0))


def _answer(plan: Plan) -> dict[str, Any]:
    moves = [
        {"vnode": move.vnode, "from": move.source, "to": move.target, "reason": move.reason}
        for move in plan.moves
    ]
    return {"owners": list(plan.mapping.owners), **asdict(plan.certificate), "moves": moves}
