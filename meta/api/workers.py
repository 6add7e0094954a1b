"""Worker nodes over HTTP."""

from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Response

from meta.api.control import Controlled
from meta.api.wire.base import NAME_PATTERN
from meta.api.wire.workers import WorkerIn, WorkerOut

router = APIRouter(prefix="/v1/workers", tags=["workers"])

WorkerName = Annotated[str, Path(pattern=NAME_PATTERN)]


@router.get("")
def list_workers(control: Controlled) -> list[WorkerOut]:
    moment = control.hearing.now()
    return [WorkerOut.of(worker, moment) for worker in control.registry.workers()]


@router.put("/{name}", responses={201: {"model": WorkerOut, "description": "newly registered"}})
def register_worker(name: WorkerName, body: WorkerIn, control: Controlled, response: Response) -> WorkerOut:
    """Registers a worker with its parallel units; again with the same number of units it is a heartbeat."""
    worker, new = control.registry.add_worker(
        name, parallelism=body.parallelism, heartbeat_timeout_ms=body.heartbeat_timeout_ms
    )
    response.status_code = HTTPStatus.CREATED if new else HTTPStatus.OK
    return WorkerOut.of(worker, control.hearing.now())


@router.post("/{name}/heartbeat", status_code=HTTPStatus.NO_CONTENT)
def beat(name: WorkerName, control: Controlled) -> None:
    control.registry.beat(name)
