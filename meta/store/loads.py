"""What dispatchers report of the loads of vnodes, as rows: one for each reporter of a fragment."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import sqlalchemy as sa

from meta.store.insertion import insert_into
from meta.store.tables import fragments, vnode_loads


@dataclass(frozen=True, slots=True, eq=False)
class ReportedLoads:
    """`loads[v]` is the smoothed load of vnode v, a second; float64."""

    reporter: str
    loads: npt.NDArray[np.float64]
    observed_at_ms: int


class Loads:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def held(self, fragment: str, reporter: str) -> ReportedLoads | None:
        """What this one reported last, as nobody else changes it until this transaction ends."""
        row = self._connection.execute(
            sa.select(vnode_loads).where(_key(fragment, reporter)).with_for_update()
        ).one_or_none()
        return _reported(row) if row else None

    def save(self, fragment: str, reported: ReportedLoads) -> None:
        values = {
            "loads": reported.loads.astype("<f8").tobytes(),
            "observed_at_ms": reported.observed_at_ms,
        }
        self._connection.execute(
            insert_into(vnode_loads, self._connection)
            .values(fragment=fragment, reporter=reported.reporter, **values)
            .on_conflict_do_update(
                index_elements=[vnode_loads.c.fragment, vnode_loads.c.reporter], set_=values
            )
        )

    def of(self, fragment: str) -> list[ReportedLoads]:
        """By reporter."""
        rows = self._connection.execute(sa.select(vnode_loads).where(vnode_loads.c.fragment == fragment))
        return sorted((_reported(row) for row in rows), key=lambda reported: reported.reporter)

    def count(self, fragment: str) -> int:
        statement = (
            sa.select(sa.func.count()).select_from(vnode_loads).where(vnode_loads.c.fragment == fragment)
        )
        return self._connection.execute(statement).scalar_one()

    def exceeded_since_ms(self, fragment: str) -> int | None:
        """Since when the loads are uneven beyond the threshold; None where they are not."""
        statement = sa.select(fragments.c.load_exceeded_since_ms).where(fragments.c.name == fragment)
        found: int | None = self._connection.execute(statement).scalar_one()
        return found

    def set_exceeded(self, fragment: str, now_ms: int | None) -> None:
        """From `now_ms` on, unless it was before already; with None not any more."""
        since = fragments.c.load_exceeded_since_ms
        changing = since.is_not(None) if now_ms is None else since.is_(None)
        self._connection.execute(
            fragments.update()
            .where(fragments.c.name == fragment, changing)
            .values(load_exceeded_since_ms=now_ms)
        )


def _key(fragment: str, reporter: str) -> sa.ColumnElement[bool]:
    return sa.and_(vnode_loads.c.fragment == fragment, vnode_loads.c.reporter == reporter)


def _reported(row: sa.Row[Any]) -> ReportedLoads:
    return ReportedLoads(row.reporter, np.frombuffer(row.loads, "<f8"), row.observed_at_ms)
