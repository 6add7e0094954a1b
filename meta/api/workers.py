"""Worker nodes over HTTP."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response

from meta.api.access import Operator, Reader
from meta.api.control import Controlled
from meta.api.paging import Page, page_of
from meta.api.wire.base import NAME_PATTERN, PageOut
from meta.api.wire.workers import WorkerIn, WorkerOut
from meta.registry.workers import WorkerUse

router = APIRouter(prefix="/v1/workers", tags=["workers"])

WorkerName = Annotated[str, Path(pattern=NAME_PATTERN, examples=["w1"])]


@router.get("")
def list_workers(control: Controlled, _caller: Reader, page: Page) -> PageOut[WorkerOut]:
    """All workers by name, with the fragments that are on them."""
    moment = control.hearing.now()
    found = control.workers.page(after=page.after_name(), limit=page.rows_max)
    return page_of(found, page, _key, lambda use: WorkerOut.of(use, moment))


@router.get("/{name}")
def show_worker(name: WorkerName, control: Controlled, _caller: Reader) -> WorkerOut:
    return WorkerOut.of(control.workers.get(name), control.hearing.now())


@router.put("/{name}", responses={201: {"model": WorkerOut, "description": "newly registered"}})
def register_worker(
    name: WorkerName, body: WorkerIn, control: Controlled, caller: Operator, response: Response
) -> WorkerOut:
    """Registers a worker with its parallel units. Again it is a heartbeat, and more units than before are new ones."""
    use, new = control.workers.register(
        name,
        parallelism=body.parallelism,
        heartbeat_timeout_ms=body.heartbeat_timeout_ms,
        labels=body.labels,
        by=caller,
    )
    response.status_code = HTTPStatus.CREATED if new else HTTPStatus.OK
    return WorkerOut.of(use, control.hearing.now())


@router.delete("/{name}", status_code=HTTPStatus.NO_CONTENT)
def remove_worker(name: WorkerName, control: Controlled, caller: Operator) -> None:
    """Forgets a worker that no fragment is on. Its units never come back, whoever registers under its name."""
    control.workers.remove(name, by=caller)


@router.post("/{name}/heartbeat", status_code=HTTPStatus.NO_CONTENT)
def beat(name: WorkerName, control: Controlled, _caller: Operator) -> None:
    control.workers.beat(name)


@router.post("/{name}/drain")
def drain(name: WorkerName, control: Controlled, caller: Operator) -> WorkerOut:
    """No plan chooses its units any more. Adaptive fragments leave it by themselves, others by a rescale."""
    use = control.workers.drain(name, draining=True, by=caller)
    return WorkerOut.of(use, control.hearing.now())


@router.delete("/{name}/drain")
def undrain(name: WorkerName, control: Controlled, caller: Operator) -> WorkerOut:
    """Takes the draining back."""
    use = control.workers.drain(name, draining=False, by=caller)
    return WorkerOut.of(use, control.hearing.now())


def _key(use: WorkerUse) -> str:
    return use.worker.name
