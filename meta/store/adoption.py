"""What etcd has and the database lost, as rows. Source: design.md, "SQL is the truth, etcd the publication"."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import NewVersion, Role
from meta.mapping.publication import Current, Phase
from meta.mapping.unit import Unit
from meta.store.fragments import version_row
from meta.store.insertion import added, insert_into
from meta.store.tables import fragments, mapping_versions, phase_changes, subscribers, units, workers

_CHUNK = 100


class Adoption:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def hold_ids(self) -> None:
        """Until this transaction ends no other one gives a unit an id. Before anything else, lest two wait in turn."""
        if self._connection.dialect.name == "postgresql":
            self._connection.exec_driver_sql("LOCK TABLE units IN SHARE ROW EXCLUSIVE MODE")

    def workers_of(self, unit_ids: Iterable[int]) -> dict[int, str]:
        """The workers of those of these units that are known."""
        ids = sorted(unit_ids)
        found: dict[int, str] = {}
        for start in range(0, len(ids), _CHUNK):
            chunk = ids[start : start + _CHUNK]
            rows = self._connection.execute(
                sa.select(units.c.id, units.c.worker).where(units.c.id.in_(chunk))
            )
            found.update((unit_id, worker) for unit_id, worker in rows)
        return found

    def register(self, missing: Iterable[Unit], *, heartbeat_timeout_ms: int, now_ms: int) -> list[str]:
        """Adds these units under their very ids, and the workers that are not known; returns the names of these."""
        by_id = sorted(missing, key=lambda unit: unit.id)
        new = [
            name
            for name in sorted({unit.worker for unit in by_id})
            if added(self._connection, workers, _worker(name, heartbeat_timeout_ms, now_ms))
        ]
        if by_id:
            rows = [{"id": unit.id, "worker": unit.worker} for unit in by_id]
            self._connection.execute(units.insert(), rows)
        return new

    def count_ids_from(self, last_id: int) -> None:
        """No unit gets an id up to `last_id` any more. `hold_ids` comes first, and some unit has an id already."""
        statement = _COUNT_FROM[self._connection.dialect.name]
        self._connection.execute(sa.text(statement), {"last_id": last_id})

    def go_on(self, name: str, source: Current, adopted: Sequence[NewVersion], *, now_ms: int) -> bool:
        """Compare-and-set from `source` to the last of `adopted`; False where the fragment has gone on by itself.

        `adopted` begins with the next version, or with `source`'s own in a later phase.
        """
        newest = adopted[-1]
        statement = (
            fragments.update()
            .where(
                fragments.c.name == name,
                fragments.c.version == source.version,
                fragments.c.phase == source.phase,
            )
            .values(
                version=newest.current.version, phase=newest.current.phase, vnode_count=newest.vnode_count
            )
        )
        if self._connection.execute(statement).rowcount != 1:
            return False
        later = [each for each in adopted if each.current.version > source.version]
        for start in range(0, len(later), _CHUNK):
            rows = [version_row(name, each, now_ms) for each in later[start : start + _CHUNK]]
            self._connection.execute(mapping_versions.insert(), rows)
        reached = [each.current for each in adopted]
        if later and source.phase is not Phase.SETTLED:
            reached.append(Current(source.version, Phase.SETTLED, source.digest))
        phases = [
            {"fragment": name, "version": each.version, "phase": each.phase, "at_ms": now_ms}
            for each in reached
        ]
        self._connection.execute(phase_changes.insert(), phases)
        return True

    def await_strangers(self, name: str, *, now_ms: int) -> None:
        """Has the fragment wait, for one timeout of an applier, for those who subscribed since the backup."""
        values = {"acknowledged_version": None, "seen_at_ms": now_ms}
        self._connection.execute(
            insert_into(subscribers, self._connection)
            .values(fragment=name, id="adopted", name=_STRANGERS, role=Role.APPLIER, **values)
            .on_conflict_do_update(index_elements=[subscribers.c.fragment, subscribers.c.id], set_=values)
        )


_COUNT_FROM = {
    "postgresql": "SELECT setval('units_id_seq', greatest(last_value, :last_id)) FROM units_id_seq",
    "sqlite": "UPDATE sqlite_sequence SET seq = max(seq, :last_id) WHERE name = 'units'",
}
_STRANGERS = "whoever subscribed since the database's backup"


def _worker(name: str, heartbeat_timeout_ms: int, now_ms: int) -> dict[str, Any]:
    return {
        "name": name,
        "labels": {},
        "draining": False,
        "heartbeat_timeout_ms": heartbeat_timeout_ms,
        "registered_at_ms": now_ms,
        "seen_at_ms": now_ms,
    }
