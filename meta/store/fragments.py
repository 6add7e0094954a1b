"""Fragments, their mapping versions and the phases these went through, as rows."""

from dataclasses import asdict
from typing import Any, TypeVar

import sqlalchemy as sa

from meta.lifecycle import Fragment, KeyField, PhaseChange
from meta.mapping.publication import Current, Phase
from meta.store.insertion import added
from meta.store.tables import fragments, mapping_versions, phase_changes

T = TypeVar("T")


class Fragments:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, fragment: Fragment, body: bytes) -> bool:
        """A new fragment with its first version; False where the name is taken."""
        current = fragment.current
        values = {
            "name": fragment.name,
            "vnode_count": fragment.vnode_count,
            "distribution_key": [asdict(field) for field in fragment.distribution_key],
            "hash_id": fragment.hash_id,
            "applier_timeout_ms": fragment.applier_timeout_ms,
            "created_at_ms": fragment.created_at_ms,
            "version": current.version,
            "phase": current.phase,
        }
        if not added(self._connection, fragments, values):
            return False
        self._add_version(fragment.name, current, body, moves=0, now_ms=fragment.created_at_ms)
        return True

    def hold(self, name: str) -> None:
        """Until this transaction ends no other one holds or changes this fragment; what it reads from here on counts.

        On SQLite every writing transaction has the whole database for itself anyway.
        """
        # A statement of its own: one that also joined would, after its wait, miss the version that came meanwhile,
        # since PostgreSQL reads only the locked row anew. The weaker lock lets plans, which only refer to it, pass.
        self._connection.execute(
            sa.select(fragments.c.name).where(fragments.c.name == name).with_for_update(key_share=True)
        )

    def get(self, name: str) -> Fragment | None:
        row = self._connection.execute(_select_fragments().where(fragments.c.name == name)).one_or_none()
        return _fragment(row) if row else None

    def all(self) -> list[Fragment]:
        """By name. Sorted here, since a database has its own idea of an alphabet."""
        rows = self._connection.execute(_select_fragments())
        return sorted((_fragment(row) for row in rows), key=lambda fragment: fragment.name)

    def body(self, name: str, version: int) -> bytes | None:
        """The very bytes that are published for this version."""
        return self._of_version(mapping_versions.c.body, name, version)

    def digest(self, name: str, version: int) -> str | None:
        return self._of_version(mapping_versions.c.digest, name, version)

    def moves(self, name: str, version: int) -> int | None:
        """How many vnodes this version moved."""
        return self._of_version(mapping_versions.c.moves, name, version)

    def begin_version(
        self, name: str, base_version: int, new: Current, body: bytes, *, moves: int, now_ms: int
    ) -> bool:
        """Compare-and-set from a settled base to `new`; False where another version came first."""
        advanced = self._set(
            name,
            new.version,
            new.phase,
            fragments.c.version == base_version,
            fragments.c.phase == Phase.SETTLED,
        )
        if advanced:
            self._add_version(name, new, body, moves=moves, now_ms=now_ms)
        return advanced

    def change_phase(self, name: str, version: int, source: Phase, target: Phase, *, now_ms: int) -> bool:
        """Compare-and-set of the phase of `version`; False where it is not current in phase `source`."""
        changed = self._set(
            name, version, target, fragments.c.version == version, fragments.c.phase == source
        )
        if changed:
            self._log_phase(name, version, target, now_ms)
        return changed

    def phases(self, name: str, version: int) -> list[PhaseChange]:
        """Every phase that this version went through, oldest first."""
        rows = self._connection.execute(
            sa.select(phase_changes).where(
                phase_changes.c.fragment == name, phase_changes.c.version == version
            )
        )
        changes = [PhaseChange(row.version, Phase(row.phase), row.at_ms) for row in rows]
        # By rank, since two phases may fall into one millisecond.
        return sorted(changes, key=lambda change: change.phase.rank)

    def _of_version(self, column: sa.Column[T], name: str, version: int) -> T | None:
        statement = sa.select(column).where(
            mapping_versions.c.fragment == name, mapping_versions.c.version == version
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def _set(self, name: str, version: int, phase: Phase, *conditions: sa.ColumnElement[bool]) -> bool:
        statement = (
            fragments.update()
            .where(fragments.c.name == name, *conditions)
            .values(version=version, phase=phase)
        )
        return self._connection.execute(statement).rowcount == 1

    def _add_version(self, name: str, current: Current, body: bytes, *, moves: int, now_ms: int) -> None:
        self._connection.execute(
            mapping_versions.insert().values(
                fragment=name,
                version=current.version,
                body=body,
                digest=current.digest,
                moves=moves,
                created_at_ms=now_ms,
            )
        )
        self._log_phase(name, current.version, current.phase, now_ms)

    def _log_phase(self, name: str, version: int, phase: Phase, now_ms: int) -> None:
        self._connection.execute(
            phase_changes.insert().values(fragment=name, version=version, phase=phase, at_ms=now_ms)
        )


def _select_fragments() -> sa.Select[tuple[object, ...]]:
    at_current = sa.and_(
        mapping_versions.c.fragment == fragments.c.name, mapping_versions.c.version == fragments.c.version
    )
    return sa.select(*fragments.c, mapping_versions.c.digest).join(mapping_versions, at_current)


def _fragment(row: sa.Row[Any]) -> Fragment:
    return Fragment(
        name=row.name,
        vnode_count=row.vnode_count,
        distribution_key=tuple(KeyField(**field) for field in row.distribution_key),
        hash_id=row.hash_id,
        applier_timeout_ms=row.applier_timeout_ms,
        created_at_ms=row.created_at_ms,
        current=Current(row.version, Phase(row.phase), row.digest),
    )
