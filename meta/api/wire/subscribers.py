"""Subscribers and their progress on the wire."""

from typing import Annotated, Self

from pydantic import Field

from meta.api.wire.base import TEXT_PATTERN, Request, Response
from meta.lifecycle import Fragment, Progress, Role, Subscriber
from meta.mapping.publication import Phase


class SubscriberIn(Request):
    name: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=255)]
    role: Role
    acknowledged_version: Annotated[int, Field(ge=1, strict=True)] | None = None


class SubscriberOut(Response):
    id: str
    name: str
    role: Role
    acknowledged_version: int | None
    seen_at_ms: int

    @classmethod
    def of(cls, subscriber: Subscriber) -> Self:
        return cls(
            id=subscriber.id,
            name=subscriber.name,
            role=subscriber.role,
            acknowledged_version=subscriber.acknowledged_version,
            seen_at_ms=subscriber.seen_at_ms,
        )


class HeardOut(Response):
    """A subscriber, and what it goes on with: it beats before `expires_in_ms`, and follows `current_version`."""

    id: str
    name: str
    role: Role
    acknowledged_version: int | None
    expires_in_ms: int
    current_version: int

    @classmethod
    def of(cls, subscriber: Subscriber, fragment: Fragment) -> Self:
        return cls(
            id=subscriber.id,
            name=subscriber.name,
            role=subscriber.role,
            acknowledged_version=subscriber.acknowledged_version,
            expires_in_ms=fragment.applier_timeout_ms,
            current_version=fragment.current.version,
        )


class ProgressOut(Response):
    fragment: str
    version: int
    phase: Phase
    acknowledged: int
    waiting_for: list[SubscriberOut]

    @classmethod
    def of(cls, progress: Progress) -> Self:
        return cls(
            fragment=progress.fragment,
            version=progress.current.version,
            phase=progress.current.phase,
            acknowledged=len(progress.acknowledged),
            waiting_for=[SubscriberOut.of(applier) for applier in progress.waiting_for],
        )
