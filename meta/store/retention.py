"""What is not kept any longer, as rows. Each statement removes at most so many as a short transaction may."""

import sqlalchemy as sa

from meta.mapping.publication import Phase
from meta.store.tables import (
    at_current,
    audit_entries,
    fragments,
    idempotent_answers,
    mapping_versions,
    phase_changes,
    plans,
    subscribers,
    vnode_loads,
)


class Retention:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def too_long(self, versions: int) -> list[str]:
        """The fragments with more than this number of versions since their oldest one."""
        statement = sa.select(fragments.c.name).where(
            fragments.c.version - fragments.c.oldest_version >= versions
        )
        return sorted(self._connection.execute(statement).scalars())

    def forget_versions(self, fragment: str, keep: int, limit: int) -> int:
        """Drops up to `limit` versions of a held fragment that are older than its newest `keep`, with their plans.

        Returns how many. `oldest_version` moves on with them.
        """
        counted = fragments.c.version - fragments.c.oldest_version + 1 - keep
        numbers = sa.select(fragments.c.oldest_version, counted).where(fragments.c.name == fragment)
        oldest, surplus = self._connection.execute(numbers).one()
        count = min(surplus, limit)
        if count <= 0:
            return 0
        before = oldest + count
        for table in (phase_changes, mapping_versions):
            self._connection.execute(
                table.delete().where(table.c.fragment == fragment, table.c.version < before)
            )
        self._connection.execute(
            plans.delete().where(
                plans.c.fragment == fragment, plans.c.applied_version < before, plans.c.id.not_in(_IN_FLIGHT)
            )
        )
        self._connection.execute(
            fragments.update().where(fragments.c.name == fragment).values(oldest_version=before)
        )
        return int(count)

    def forget_plans(self, *, expired_before_ms: int, applied_before_ms: int, limit: int) -> int:
        """Drops plans that expired unused, and those that were applied long ago but for rescales in flight."""
        unused = sa.and_(plans.c.applied_version.is_(None), plans.c.expires_at_ms < expired_before_ms)
        old = sa.and_(plans.c.applied_version.is_not(None), plans.c.applied_at_ms < applied_before_ms)
        forgotten = sa.and_(sa.or_(unused, old), plans.c.id.not_in(_IN_FLIGHT))
        return self._forget(plans, [plans.c.id], forgotten, limit)

    def forget_audit(self, before_ms: int, limit: int) -> int:
        return self._forget(audit_entries, [audit_entries.c.id], audit_entries.c.at_ms < before_ms, limit)

    def forget_answers(self, before_ms: int, limit: int) -> int:
        table = idempotent_answers
        return self._forget(table, [table.c.caller, table.c.key], table.c.created_at_ms < before_ms, limit)

    def forget_loads(self, before_ms: int, limit: int) -> int:
        """Drops the loads that their reporter has not renewed since."""
        table = vnode_loads
        key = [table.c.fragment, table.c.reporter]
        return self._forget(table, key, table.c.observed_at_ms < before_ms, limit)

    def forget_subscribers(self, before_ms: int, limit: int) -> int:
        """Drops the registrations that nobody renewed since."""
        table = subscribers
        return self._forget(table, [table.c.fragment, table.c.id], table.c.seen_at_ms < before_ms, limit)

    def _forget(
        self,
        table: sa.Table,
        key: list[sa.Column[object]],
        condition: sa.ColumnElement[bool],
        limit: int,
    ) -> int:
        chosen = sa.select(*key).where(condition).limit(limit)
        # Asked again, since on PostgreSQL another may have renewed the row while this one waited for it.
        statement = table.delete().where(sa.tuple_(*key).in_(chosen), condition)
        return self._connection.execute(statement).rowcount


# The plans of what is under way: without its plan nobody could abort it.
_IN_FLIGHT = (
    sa.select(mapping_versions.c.plan)
    .select_from(at_current)
    .where(fragments.c.phase != Phase.SETTLED, mapping_versions.c.plan.is_not(None))
)
