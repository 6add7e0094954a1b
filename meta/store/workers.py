"""Worker nodes and their parallel units, as rows."""

from collections.abc import Iterable
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import Worker
from meta.store.insertion import added
from meta.store.tables import units, workers


class Workers:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(
        self, name: str, *, parallelism: int, heartbeat_timeout_ms: int | None, now_ms: int
    ) -> Worker | None:
        """A new worker with `parallelism` new units, whose ids are never given twice; None where it is known."""
        values = {
            "name": name,
            "heartbeat_timeout_ms": heartbeat_timeout_ms,
            "registered_at_ms": now_ms,
            "seen_at_ms": now_ms,
        }
        if not added(self._connection, workers, values):
            return None
        self._connection.execute(units.insert(), [{"worker": name}] * parallelism)
        return self.get(name)

    def get(self, name: str) -> Worker | None:
        found = self._read(workers.c.name == name)
        return found[0] if found else None

    def all(self) -> list[Worker]:
        return self._read(sa.true())

    def renew(self, name: str, *, heartbeat_timeout_ms: int | None, now_ms: int) -> Worker:
        """A registered worker, just heard, with this timeout from now on."""
        self._connection.execute(
            workers.update()
            .where(workers.c.name == name)
            .values(heartbeat_timeout_ms=heartbeat_timeout_ms, seen_at_ms=now_ms)
        )
        (renewed,) = self._read(workers.c.name == name)
        return renewed

    def beat(self, name: str, now_ms: int) -> bool:
        """False where no such worker is registered."""
        statement = workers.update().where(workers.c.name == name).values(seen_at_ms=now_ms)
        return self._connection.execute(statement).rowcount == 1

    def _read(self, condition: sa.ColumnElement[bool]) -> list[Worker]:
        rows = self._connection.execute(
            sa.select(workers, units.c.id.label("unit_id"))
            .join(units, units.c.worker == workers.c.name)
            .where(condition)
            .order_by(units.c.id)
        ).all()
        return _workers(rows)


def _workers(rows: Iterable[sa.Row[Any]]) -> list[Worker]:
    by_name: dict[str, list[sa.Row[Any]]] = {}
    for row in rows:
        by_name.setdefault(row.name, []).append(row)
    return [
        Worker(
            name=name,
            unit_ids=tuple(row.unit_id for row in of_worker),
            heartbeat_timeout_ms=of_worker[0].heartbeat_timeout_ms,
            registered_at_ms=of_worker[0].registered_at_ms,
            seen_at_ms=of_worker[0].seen_at_ms,
        )
        for name, of_worker in sorted(by_name.items())
    ]
