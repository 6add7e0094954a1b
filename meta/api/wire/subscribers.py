"""Subscribers and their progress on the wire."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from meta.api.wire.base import TEXT_PATTERN, Request, Response
from meta.lifecycle import Beat, Fragment, HandedOver, Role, Subscriber
from meta.mapping.publication import Phase
from meta.rescaling.progress import Follower, VnodeProgress
from storage_keys.vnode import PREFIX_COUNT

Vnode = Annotated[int, Field(ge=0, lt=PREFIX_COUNT, strict=True)]


class HandedOverIn(Request):
    """The vnodes whose state has gone to their owners in `version`: all so far, as [first, last] each."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)]
    vnodes: Annotated[list[tuple[Vnode, Vnode]], Field(max_length=PREFIX_COUNT, fail_fast=True)]

    @model_validator(mode="after")
    def _forwards(self) -> Self:
        if any(first > last for first, last in self.vnodes):
            raise ValueError("a run of vnodes is [first, last], and its last is not below its first")
        return self

    @property
    def value(self) -> HandedOver:
        return HandedOver(self.version, tuple(self.vnodes))


class SubscriberIn(Request):
    name: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=255)]
    role: Role
    acknowledged_version: Annotated[int, Field(ge=1, strict=True)] | None = None
    handed_over: HandedOverIn | None = None

    def beat(self, subscriber_id: str) -> Beat:
        return Beat(
            id=subscriber_id,
            name=self.name,
            role=self.role,
            acknowledged_version=self.acknowledged_version,
            handed_over=self.handed_over.value if self.handed_over else None,
        )


class SubscriberOut(Response):
    """`lag`: so many versions behind, null where it acknowledged none. `handed_over`: so many moving vnodes."""

    id: str
    name: str
    role: Role
    acknowledged_version: int | None
    seen_at_ms: int
    silent_ms: int
    lag: int | None
    waited_for: bool
    handed_over: int

    @classmethod
    def of(cls, follower: Follower) -> Self:
        subscriber = follower.subscriber
        return cls(
            id=subscriber.id,
            name=subscriber.name,
            role=subscriber.role,
            acknowledged_version=subscriber.acknowledged_version,
            seen_at_ms=subscriber.seen_at_ms,
            silent_ms=follower.silent_ms,
            lag=follower.lag,
            waited_for=follower.waited_for,
            handed_over=follower.handed_over,
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


class VnodesOut(Response):
    """Vnodes with another owner than in the version's base, and those that every awaited applier handed over."""

    moving: int
    handed_over: int


class ProgressOut(Response):
    fragment: str
    version: int
    phase: Phase
    acknowledged: int
    waiting_for: list[SubscriberOut]
    vnodes: VnodesOut
    subscribers: list[SubscriberOut]

    @classmethod
    def of(cls, found: VnodeProgress) -> Self:
        progress = found.progress
        return cls(
            fragment=progress.fragment,
            version=progress.current.version,
            phase=progress.current.phase,
            acknowledged=len(progress.acknowledged),
            waiting_for=[SubscriberOut.of(follower) for follower in found.followers if follower.waited_for],
            vnodes=VnodesOut(moving=found.moving, handed_over=found.handed_over),
            subscribers=[SubscriberOut.of(follower) for follower in found.followers],
        )
