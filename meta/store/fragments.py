"""Fragments, their mapping versions and the phases these went through, as rows."""

from dataclasses import asdict
from typing import Any, TypeVar

import sqlalchemy as sa

from meta.lifecycle import AdaptivePolicy, Cause, Fragment, KeyField, NewVersion, PhaseChange, RescalePhase
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
            "table_ids": list(fragment.table_ids),
            "adaptive": _policy_json(fragment.adaptive),
            "applier_timeout_ms": fragment.applier_timeout_ms,
            "created_at_ms": fragment.created_at_ms,
            "version": current.version,
            "phase": current.phase,
        }
        if not added(self._connection, fragments, values):
            return False
        first = NewVersion(current, body, fragment.vnode_count, moves=0, cause=Cause.CREATED)
        self._add_version(fragment.name, first, now_ms=fragment.created_at_ms)
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

    def page(self, *, after: str | None, limit: int) -> list[Fragment]:
        """At most `limit` of them by name, from the first one after `after` on."""
        sqlite = self._connection.dialect.name == "sqlite"
        # In the order of Python and of SQLite; a PostgreSQL database has its own idea of an alphabet.
        by_name = fragments.c.name if sqlite else sa.collate(fragments.c.name, "C")
        statement = _select_fragments().order_by(by_name).limit(limit)
        if after is not None:
            statement = statement.where(by_name > after)
        return [_fragment(row) for row in self._connection.execute(statement)]

    def count(self) -> int:
        return self._connection.execute(sa.select(sa.func.count()).select_from(fragments)).scalar_one()

    def change(self, changed: Fragment) -> None:
        """Writes what may be changed of a fragment besides its version: policy, table ids, the appliers' timeout."""
        self._connection.execute(
            fragments.update()
            .where(fragments.c.name == changed.name)
            .values(
                table_ids=list(changed.table_ids),
                adaptive=_policy_json(changed.adaptive),
                applier_timeout_ms=changed.applier_timeout_ms,
            )
        )

    def current_bodies(self, naming: str | None = None) -> list[tuple[str, Phase, bytes]]:
        """The name of each fragment with the phase and the body of its current version, by name.

        With `naming` only of the fragments that may be on this worker: all that are, and perhaps a few more.
        """
        statement = sa.select(fragments.c.name, fragments.c.phase, mapping_versions.c.body).join(
            mapping_versions, _at_current()
        )
        if naming is not None:
            statement = statement.where(self._body_has(f'"{naming}":[['.encode()))
        return sorted((row.name, Phase(row.phase), row.body) for row in self._connection.execute(statement))

    def began_at_ms(self, name: str, version: int) -> int | None:
        return self._of_version(mapping_versions.c.created_at_ms, name, version)

    def body(self, name: str, version: int) -> bytes | None:
        """The very bytes that are published for this version."""
        return self._of_version(mapping_versions.c.body, name, version)

    def digest(self, name: str, version: int) -> str | None:
        return self._of_version(mapping_versions.c.digest, name, version)

    def moves(self, name: str, version: int) -> int | None:
        """How many vnodes this version moved."""
        return self._of_version(mapping_versions.c.moves, name, version)

    def cause(self, name: str, version: int) -> tuple[Cause, str | None] | None:
        """Why there is this version, and the id of the plan that it came of."""
        statement = sa.select(mapping_versions.c.cause, mapping_versions.c.plan).where(
            mapping_versions.c.fragment == name, mapping_versions.c.version == version
        )
        row = self._connection.execute(statement).one_or_none()
        return (Cause(row.cause), row.plan) if row else None

    def begin_version(self, name: str, base_version: int, new: NewVersion, *, now_ms: int) -> bool:
        """Compare-and-set from a settled base to `new`; False where another version came first."""
        return self._go_on(name, base_version, Phase.SETTLED, new, now_ms=now_ms)

    def end_version(
        self, name: str, ending: Current, end: RescalePhase, following: NewVersion, *, now_ms: int
    ) -> bool:
        """Compare-and-set from a version in flight, as it is in `ending`, to the one that comes in its place.

        `end` is what became of it. False where its phase changed meanwhile, or it is not current any more.
        """
        ended = self._go_on(name, ending.version, ending.phase, following, now_ms=now_ms)
        if ended:
            self._log_phase(name, ending.version, end, now_ms)
        return ended

    def change_phase(self, name: str, version: int, source: Phase, target: Phase, *, now_ms: int) -> bool:
        """Compare-and-set of the phase of `version`; False where it is not current in phase `source`."""
        statement = (
            fragments.update()
            .where(fragments.c.name == name, fragments.c.version == version, fragments.c.phase == source)
            .values(phase=target)
        )
        changed = self._connection.execute(statement).rowcount == 1
        if changed:
            self._log_phase(name, version, RescalePhase(target), now_ms)
        return changed

    def phases(self, name: str, version: int) -> list[PhaseChange]:
        """Every phase that this version went through, oldest first."""
        rows = self._connection.execute(
            sa.select(phase_changes).where(
                phase_changes.c.fragment == name, phase_changes.c.version == version
            )
        )
        changes = [PhaseChange(row.version, RescalePhase(row.phase), row.at_ms) for row in rows]
        # By rank, since two phases may fall into one millisecond.
        return sorted(changes, key=lambda change: change.phase.rank)

    def settled_before(self, name: str, version: int) -> int | None:
        """The last version before this one that settled and is kept."""
        settled = sa.select(sa.func.max(phase_changes.c.version)).where(
            phase_changes.c.fragment == name,
            phase_changes.c.version < version,
            phase_changes.c.phase == RescalePhase.SETTLED,
        )
        found: int | None = self._connection.execute(settled).scalar_one()
        return found

    def _body_has(self, needle: bytes) -> sa.ColumnElement[bool]:
        body = mapping_versions.c.body
        if self._connection.dialect.name == "sqlite":  # whose LIKE may know no bytes, by how it was built
            return sa.func.instr(body, sa.literal(needle, sa.LargeBinary)) > 0
        return body.bool_op("LIKE")(sa.literal(b"%" + needle + b"%", sa.LargeBinary))

    def _of_version(self, column: sa.Column[T], name: str, version: int) -> T | None:
        statement = sa.select(column).where(
            mapping_versions.c.fragment == name, mapping_versions.c.version == version
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def _go_on(self, name: str, version: int, phase: Phase, new: NewVersion, *, now_ms: int) -> bool:
        current = new.current
        statement = (
            fragments.update()
            .where(fragments.c.name == name, fragments.c.version == version, fragments.c.phase == phase)
            .values(version=current.version, phase=current.phase, vnode_count=new.vnode_count)
        )
        gone_on = self._connection.execute(statement).rowcount == 1
        if gone_on:
            self._add_version(name, new, now_ms=now_ms)
        return gone_on

    def _add_version(self, name: str, new: NewVersion, *, now_ms: int) -> None:
        self._connection.execute(
            mapping_versions.insert().values(
                fragment=name,
                version=new.current.version,
                body=new.body,
                digest=new.current.digest,
                moves=new.moves,
                cause=new.cause,
                plan=new.plan,
                created_at_ms=now_ms,
            )
        )
        self._log_phase(name, new.current.version, RescalePhase(new.current.phase), now_ms)

    def _log_phase(self, name: str, version: int, phase: RescalePhase, now_ms: int) -> None:
        self._connection.execute(
            phase_changes.insert().values(fragment=name, version=version, phase=phase, at_ms=now_ms)
        )


def _select_fragments() -> sa.Select[tuple[object, ...]]:
    return sa.select(*fragments.c, mapping_versions.c.digest).join(mapping_versions, _at_current())


def _at_current() -> sa.ColumnElement[bool]:
    return sa.and_(
        mapping_versions.c.fragment == fragments.c.name, mapping_versions.c.version == fragments.c.version
    )


def _policy_json(policy: AdaptivePolicy | None) -> Any:
    # Not None, which would be JSON's null and not the column's.
    return sa.null() if policy is None else asdict(policy)


def _fragment(row: sa.Row[Any]) -> Fragment:
    return Fragment(
        name=row.name,
        vnode_count=row.vnode_count,
        distribution_key=tuple(KeyField(**field) for field in row.distribution_key),
        hash_id=row.hash_id,
        applier_timeout_ms=row.applier_timeout_ms,
        created_at_ms=row.created_at_ms,
        current=Current(row.version, Phase(row.phase), row.digest),
        table_ids=tuple(row.table_ids),
        adaptive=AdaptivePolicy(**row.adaptive) if row.adaptive else None,
        oldest_version=row.oldest_version,
    )
