"""Worker nodes and their parallel units, as rows."""

from collections.abc import Iterable, Mapping
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import Worker
from meta.store.insertion import added
from meta.store.paging import page_by_name
from meta.store.tables import units, workers


class Workers:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(
        self,
        name: str,
        *,
        parallelism: int,
        labels: Mapping[str, str],
        heartbeat_timeout_ms: int | None,
        now_ms: int,
    ) -> Worker | None:
        """A new worker with `parallelism` new units, whose ids are never given twice; None where it is known."""
        values = {
            "name": name,
            "labels": dict(labels),
            "draining": False,
            "heartbeat_timeout_ms": heartbeat_timeout_ms,
            "registered_at_ms": now_ms,
            "seen_at_ms": now_ms,
        }
        if not added(self._connection, workers, values):
            return None
        self.add_units(name, parallelism)
        return self.get(name)

    def add_units(self, name: str, count: int) -> None:
        """New ones of a worker that is there."""
        self._connection.execute(units.insert(), [{"worker": name}] * count)

    def hold(self, name: str) -> bool:
        """Until this transaction ends nobody else holds, changes, removes or `keep`s this worker.

        False where there was none, or the one there was has been removed by whoever held it before.
        """
        held = sa.select(workers.c.name).where(workers.c.name == name).with_for_update()
        return self._connection.execute(held).one_or_none() is not None

    def keep(self, names: Iterable[str]) -> None:
        """Until this transaction ends none of these workers is removed or drained; they beat meanwhile.

        Whoever gives units vnodes keeps their workers first and reads them then. In order of names, so that two
        that do so do not wait for each other.
        """
        self._connection.execute(
            sa.select(workers.c.name)
            .where(workers.c.name.in_(sorted(set(names))))
            .order_by(workers.c.name)
            .with_for_update(read=True, key_share=True)
        )

    def get(self, name: str) -> Worker | None:
        found = self._read(workers.c.name == name)
        return found[0] if found else None

    def all(self) -> list[Worker]:
        return self._read(sa.true())

    def page(self, *, after: str | None, limit: int) -> list[Worker]:
        """At most `limit` of them by name, from the first one after `after` on."""
        page = page_by_name(sa.select(workers.c.name), workers.c.name, self._connection, limit, after)
        return self._read(workers.c.name.in_(page.scalar_subquery()))

    def count(self) -> tuple[int, int]:
        """The number of workers, and of the units of all of them."""
        counts = [
            sa.select(sa.func.count()).select_from(table).scalar_subquery() for table in (workers, units)
        ]
        row = self._connection.execute(sa.select(*counts)).one()
        return row[0], row[1]

    def renew(
        self, name: str, *, labels: Mapping[str, str], heartbeat_timeout_ms: int | None, now_ms: int
    ) -> None:
        """A registered worker, just heard, with these labels and this timeout from now on."""
        self._connection.execute(
            workers.update()
            .where(workers.c.name == name)
            .values(labels=dict(labels), heartbeat_timeout_ms=heartbeat_timeout_ms, seen_at_ms=now_ms)
        )

    def beat(self, name: str, now_ms: int) -> bool:
        """False where no such worker is registered."""
        statement = workers.update().where(workers.c.name == name).values(seen_at_ms=now_ms)
        return self._connection.execute(statement).rowcount == 1

    def drain(self, name: str, draining: bool) -> bool:
        """Whether this changed anything."""
        statement = (
            workers.update()
            .where(workers.c.name == name, workers.c.draining.is_(not draining))
            .values(draining=draining)
        )
        return self._connection.execute(statement).rowcount == 1

    def remove(self, name: str) -> None:
        self._connection.execute(units.delete().where(units.c.worker == name))
        self._connection.execute(workers.delete().where(workers.c.name == name))

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
            labels=of_worker[0].labels,
            draining=of_worker[0].draining,
        )
        for name, of_worker in sorted(by_name.items())
    ]
