"""The audit log, read. Each use case that changes something writes its entry itself."""

from dataclasses import dataclass

from meta.callers.access import AuditEntry
from meta.store.database import Database


@dataclass(frozen=True, slots=True)
class AuditLog:
    database: Database

    def newest(
        self, limit: int, *, before_id: int | None = None, subject: str | None = None
    ) -> list[AuditEntry]:
        """At most `limit` entries, the newest first: those older than entry `before_id`, of one subject or of all."""
        with self.database.reading() as tx:
            return tx.audit.newest(limit, before_id=before_id, subject=subject)
