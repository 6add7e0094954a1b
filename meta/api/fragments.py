"""Fragments, their mapping versions and their plans over HTTP."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response

from meta.api.control import Controlled
from meta.api.wire.base import NAME_PATTERN
from meta.api.wire.fragments import FragmentIn, FragmentOut
from meta.api.wire.plans import PlanIn, PlanOut
from meta.api.wire.rescales import AcceptanceOut
from meta.api.wire.subscribers import ProgressOut
from meta.api.wire.versions import VersionOut
from meta.registry import FragmentRequest

router = APIRouter(prefix="/v1/fragments", tags=["fragments"])

FragmentName = Annotated[str, Path(pattern=NAME_PATTERN)]
VersionNumber = Annotated[int, Path(ge=1, le=2**31 - 1)]


@router.get("")
def list_fragments(control: Controlled) -> list[FragmentOut]:
    return [FragmentOut.of(fragment) for fragment in control.registry.fragments()]


@router.post("", status_code=HTTPStatus.CREATED)
def create_fragment(body: FragmentIn, control: Controlled) -> FragmentOut:
    """A fragment with its first mapping: version 1, one contiguous run of vnodes for each unit."""
    fragment = control.rescales.create_fragment(
        FragmentRequest(
            name=body.name,
            vnode_count=body.vnode_count,
            distribution_key=body.key_fields,
            parallelism=body.parallelism,
            applier_timeout_ms=body.applier_timeout_ms,
        )
    )
    return FragmentOut.of(fragment)


@router.get("/{name}")
def show_fragment(name: FragmentName, control: Controlled) -> FragmentOut:
    return FragmentOut.of(control.registry.fragment(name))


@router.get("/{name}/progress")
def show_progress(name: FragmentName, control: Controlled) -> ProgressOut:
    """How far the current version is, and which appliers have yet to acknowledge it."""
    return ProgressOut.of(control.rescales.progress(name))


@router.get("/{name}/current")
def read_current(name: FragmentName, control: Controlled) -> Response:
    """The very bytes that etcd has under `current`, for readers that cannot reach it."""
    current = control.registry.fragment(name).current
    return Response(current.encode(), media_type="application/json")


@router.get("/{name}/versions")
def list_versions(name: FragmentName, control: Controlled) -> list[VersionOut]:
    """All mapping versions, oldest first, each with the instants of its phases."""
    return [VersionOut.of(version) for version in control.rescales.history(name)]


@router.get("/{name}/versions/{version}")
def show_version(name: FragmentName, version: VersionNumber, control: Controlled) -> VersionOut:
    return VersionOut.of(control.rescales.version(name, version))


@router.get("/{name}/versions/{version}/body")
def read_body(name: FragmentName, version: VersionNumber, control: Controlled) -> Response:
    """The very bytes that etcd has for this version. They never change."""
    return Response(control.rescales.body(name, version), media_type="application/json")


@router.post("/{name}/versions/{version}/acceptance")
def accept(name: FragmentName, version: VersionNumber, control: Controlled) -> AcceptanceOut:
    """Asked for by an applier before it uses the version for the first time; from then on no abort."""
    current = control.rescales.accept(name, version)
    return AcceptanceOut(version=current.version, phase=current.phase)


@router.post("/{name}/plans", status_code=HTTPStatus.CREATED)
def plan(name: FragmentName, body: PlanIn, control: Controlled) -> PlanOut:
    """A dry run: what would move, with its certificate, and the token that applies it."""
    return PlanOut.of(control.rescales.plan(name, body.goal))
