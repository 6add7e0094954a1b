"""Worker nodes on the wire."""

from typing import Self

from meta.api.wire.base import Milliseconds, Parallelism, Request, Response
from meta.lifecycle import Moment, Worker


class WorkerIn(Request):
    """`heartbeat_timeout_ms`: null for a worker that an operator vouches for."""

    parallelism: Parallelism
    heartbeat_timeout_ms: Milliseconds | None = None


class WorkerOut(Response):
    name: str
    units: list[int]
    alive: bool
    heartbeat_timeout_ms: int | None
    registered_at_ms: int
    seen_at_ms: int

    @classmethod
    def of(cls, worker: Worker, moment: Moment) -> Self:
        return cls(
            name=worker.name,
            units=list(worker.unit_ids),
            alive=worker.alive(moment),
            heartbeat_timeout_ms=worker.heartbeat_timeout_ms,
            registered_at_ms=worker.registered_at_ms,
            seen_at_ms=worker.seen_at_ms,
        )
