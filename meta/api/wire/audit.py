"""The audit log on the wire."""

from collections.abc import Mapping
from typing import Any, Self

from meta.api.wire.base import Response
from meta.callers.access import AccessRole, AuditEntry


class AuditEntryOut(Response):
    """`request_id` is the X-Request-Id of the request's answer and of its lines in the service's log."""

    id: int
    at_ms: int
    caller: str
    role: AccessRole
    request_id: str
    action: str
    subject: str
    detail: Mapping[str, Any]

    @classmethod
    def of(cls, entry: AuditEntry) -> Self:
        assert entry.id is not None
        return cls(
            id=entry.id,
            at_ms=entry.at_ms,
            caller=entry.caller.name,
            role=entry.caller.role,
            request_id=entry.caller.request_id,
            action=entry.action,
            subject=entry.subject,
            detail=entry.detail,
        )
