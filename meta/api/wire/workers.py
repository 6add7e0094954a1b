"""Worker nodes on the wire."""

from typing import Annotated, Self

from pydantic import Field

from meta.api.wire.base import Milliseconds, Name, Parallelism, Request, Response, at_most
from meta.lifecycle import Moment
from meta.registry.workers import WorkerUse

LABELS_MAX = 32

LabelKey = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$")]
LabelValue = Annotated[str, Field(pattern=r"^([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?$")]
Labels = dict[LabelKey, LabelValue]

EXAMPLE_LABELS = {"zone": "eu-1a", "disk": "nvme"}


class WorkerIn(Request):
    """`heartbeat_timeout_ms`: null where an operator vouches for the worker. `labels`: null leaves them as they are."""

    parallelism: Annotated[Parallelism, Field(examples=[4])]
    labels: (
        Annotated[Labels, Field(max_length=LABELS_MAX, examples=[EXAMPLE_LABELS]), at_most(LABELS_MAX)] | None
    ) = None
    heartbeat_timeout_ms: Annotated[Milliseconds | None, Field(examples=[30_000])] = None


class WorkerOut(Response):
    """`fragments`: those that have a mapping with its units, or move away from one. `seen_at_ms`: last heard."""

    name: Name
    units: Annotated[list[int], Field(examples=[[1, 2, 3, 4]])]
    labels: Annotated[dict[str, str], Field(examples=[EXAMPLE_LABELS])]
    draining: bool
    alive: bool
    heartbeat_timeout_ms: Annotated[int | None, Field(examples=[30_000])]
    registered_at_ms: Annotated[int, Field(examples=[1_795_282_000_000])]
    seen_at_ms: Annotated[int, Field(examples=[1_795_282_512_345])]
    fragments: Annotated[list[str], Field(examples=[["flights"]])]

    @classmethod
    def of(cls, use: WorkerUse, moment: Moment) -> Self:
        worker = use.worker
        return cls(
            name=worker.name,
            units=list(worker.unit_ids),
            labels=dict(worker.labels),
            draining=worker.draining,
            alive=worker.alive(moment),
            heartbeat_timeout_ms=worker.heartbeat_timeout_ms,
            registered_at_ms=worker.registered_at_ms,
            seen_at_ms=worker.seen_at_ms,
            fragments=list(use.fragments),
        )
