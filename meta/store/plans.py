"""Plans, as rows."""

import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import Cause, RescalePlan
from meta.mapping.load import LoadCertificate
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Certificate
from meta.mapping.unit import Unit
from meta.rescaling.goal import (
    Aim,
    ByCount,
    ByLoad,
    ChangedUnits,
    Goal,
    OnUnits,
    SameUnits,
    ToParallelism,
    ToVersion,
    ToVnodeCount,
)
from meta.store.paging import page_newest_first
from meta.store.tables import plans

# All but the reasons, which only who reads a plan's moves asks for.
_COLUMNS = [column for column in plans.c if column is not plans.c.reasons]


class Plans:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, plan: RescalePlan, reasons: Sequence[str] = ()) -> None:
        """A new plan; `reasons` are why, move by move."""
        self._connection.execute(
            plans.insert().values(
                id=plan.id,
                fragment=plan.fragment,
                base_version=plan.base_version,
                units=[asdict(unit) for unit in plan.units],
                leaving=[asdict(unit) for unit in plan.leaving],
                owners=str(plan.mapping),
                certificate=asdict(plan.certificate),
                goal=_goal_json(plan.goal),
                cause=plan.cause,
                reasons=zlib.compress(json.dumps(reasons).encode(), 1),
                remaining_moves=plan.remaining_moves,
                warnings=list(plan.warnings),
                digest=plan.digest,
                created_at_ms=plan.created_at_ms,
                expires_at_ms=plan.expires_at_ms,
            )
        )

    def get(self, plan_id: str) -> RescalePlan | None:
        row = self._connection.execute(sa.select(*_COLUMNS).where(plans.c.id == plan_id)).one_or_none()
        return _plan(row) if row else None

    def reasons(self, plan_id: str) -> tuple[str, ...]:
        """Why, move by move; none for a plan of a vnodemap that did not keep them."""
        statement = sa.select(plans.c.reasons).where(plans.c.id == plan_id)
        packed = self._connection.execute(statement).scalar_one_or_none()
        return tuple(json.loads(zlib.decompress(packed))) if packed else ()

    def newest(self, fragment: str, limit: int, *, after: tuple[int, str] | None = None) -> list[RescalePlan]:
        """At most `limit` of one fragment, the last made first: those after the one of this instant and id."""
        statement = page_newest_first(
            sa.select(*_COLUMNS).where(plans.c.fragment == fragment),
            plans.c.created_at_ms,
            plans.c.id,
            limit,
            after,
        )
        return [_plan(row) for row in self._connection.execute(statement)]


def certificate_of(fields: Mapping[str, Any]) -> Certificate:
    """A plan by load has the figures of loads besides."""
    return LoadCertificate(**fields) if "max_load" in fields else Certificate(**fields)


def _plan(row: sa.Row[Any]) -> RescalePlan:
    return RescalePlan(
        id=row.id,
        fragment=row.fragment,
        base_version=row.base_version,
        units=tuple(Unit(**unit) for unit in row.units),
        mapping=VnodeMapping.parse(row.owners),
        certificate=certificate_of(row.certificate),
        created_at_ms=row.created_at_ms,
        expires_at_ms=row.expires_at_ms,
        digest=row.digest,
        goal=_goal(row.goal),
        cause=Cause(row.cause),
        leaving=tuple(Unit(**unit) for unit in row.leaving),
        remaining_moves=row.remaining_moves,
        warnings=tuple(row.warnings),
        applied_version=row.applied_version,
    )


def _goal_json(goal: Goal) -> dict[str, Any]:
    measure = goal.measure
    return {
        "aim": _aim_json(goal.aim),
        "measure": {"by": "load" if isinstance(measure, ByLoad) else "count", **asdict(measure)},
        "budget": goal.budget,
        "weights": [list(pair) for pair in goal.weights],
        "labels": [list(pair) for pair in goal.labels],
    }


def _aim_json(aim: Aim) -> dict[str, Any]:
    match aim:
        case OnUnits(unit_ids):
            return {"units": sorted(unit_ids)}
        case ChangedUnits(add, remove):
            return {"add": sorted(add), "remove": sorted(remove)}
    return asdict(aim)


def _goal(fields: Mapping[str, Any]) -> Goal:
    """Of a row of before there were goals: the same units."""
    if not fields:
        return Goal(SameUnits())
    measure = dict(fields["measure"])
    by_load = measure.pop("by") == "load"
    return Goal(
        aim=_aim(fields["aim"]),
        measure=ByLoad(**measure) if by_load else ByCount(**measure),
        budget=fields["budget"],
        weights=tuple((unit, weight) for unit, weight in fields["weights"]),
        labels=tuple((key, value) for key, value in fields["labels"]),
    )


def _aim(fields: Mapping[str, Any]) -> Aim:
    match fields:
        case {"parallelism": parallelism}:
            return ToParallelism(parallelism)
        case {"units": unit_ids}:
            return OnUnits(frozenset(unit_ids))
        case {"add": add, "remove": remove}:
            return ChangedUnits(frozenset(add), frozenset(remove))
        case {"version": version}:
            return ToVersion(version)
        case {"vnode_count": vnode_count}:
            return ToVnodeCount(vnode_count)
    return SameUnits()
