"""Fragments over HTTP."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query

from meta.api.access import Operator, Reader
from meta.api.control import Controlled
from meta.api.paging import Page, page_of
from meta.api.wire.base import NAME_PATTERN, PageOut
from meta.api.wire.fragments import FragmentIn, FragmentOut, FragmentPatch
from meta.api.wire.rescales import AcceptanceOut
from meta.api.wire.subscribers import ProgressOut
from meta.registry.fragments import FragmentChange, FragmentRequest, FragmentState

router = APIRouter(prefix="/v1/fragments", tags=["fragments"])

FragmentName = Annotated[str, Path(pattern=NAME_PATTERN)]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


OnWorker = Annotated[
    str | None, Query(pattern=NAME_PATTERN, description="only those that are on this worker")
]


@router.get("")
def list_fragments(
    control: Controlled, _caller: Reader, page: Page, worker: OnWorker = None
) -> PageOut[FragmentOut]:
    """All fragments by name."""
    found = control.fragments.states(after=page.after_name(), limit=page.rows_max, worker=worker)
    return page_of(found, page, _key, FragmentOut.of)


@router.post("", status_code=HTTPStatus.CREATED)
def create_fragment(body: FragmentIn, control: Controlled, caller: Operator) -> FragmentOut:
    """A fragment with its first mapping: version 1, one contiguous run of vnodes for each unit."""
    request = FragmentRequest(
        name=body.name,
        vnode_count=body.vnode_count,
        distribution_key=body.key_fields,
        parallelism=body.units,
        applier_timeout_ms=body.applier_timeout_ms,
        table_ids=tuple(body.table_ids),
    )
    control.rescales.create_fragment(request, by=caller)
    return FragmentOut.of(control.fragments.state(body.name))


@router.get("/{name}")
def show_fragment(name: FragmentName, control: Controlled, _caller: Reader) -> FragmentOut:
    return FragmentOut.of(control.fragments.state(name))


@router.patch("/{name}")
def change_fragment(
    name: FragmentName, body: FragmentPatch, control: Controlled, caller: Operator
) -> FragmentOut:
    """Sets the policy, the table ids and the appliers' timeout. A new policy moves nothing at once."""
    change = FragmentChange(
        parallelism=body.policy,
        applier_timeout_ms=body.applier_timeout_ms,
        table_ids=None if body.table_ids is None else tuple(body.table_ids),
    )
    return FragmentOut.of(control.fragments.change(name, change, by=caller))


@router.get("/{name}/progress")
def show_progress(name: FragmentName, control: Controlled, _by: Reader) -> ProgressOut:
    """How far the current version is, and which appliers have yet to acknowledge it."""
    return ProgressOut.of(control.subscribing.progress(name))


@router.post("/{name}/versions/{version}/acceptance")
def accept(name: FragmentName, version: VersionNumber, control: Controlled, by: Operator) -> AcceptanceOut:
    """Asked for by an applier before it uses the version for the first time; from then on no abort."""
    current = control.rescales.accept(name, version, by=by)
    return AcceptanceOut(version=current.version, phase=current.phase)


def _key(state: FragmentState) -> str:
    return state.fragment.name
