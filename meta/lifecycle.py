"""The values of a rescale's life and the rules on them: who is alive, who is waited for, when a version settles.

Pure: every instant is an argument, in milliseconds since the epoch. Source: design.md, "Jobs, fragments, rescales".
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from meta.mapping.diff import Diff
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Certificate
from meta.mapping.publication import Current, MappingVersion, Phase, digest, encode_body
from meta.mapping.unit import Unit
from meta.rescaling.goal import Goal
from meta.rescaling.handover import Handover

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
    """A worker node. Without a heartbeat timeout an operator vouches for it and it counts as alive.

    No plan chooses the units of a draining one; what runs on them goes on until a rescale takes it away.
    """

    name: str
    unit_ids: tuple[int, ...]
    heartbeat_timeout_ms: int | None
    registered_at_ms: int
    seen_at_ms: int
    labels: Mapping[str, str] = field(default_factory=dict)
    draining: bool = False

    def alive(self, moment: Moment) -> bool:
        timeout_ms = self.heartbeat_timeout_ms
        return timeout_ms is None or moment.silence_ms(self.seen_at_ms) < timeout_ms

    def in_doubt(self, moment: Moment) -> bool:
        """Alive only because the service could not have heard it: see `Moment`."""
        timeout_ms = self.heartbeat_timeout_ms
        if timeout_ms is None or moment.now_ms - self.seen_at_ms < timeout_ms:
            return False
        return self.alive(moment)

    def lost_at_ms(self, moment: Moment) -> int | None:
        """Since when it counts as lost; None while it is alive."""
        if self.heartbeat_timeout_ms is None or self.alive(moment):
            return None
        return max(self.seen_at_ms, moment.silence_from_ms) + self.heartbeat_timeout_ms

    @property
    def units(self) -> tuple[Unit, ...]:
        return tuple(Unit(unit_id, self.name) for unit_id in self.unit_ids)


@dataclass(frozen=True, slots=True)
class KeyField:
    """One column of a distribution key; `type` is Spark's SQL name."""

    name: str
    type: str


@dataclass(frozen=True, slots=True)
class AdaptivePolicy:
    """A fragment that follows its workers by itself: see `meta.rescaling.adaptive`.

    `min` <= `max`, both numbers of units.
    """

    min: int
    max: int
    cool_down_ms: int


@dataclass(frozen=True, slots=True)
class Fragment:
    """Without an `adaptive` policy it is rescaled by operators only."""

    name: str
    vnode_count: int
    distribution_key: tuple[KeyField, ...]
    hash_id: str
    applier_timeout_ms: int
    created_at_ms: int
    current: Current
    table_ids: tuple[int, ...] = ()
    adaptive: AdaptivePolicy | None = None
    oldest_version: int = 1


class RescalePhase(StrEnum):
    """What a version went through, in order: `Phase`, which is published, and how else it may have ended."""

    RESCALING = "rescaling"
    ACCEPTED = "accepted"
    SETTLED = "settled"
    ABORTED = "aborted"
    SUPERSEDED = "superseded"

    @property
    def rank(self) -> int:
        return list(RescalePhase).index(self)


class Cause(StrEnum):
    """Why there is a version: `SUPERSEDING` where a unit of the one before was lost under way, `ADOPTED` from etcd."""

    CREATED = "created"
    RESCALE = "rescale"
    ABORT = "abort"
    ROLLBACK = "rollback"
    ADAPTIVE = "adaptive"
    SUPERSEDING = "superseding"
    ADOPTED = "adopted"


@dataclass(frozen=True, slots=True)
class PhaseChange:
    version: int
    phase: RescalePhase
    at_ms: int


def in_order(changes: Iterable[PhaseChange]) -> tuple[PhaseChange, ...]:
    """Of one version. By rank, since two phases may fall into one millisecond."""
    return tuple(sorted(changes, key=lambda change: change.phase.rank))


@dataclass(frozen=True, slots=True)
class NewVersion:
    """A version to be stored: `moves` vnodes have another owner than in its base; `plan` is that plan's id."""

    current: Current
    body: bytes
    vnode_count: int
    moves: int
    cause: Cause
    plan: str | None = None

    @classmethod
    def of(cls, version: MappingVersion, phase: Phase, cause: Cause, plan: str | None = None) -> Self:
        body, base = encode_body(version), version.previous
        return cls(
            current=Current(version.version, phase, digest(body)),
            body=body,
            vnode_count=version.vnode_count,
            moves=len(Diff(base.mapping, version.mapping).moves) if base else 0,
            cause=cause,
            plan=plan,
        )


@dataclass(frozen=True, slots=True)
class Version:
    """One mapping version of a fragment, with what became of it."""

    body: MappingVersion
    phases: tuple[PhaseChange, ...]
    moves: int
    cause: Cause
    plan: str | None


@dataclass(frozen=True, slots=True)
class RescalePlan:
    """A stored dry run: what `goal` came to on the base version, and whether it was applied.

    `units` are the next version's; `leaving` live, are the base's and own nothing any more. `cause` is the next
    version's.
    """

    id: str
    fragment: str
    base_version: int
    units: tuple[Unit, ...]
    mapping: VnodeMapping
    certificate: Certificate
    created_at_ms: int
    expires_at_ms: int
    digest: str
    goal: Goal
    cause: Cause = Cause.RESCALE
    leaving: tuple[Unit, ...] = ()
    remaining_moves: int = 0
    warnings: tuple[str, ...] = ()
    applied_version: int | None = None

    @property
    def token(self) -> str:
        return f"{self.id}.{self.digest}"


@dataclass(frozen=True, slots=True)
class RescaleStep:
    """One version of a rescale; its phases in order."""

    version: int
    cause: Cause
    phases: tuple[PhaseChange, ...]

    @property
    def phase(self) -> RescalePhase:
        return self.phases[-1].phase


@dataclass(frozen=True, slots=True)
class Rescale:
    """A plan that was applied, and the versions it led to, oldest first.

    There are several where it was superseded or aborted, and none where it changed nothing.
    """

    id: str
    token: str
    fragment: str
    base_version: int
    applied_version: int
    applied_at_ms: int
    certificate: Certificate
    handover: Handover | None
    steps: tuple[RescaleStep, ...]

    @property
    def version(self) -> int:
        """The newest version of it."""
        return self.steps[-1].version if self.steps else self.applied_version

    @property
    def changed(self) -> bool:
        return self.applied_version != self.base_version

    @property
    def phase(self) -> RescalePhase:
        if any(step.cause is Cause.ABORT for step in self.steps):
            return RescalePhase.ABORTED
        return self.steps[-1].phase if self.steps else RescalePhase.SETTLED

    @property
    def phases(self) -> dict[RescalePhase, int]:
        """The first instant of each phase, over all its versions but the one that an abort went back to."""
        first: dict[RescalePhase, int] = {}
        for step in self.steps:
            if step.cause is not Cause.ABORT:
                for change in step.phases:
                    first.setdefault(change.phase, change.at_ms)
        return first


class Role(StrEnum):
    """Appliers must acknowledge a version before it settles; readers may be stale and are never awaited."""

    APPLIER = "applier"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class HandedOver:
    """The vnodes whose state has gone to their owners in `version`, as runs of (first, last)."""

    version: int
    vnodes: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Beat:
    """What a subscriber says of itself each time. None where it has nothing new to say."""

    id: str
    name: str
    role: Role
    acknowledged_version: int | None = None
    handed_over: HandedOver | None = None


@dataclass(frozen=True, slots=True)
class Subscriber:
    id: str
    fragment: str
    name: str
    role: Role
    acknowledged_version: int | None
    seen_at_ms: int
    handed_over: HandedOver | None = None

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
