"""Plans, as rows."""

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import RescalePlan
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Certificate
from meta.mapping.unit import Unit
from meta.store.tables import plans


class Plans:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, plan: RescalePlan) -> None:
        self._connection.execute(
            plans.insert().values(
                id=plan.id,
                fragment=plan.fragment,
                base_version=plan.base_version,
                units=[asdict(unit) for unit in plan.units],
                owners=str(plan.mapping),
                certificate=asdict(plan.certificate),
                digest=plan.digest,
                created_at_ms=plan.created_at_ms,
                expires_at_ms=plan.expires_at_ms,
            )
        )

    def get(self, plan_id: str) -> RescalePlan | None:
        row = self._connection.execute(sa.select(plans).where(plans.c.id == plan_id)).one_or_none()
        return _plan(row) if row else None

    def mark_applied(self, plan_id: str, version: int) -> None:
        self._connection.execute(plans.update().where(plans.c.id == plan_id).values(applied_version=version))

    def forget_expired(self, before_ms: int) -> None:
        """Drops the plans that expired before `before_ms` without having been applied."""
        self._connection.execute(
            plans.delete().where(plans.c.applied_version.is_(None), plans.c.expires_at_ms < before_ms)
        )


def _plan(row: sa.Row[Any]) -> RescalePlan:
    return RescalePlan(
        id=row.id,
        fragment=row.fragment,
        base_version=row.base_version,
        units=tuple(Unit(**unit) for unit in row.units),
        mapping=VnodeMapping.parse(row.owners),
        certificate=Certificate(**row.certificate),
        created_at_ms=row.created_at_ms,
        expires_at_ms=row.expires_at_ms,
        digest=row.digest,
        applied_version=row.applied_version,
    )
