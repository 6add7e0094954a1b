"""Fragments as rows, and how they go on: from version to version and from phase to phase, by compare-and-set."""

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import AdaptivePolicy, Cause, Fragment, KeyField, NewVersion, RescalePhase
from meta.mapping.publication import Current, Phase
from meta.store.insertion import added
from meta.store.paging import page_by_name
from meta.store.tables import at_current, fragments, mapping_versions, phase_changes


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
        statement = page_by_name(_select_fragments(), fragments.c.name, self._connection, limit, after)
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
        columns = (fragments.c.name, fragments.c.phase, mapping_versions.c.body)
        statement = sa.select(*columns).select_from(at_current)
        if naming is not None:
            statement = statement.where(self._body_has(f'"{naming}":[['.encode()))
        return sorted((row.name, Phase(row.phase), row.body) for row in self._connection.execute(statement))

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

    def _body_has(self, needle: bytes) -> sa.ColumnElement[bool]:
        body = mapping_versions.c.body
        if self._connection.dialect.name == "sqlite":  # whose LIKE may know no bytes, by how it was built
            return sa.func.instr(body, sa.literal(needle, sa.LargeBinary)) > 0
        return body.bool_op("LIKE")(sa.literal(b"%" + needle + b"%", sa.LargeBinary))

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
        self._connection.execute(mapping_versions.insert().values(version_row(name, new, now_ms)))
        self._log_phase(name, new.current.version, RescalePhase(new.current.phase), now_ms)

    def _log_phase(self, name: str, version: int, phase: RescalePhase, now_ms: int) -> None:
        before = sa.select(sa.func.max(phase_changes.c.at_ms)).where(
            phase_changes.c.fragment == name, phase_changes.c.version == version
        )
        # Whoever waited for the fragment read the clock before, and replicas have clocks of their own.
        at_ms = max(now_ms, self._connection.execute(before).scalar_one() or now_ms)
        self._connection.execute(
            phase_changes.insert().values(fragment=name, version=version, phase=phase, at_ms=at_ms)
        )


def version_row(fragment: str, new: NewVersion, now_ms: int) -> dict[str, Any]:
    return {
        "fragment": fragment,
        "version": new.current.version,
        "body": new.body,
        "digest": new.current.digest,
        "moves": new.moves,
        "cause": new.cause,
        "plan": new.plan,
        "created_at_ms": now_ms,
    }


def _select_fragments() -> sa.Select[tuple[object, ...]]:
    return sa.select(*fragments.c, mapping_versions.c.digest).select_from(at_current)


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
