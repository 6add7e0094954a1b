"""A fragment's changes as server-sent events, for readers without etcd."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Header
from fastapi.sse import EventSourceResponse, ServerSentEvent

from meta.api.access import Reader
from meta.api.control import Controlled
from meta.api.fragments import FragmentName
from meta.changes import Position
from meta.mapping.publication import Current

router = APIRouter(prefix="/v1/fragments", tags=["fragments"])

LastEventId = Annotated[
    str | None,
    Header(
        pattern=r"^[0-9]{1,10}-[0-9]$",
        description="The id of the last event that the client has: the later ones that are kept come first.",
        examples=["7-2"],
    ),
]


@dataclass(frozen=True, slots=True)
class Stream:
    """`current` is what a client that has nothing yet begins with, before `events`."""

    events: AsyncIterator[Current]
    current: Current | None


async def stream(
    name: FragmentName, control: Controlled, last_event_id: LastEventId = None
) -> AsyncIterator[Stream]:
    """Whatever refuses a stream does so before it begins."""
    current = await control.changes.current(name)
    with control.changes.listening(name, current), control.observation.metrics.streams.track_inprogress():
        known = _position(last_event_id) if last_event_id else Position.of(current)
        yield Stream(control.changes.after(name, known), None if last_event_id else current)


@router.get("/{name}/events", response_class=EventSourceResponse)
async def events(
    _caller: Reader, found: Annotated[Stream, Depends(stream)]
) -> AsyncIterator[ServerSentEvent]:
    """Every change of the fragment's version or phase: event `mapping`, data as `current` has it.

    It begins with the current state, or with what came after `Last-Event-ID`. It never goes backwards, and ends when
    the service stops: go on at any replica from the last id.
    """
    if found.current is not None:
        yield _event(found.current)
    async for change in found.events:
        yield _event(change)


def _event(current: Current) -> ServerSentEvent:
    version, rank = Position.of(current)
    return ServerSentEvent(raw_data=current.encode().decode(), event="mapping", id=f"{version}-{rank}")


def _position(event_id: str) -> Position:
    version, rank = event_id.split("-")
    return Position(int(version), int(rank))
