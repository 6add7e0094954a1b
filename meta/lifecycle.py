"""The values of a rescale's life and the rules on them: who is alive, who is waited for, when a version settles.

Pure: every instant is an argument, in milliseconds since the epoch. Source: design.md, "Jobs, fragments, rescales".
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Certificate
from meta.mapping.publication import Current, MappingVersion, Phase
from meta.mapping.unit import Unit

APPLIER_TIMEOUT_MS = 10_000
PLAN_LIFETIME_MS = 15 * 60 * 1000


@dataclass(frozen=True, slots=True)
class Moment:
    """An instant, and the one from which this service could have heard every heartbeat.

    Silence counts only from `silence_from_ms` on: after an outage of ours nobody is dead for one timeout.
    """

    now_ms: int
    silence_from_ms: int

    def silence_ms(self, seen_at_ms: int) -> int:
        return self.now_ms - max(seen_at_ms, self.silence_from_ms)


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker node. Without a heartbeat timeout an operator vouches for it and it counts as alive."""

    name: str
    unit_ids: tuple[int, ...]
    heartbeat_timeout_ms: int | None
    registered_at_ms: int
    seen_at_ms: int

    def alive(self, moment: Moment) -> bool:
        timeout_ms = self.heartbeat_timeout_ms
        return timeout_ms is None or moment.silence_ms(self.seen_at_ms) < timeout_ms

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(Unit(unit_id, self.name) for unit_id in self.unit_ids)


@dataclass(frozen=True, slots=True)
class KeyField:
    """One column of a distribution key; `type` is Spark's SQL name."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Fragment:
    name: str
    vnode_count: int
    distribution_key: tuple[KeyField, ...]
    hash_id: str
    applier_timeout_ms: int
    created_at_ms: int
    current: Current


@dataclass(frozen=True, slots=True)
class PhaseChange:
    version: int
    phase: Phase
    at_ms: int


@dataclass(frozen=True, slots=True)
class Version:
    """One mapping version of a fragment, with what became of it."""

    body: MappingVersion
    phases: tuple[PhaseChange, ...]
    moves: int


@dataclass(frozen=True, slots=True)
class RescalePlan:
    """A stored dry run: what `plan` computed on the base version, and whether it was applied."""

    id: str
    fragment: str
    base_version: int
    units: tuple[Unit, ...]
    mapping: VnodeMapping
    certificate: Certificate
    created_at_ms: int
    expires_at_ms: int
    digest: str
    applied_version: int | None = None

    @property
    def token(self) -> str:
        return f"{self.id}.{self.digest}"


class Role(StrEnum):
    """Appliers must acknowledge a version before it settles; readers may be stale and are never awaited."""

    APPLIER = "applier"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class Subscriber:
    id: str
    fragment: str
    name: str
    role: Role
    acknowledged_version: int | None
    seen_at_ms: int

    def acknowledged(self, version: int) -> bool:
        return self.acknowledged_version is not None and self.acknowledged_version >= version


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a version is: the appliers that acknowledged it, and those still waited for."""

    fragment: str
    current: Current
    acknowledged: tuple[Subscriber, ...]
    waiting_for: tuple[Subscriber, ...]

    @property
    def may_settle(self) -> bool:
        return self.current.phase is not Phase.SETTLED and not self.waiting_for


def progress(fragment: Fragment, subscribers: Iterable[Subscriber], moment: Moment) -> Progress:
    """Progress of the fragment's current version.

    An applier silent for `applier_timeout_ms` is gone. Nobody is waited for once the version has settled.
    """
    appliers = [subscriber for subscriber in subscribers if subscriber.role is Role.APPLIER]
    current = fragment.current
    done = tuple(applier for applier in appliers if applier.acknowledged(current.version))
    waiting = tuple(
        applier
        for applier in appliers
        if current.phase is not Phase.SETTLED
        and not applier.acknowledged(current.version)
        and moment.silence_ms(applier.seen_at_ms) < fragment.applier_timeout_ms
    )
    return Progress(fragment.name, current, done, waiting)
