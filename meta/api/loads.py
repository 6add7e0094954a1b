"""Loads of vnodes over HTTP: dispatchers report them, plans by load level them."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path

from meta.api.access import Operator, Reader
from meta.api.control import Controlled
from meta.api.fragments import FragmentName
from meta.api.wire.loads import LoadsIn, LoadsOut

router = APIRouter(prefix="/v1/fragments/{name}/loads", tags=["loads"])

ReporterId = Annotated[str, Path(pattern=r"^[A-Za-z0-9._-]{1,64}$")]


@router.put("/{reporter}", status_code=HTTPStatus.NO_CONTENT)
def report(
    name: FragmentName, reporter: ReporterId, body: LoadsIn, control: Controlled, _caller: Operator
) -> None:
    """What one dispatcher counted of each vnode since its last report: every minute or so."""
    counts = body.counts(control.fragments.get(name).vnode_count)
    control.loading.report(name, reporter, counts, body.observed_for_ms)


@router.get("")
def show(name: FragmentName, control: Controlled, _caller: Reader) -> LoadsOut:
    """What is known of the loads, how uneven they are, and whether that is worth a rescale."""
    return LoadsOut.of(control.loading.loaded(name))
