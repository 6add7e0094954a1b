"""The audit log over HTTP."""

from typing import Annotated

from fastapi import APIRouter, Query

from meta.api.access import Admin
from meta.api.control import Controlled
from meta.api.paging import Page, page_of
from meta.api.wire.audit import AuditEntryOut
from meta.api.wire.base import TEXT_PATTERN, PageOut
from meta.callers.access import AuditEntry

router = APIRouter(prefix="/v1/audit", tags=["audit"])

Subject = Annotated[str | None, Query(pattern=TEXT_PATTERN, max_length=255)]


@router.get("")
def list_audit(
    control: Controlled, _caller: Admin, page: Page, subject: Subject = None
) -> PageOut[AuditEntryOut]:
    """Who changed what, the newest first; of one `subject` (a fragment's name, a worker's, a token's id) or of all."""
    entries = control.audit.newest(page.rows_max, before_id=page.after_number(), subject=subject)
    return page_of(entries, page, _key, AuditEntryOut.of)


def _key(entry: AuditEntry) -> int:
    assert entry.id is not None
    return entry.id
