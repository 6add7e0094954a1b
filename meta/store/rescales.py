"""Rescales, as rows: the plans that were applied, and the versions that came of them."""

from collections.abc import Iterable
from dataclasses import asdict
from itertools import groupby
from operator import attrgetter
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import Cause, PhaseChange, Rescale, RescalePhase, RescaleStep, in_order
from meta.rescaling.handover import Handover, Order, Pacing, Protocol, Rounds
from meta.store.paging import page_newest_first
from meta.store.plans import certificate_of
from meta.store.tables import mapping_versions, phase_changes, plans

# Not the owners, which a list of rescales has no use for.
_COLUMNS = [
    plans.c[name]
    for name in (
        "id",
        "fragment",
        "base_version",
        "digest",
        "certificate",
        "applied_version",
        "applied_at_ms",
        "handover",
    )
]


class Rescales:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def begin(self, plan_id: str, version: int, handover: Handover | None, *, now_ms: int) -> None:
        """The plan is applied, as `version`."""
        values = {
            "applied_version": version,
            "applied_at_ms": now_ms,
            "handover": asdict(handover) if handover else None,
        }
        self._connection.execute(plans.update().where(plans.c.id == plan_id).values(values))

    def get(self, rescale_id: str) -> Rescale | None:
        found = self._read(_applied().where(plans.c.id == rescale_id))
        return found[0] if found else None

    def newest(
        self, limit: int, *, after: tuple[int, str] | None = None, fragment: str | None = None
    ) -> list[Rescale]:
        """At most `limit`, the last applied first: those after that of this instant and id, of one fragment or all."""
        statement = page_newest_first(_applied(), plans.c.applied_at_ms, plans.c.id, limit, after)
        if fragment is not None:
            statement = statement.where(plans.c.fragment == fragment)
        return self._read(statement)

    def _read(self, statement: sa.Select[Any]) -> list[Rescale]:
        rows = self._connection.execute(statement).all()
        steps = self._steps([row.id for row in rows], {row.fragment for row in rows})
        return [_rescale(row, steps.get(row.id, ())) for row in rows]

    def _steps(self, rescale_ids: list[str], fragments: set[str]) -> dict[str, tuple[RescaleStep, ...]]:
        changed = sa.and_(
            phase_changes.c.fragment == mapping_versions.c.fragment,
            phase_changes.c.version == mapping_versions.c.version,
        )
        rows = self._connection.execute(
            sa.select(mapping_versions.c.plan, mapping_versions.c.cause, *phase_changes.c)
            .join(phase_changes, changed)
            # By fragment too, which is what the key begins with.
            .where(mapping_versions.c.fragment.in_(fragments), mapping_versions.c.plan.in_(rescale_ids))
            .order_by(mapping_versions.c.plan, mapping_versions.c.version)
        )
        return {
            plan_id: tuple(_step(of_version) for _, of_version in groupby(of_plan, attrgetter("version")))
            for plan_id, of_plan in groupby(rows, attrgetter("plan"))
        }


def _applied() -> sa.Select[Any]:
    return sa.select(*_COLUMNS).where(plans.c.applied_version.is_not(None))


def _step(rows: Iterable[sa.Row[Any]]) -> RescaleStep:
    of_version = list(rows)
    changes = [PhaseChange(row.version, RescalePhase(row.phase), row.at_ms) for row in of_version]
    first = of_version[0]
    return RescaleStep(first.version, Cause(first.cause), in_order(changes))


def _rescale(row: sa.Row[Any], steps: tuple[RescaleStep, ...]) -> Rescale:
    return Rescale(
        id=row.id,
        token=f"{row.id}.{row.digest}",
        fragment=row.fragment,
        base_version=row.base_version,
        applied_version=row.applied_version,
        applied_at_ms=row.applied_at_ms,
        certificate=certificate_of(row.certificate),
        handover=_handover(row.handover) if row.handover else None,
        steps=steps,
    )


def _handover(fields: dict[str, Any]) -> Handover:
    pacing = fields["pacing"]
    return Handover(
        Protocol(fields["protocol"]),
        Pacing(Rounds(pacing["rounds"]), pacing["parallel"], pacing["order"] and Order(pacing["order"]))
        if pacing
        else None,
    )
