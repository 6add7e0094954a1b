"""A fragment's mapping, its versions and what lies between them, over HTTP."""

from http import HTTPStatus
from typing import Annotated, Literal

from fastapi import APIRouter, Query, Response

from meta.api.access import Reader
from meta.api.control import Controlled
from meta.api.etag import IfNoneMatch, body_tag, is_known, tag_of
from meta.api.fragments import FragmentName, VersionNumber
from meta.api.paging import Page, page_of
from meta.api.wire.base import PageOut
from meta.api.wire.groups import GroupsOut
from meta.api.wire.located import LocatedOut, LocateIn
from meta.api.wire.versions import (
    DiffOut,
    MappingForm,
    MappingOut,
    VersionItemOut,
    VersionOut,
    mapping_document,
    mapping_tail,
)
from meta.mapping.groups import groups
from meta.mapping.publication import Current, Phase, decode_body, digest
from meta.store.versions import VersionRecord
from storage_keys.vnode import PREFIX_COUNT

router = APIRouter(prefix="/v1/fragments/{name}", tags=["mappings"])

OptionalVersion = Annotated[
    int | None, Query(ge=1, le=2**31 - 1, description="any that is kept; by default the current one")
]
JSON = "application/json"
_NOT_MODIFIED: dict[int | str, dict[str, object]] = {304: {"description": "as the ETag named, no body"}}


@router.get("/mapping", responses={200: {"model": MappingOut}, **_NOT_MODIFIED})
def read_mapping(
    name: FragmentName,
    control: Controlled,
    _caller: Reader,
    version: OptionalVersion = None,
    form: MappingForm = "owners",
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Which unit owns each vnode, in the form asked for. Ask again with the ETag: it costs next to nothing."""
    state = control.history.state(name, version)
    tag = tag_of(state, form)
    if is_known(if_none_match, tag):
        return _not_modified(tag)

    def tail() -> bytes:
        return mapping_tail(decode_body(control.history.body(name, state.version)), state.digest, form)

    document = mapping_document(name, state, control.documents.tail(state.digest, form, tail))
    return Response(document, media_type=JSON, headers={"ETag": tag})


@router.get("/current", responses=_NOT_MODIFIED)
def read_current(
    name: FragmentName, control: Controlled, _caller: Reader, if_none_match: IfNoneMatch = None
) -> Response:
    """The very bytes that etcd has under `current`, for readers that cannot reach it."""
    state = control.history.state(name)
    tag = tag_of(state, "current")
    if is_known(if_none_match, tag):
        return _not_modified(tag)
    current = Current(state.version, Phase(state.phase), state.digest)
    return Response(current.encode(), media_type=JSON, headers={"ETag": tag})


@router.get("/versions")
def list_versions(
    name: FragmentName,
    page: Page,
    control: Controlled,
    _caller: Reader,
    order: Annotated[Literal["oldest", "newest"], Query(description="which comes first")] = "oldest",
) -> PageOut[VersionItemOut]:
    """The mapping versions that are kept, without their owners, each with the instants of its phases."""
    found = control.history.versions(
        name, after=page.after_number(below=2**31), limit=page.rows_max, newest_first=order == "newest"
    )
    return page_of(found, page, _number, VersionItemOut.of)


@router.get("/versions/{version}")
def show_version(
    name: FragmentName, version: VersionNumber, control: Controlled, _caller: Reader
) -> VersionOut:
    return VersionOut.of(control.history.version(name, version))


@router.get("/versions/{version}/body", responses=_NOT_MODIFIED)
def read_body(
    name: FragmentName,
    version: VersionNumber,
    control: Controlled,
    _caller: Reader,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """The very bytes that etcd has for this version. They never change."""
    if if_none_match is not None:
        tag = body_tag(control.history.state(name, version).digest)
        if is_known(if_none_match, tag):
            return _not_modified(tag)
    body = control.history.body(name, version)
    return Response(body, media_type=JSON, headers={"ETag": body_tag(digest(body))})


@router.get("/diff")
def compare(
    name: FragmentName,
    control: Controlled,
    _caller: Reader,
    source: Annotated[
        int | None, Query(alias="from", ge=1, le=2**31 - 1, description="by default the version before `to`")
    ] = None,
    target: Annotated[
        int | None, Query(alias="to", ge=1, le=2**31 - 1, description="by default the current version")
    ] = None,
) -> DiffOut:
    """What changed from one version to another, as runs of vnodes and in figures."""
    return DiffOut.of(control.history.comparison(name, source, target))


@router.get("/groups")
def group(
    name: FragmentName,
    control: Controlled,
    _caller: Reader,
    tasks: Annotated[
        int | None, Query(ge=1, le=PREFIX_COUNT, description="by default one for each unit that owns vnodes")
    ] = None,
) -> GroupsOut:
    """All vnodes of the current version in so many groups, for tasks of a scan: a unit's stay together if they can."""
    version = control.history.mapping(name)
    return GroupsOut.of(version, groups(version.mapping, tasks))


@router.post("/locate")
def locate(name: FragmentName, body: LocateIn, control: Controlled, _caller: Reader) -> LocatedOut:
    """Where a key is: its hash, its vnode, the unit that owns it, and the storage keys that it is among."""
    return LocatedOut.of(control.locating.locate(name, body.key, body.table_id))


def _not_modified(tag: str) -> Response:
    return Response(status_code=HTTPStatus.NOT_MODIFIED, headers={"ETag": tag})


def _number(record: VersionRecord) -> int:
    return record.version
