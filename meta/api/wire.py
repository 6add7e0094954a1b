"""What goes over the wire, and its converters from the service's values."""

from collections import Counter
from dataclasses import asdict
from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from meta.lifecycle import (
    APPLIER_TIMEOUT_MS,
    Fragment,
    KeyField,
    Moment,
    Progress,
    RescalePlan,
    Role,
    Subscriber,
    Version,
    Worker,
)
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Certificate
from meta.mapping.publication import Phase
from meta.planning import DryRun, Goal
from storage_keys.vnode import VNODE_COUNT_DEFAULT

# A name becomes one step of an etcd key and of a URL.
NAME_PATTERN = r"^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$"
UNITS_MAX = 4096

# PostgreSQL's texts have no NUL, so nobody's have.
TEXT_PATTERN = r"^[^\x00]+$"

Name = Annotated[str, Field(pattern=NAME_PATTERN, examples=["flights"])]
Parallelism = Annotated[int, Field(ge=1, le=UNITS_MAX, strict=True)]
Milliseconds = Annotated[int, Field(ge=100, le=24 * 3600 * 1000, strict=True)]


class Request(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Response(BaseModel):
    model_config = ConfigDict(frozen=True)


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


class KeyFieldWire(Request):
    name: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=255, examples=["tailnum"])]
    type: Annotated[str, Field(min_length=1, max_length=255, examples=["string"])]


class FragmentIn(Request):
    name: Name
    distribution_key: Annotated[list[KeyFieldWire], Field(min_length=1, max_length=32)]
    parallelism: Parallelism
    vnode_count: Annotated[int, Field(strict=True)] = VNODE_COUNT_DEFAULT
    applier_timeout_ms: Milliseconds = APPLIER_TIMEOUT_MS

    @property
    def key_fields(self) -> tuple[KeyField, ...]:
        return tuple(KeyField(field.name, field.type) for field in self.distribution_key)


class FragmentOut(Response):
    name: str
    vnode_count: int
    distribution_key: list[KeyFieldWire]
    hash_id: str
    applier_timeout_ms: int
    created_at_ms: int
    version: int
    phase: Phase
    digest: str

    @classmethod
    def of(cls, fragment: Fragment) -> Self:
        return cls(
            name=fragment.name,
            vnode_count=fragment.vnode_count,
            distribution_key=[KeyFieldWire(**asdict(field)) for field in fragment.distribution_key],
            hash_id=fragment.hash_id,
            applier_timeout_ms=fragment.applier_timeout_ms,
            created_at_ms=fragment.created_at_ms,
            version=fragment.current.version,
            phase=fragment.current.phase,
            digest=fragment.current.digest,
        )


class UnitOut(Response):
    id: int
    worker: str
    vnodes: int


class VersionOut(Response):
    """`owners` has one unit id for each vnode; `previous_owners` those of the version it was planned on."""

    fragment: str
    version: int
    vnode_count: int
    hash_id: str
    units: list[UnitOut]
    owners: list[int]
    previous_version: int | None
    previous_owners: list[int] | None
    moves: int
    phases: dict[Phase, int]

    @classmethod
    def of(cls, version: Version) -> Self:
        body = version.body
        vnodes = Counter(body.mapping.owners)
        return cls(
            fragment=body.fragment,
            version=body.version,
            vnode_count=body.vnode_count,
            hash_id=body.hash_id,
            units=[UnitOut(id=unit.id, worker=unit.worker, vnodes=vnodes[unit.id]) for unit in body.units],
            owners=_owners(body.mapping),
            previous_version=body.previous.version if body.previous else None,
            previous_owners=_owners(body.previous.mapping) if body.previous else None,
            moves=version.moves,
            phases={change.phase: change.at_ms for change in version.phases},
        )


def _owners(mapping: VnodeMapping) -> list[int]:
    """Of a mapping that is or may become a version: every vnode has an owner."""
    owners = [owner for owner in mapping.owners if owner is not None]
    assert len(owners) == mapping.vnode_count
    return owners


class PlanIn(Request):
    """What to rescale to: `parallelism`, and the service chooses the units; or exactly these `units`."""

    parallelism: Parallelism | None = None
    units: Annotated[list[Annotated[int, Field(ge=0, strict=True)]], Field(max_length=UNITS_MAX)] | None = (
        None
    )

    @model_validator(mode="after")
    def _one_goal(self) -> Self:
        if (self.parallelism is None) == (not self.units):
            raise ValueError("give either parallelism or units")
        return self

    @property
    def goal(self) -> Goal:
        return Goal(self.parallelism, frozenset(self.units or ()))


class MoveOut(Response):
    vnode: int
    source: int = Field(serialization_alias="from")
    target: int = Field(serialization_alias="to")
    reason: str


class PlanOut(Response):
    token: str
    fragment: str
    base_version: int
    expires_at_ms: int
    certificate: Certificate
    units: list[int]
    previous_owners: list[int]
    owners: list[int]
    moves: list[MoveOut]

    @classmethod
    def of(cls, planned: DryRun) -> Self:
        stored = planned.stored
        return cls(
            token=stored.token,
            fragment=stored.fragment,
            base_version=stored.base_version,
            expires_at_ms=stored.expires_at_ms,
            certificate=stored.certificate,
            units=[unit.id for unit in stored.units],
            previous_owners=_owners(planned.previous),
            owners=_owners(stored.mapping),
            moves=[
                MoveOut(vnode=move.vnode, source=move.source, target=move.target, reason=move.reason)
                for move in planned.moves
            ],
        )


class RescaleIn(Request):
    token: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=64)]


class RescaleOut(Response):
    """The answer to a token, the same each time. `changed`: false where the plan had nothing to do."""

    token: str
    fragment: str
    base_version: int
    version: int
    changed: bool
    certificate: Certificate

    @classmethod
    def of(cls, applied: RescalePlan) -> Self:
        assert applied.applied_version is not None
        return cls(
            token=applied.token,
            fragment=applied.fragment,
            base_version=applied.base_version,
            version=applied.applied_version,
            changed=applied.applied_version != applied.base_version,
            certificate=applied.certificate,
        )


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


class AcceptanceOut(Response):
    version: int
    phase: Phase


class EtcdOut(Response):
    endpoints: list[str]
    root: str


class CoordinationOut(Response):
    etcd: EtcdOut


class ProblemOut(Response):
    """RFC 9457. `type` is for programs, `detail` for people: it says what to do. The facts are further members."""

    model_config = ConfigDict(extra="allow", frozen=True)

    type: Annotated[str, Field(examples=["/problems/stale-base"])]
    title: str
    status: int
    detail: str


class HealthOut(Response):
    status: Literal["ok"] = "ok"
