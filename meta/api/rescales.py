"""Rescales over HTTP: applying plans, what became of them, and the ways back."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query

from meta.api.access import Operator, Reader
from meta.api.control import Controlled
from meta.api.etag import IfMatch, require_match
from meta.api.fragments import FragmentName
from meta.api.paging import Page, page_of
from meta.api.wire.base import NAME_PATTERN, PageOut
from meta.api.wire.rescales import RescaleIn, RescaleOut, RescaleRecordOut, RescaleShownOut, RollbackIn

router = APIRouter(prefix="/v1", tags=["rescales"])

RescaleId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$", description="the plan's id")]


@router.post("/rescales", status_code=HTTPStatus.ACCEPTED)
def apply(body: RescaleIn, control: Controlled, by: Operator, if_match: IfMatch = None) -> RescaleOut:
    """Applies a plan's token. It settles when every applier acknowledged: see the fragment's progress.

    The same token has the same answer, whatever If-Match says then.
    """
    rescale = control.rescales.apply(
        body.token,
        handover=body.handover.value if body.handover else None,
        require=lambda fragment: require_match(fragment.name, fragment.current, if_match),
        by=by,
    )
    return RescaleOut.of(rescale)


@router.get("/rescales")
def list_rescales(
    page: Page,
    control: Controlled,
    _by: Reader,
    fragment: Annotated[str | None, Query(pattern=NAME_PATTERN)] = None,
) -> PageOut[RescaleRecordOut]:
    """The last applied first, of one fragment or of all."""
    rows = control.rescales.newest(page.rows_max, after=page.after_instant(), fragment=fragment)
    return page_of(rows, page, lambda rescale: (rescale.applied_at_ms, rescale.id), RescaleRecordOut.of)


@router.get("/rescales/{rescale_id}")
def show_rescale(rescale_id: RescaleId, control: Controlled, _by: Reader) -> RescaleShownOut:
    rescale = control.rescales.rescale(rescale_id)
    return RescaleShownOut.shown(rescale, control.subscribing.progress(rescale.fragment))


@router.post("/rescales/{rescale_id}/abort")
def abort(rescale_id: RescaleId, control: Controlled, by: Operator) -> RescaleRecordOut:
    """As long as no applier accepted it: one more version, settled at once, with the owners from before."""
    return RescaleRecordOut.of(control.rescales.abort(rescale_id, by=by))


@router.post("/fragments/{name}/abort")
def abort_current(name: FragmentName, control: Controlled, by: Operator) -> RescaleRecordOut:
    """Aborts the rescale that is in flight."""
    return RescaleRecordOut.of(control.rescales.abort_current(name, by=by))


@router.post("/fragments/{name}/rollback", status_code=HTTPStatus.ACCEPTED)
def roll_back(name: FragmentName, body: RollbackIn, control: Controlled, by: Operator) -> RescaleOut:
    """Plans and applies the mapping of an earlier version, with the units of it that are still there."""
    handover = body.handover.value if body.handover else None
    return RescaleOut.of(control.rescales.roll_back(name, body.to_version, handover=handover, by=by))
