"""The audit log, as rows: append-only, kept as long as a setting says."""

from typing import Any

import sqlalchemy as sa

from meta.callers.access import AccessRole, AuditEntry, Caller
from meta.store.tables import audit_entries


class Audit:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, entry: AuditEntry) -> None:
        """In the transaction of the change itself, so that neither is there without the other."""
        self._connection.execute(
            audit_entries.insert().values(
                at_ms=entry.at_ms,
                caller=entry.caller.name,
                role=entry.caller.role,
                request_id=entry.caller.request_id,
                action=entry.action,
                subject=entry.subject,
                detail=dict(entry.detail),
            )
        )

    def newest(
        self, limit: int, *, before_id: int | None = None, subject: str | None = None
    ) -> list[AuditEntry]:
        """At most `limit` entries, the newest first: those older than entry `before_id`, of one subject or of all."""
        statement = sa.select(audit_entries).order_by(audit_entries.c.id.desc()).limit(limit)
        if before_id is not None:
            statement = statement.where(audit_entries.c.id < before_id)
        if subject is not None:
            statement = statement.where(audit_entries.c.subject == subject)
        return [_entry(row) for row in self._connection.execute(statement)]


def _entry(row: sa.Row[Any]) -> AuditEntry:
    caller = Caller(row.caller, AccessRole(row.role), row.request_id)
    return AuditEntry(row.at_ms, caller, row.action, row.subject, row.detail, row.id)
