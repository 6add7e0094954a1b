"""Mapping versions on the wire."""

import json
from collections import Counter
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from meta.api.wire.base import Response
from meta.api.wire.summaries import SummaryOut
from meta.history import VersionPair
from meta.lifecycle import Cause, PhaseChange, RescalePhase, Version
from meta.mapping.mapping import NOBODY, VnodeMapping
from meta.mapping.publication import MappingVersion
from meta.mapping.summary import summary
from meta.mapping.unit import Unit
from meta.store.versions import MappingState, VersionRecord

MappingForm = Literal["owners", "runs"]


class UnitOut(Response):
    id: int
    worker: str
    vnodes: int


class VersionItemOut(Response):
    """A version in a list. `plan` is the id of the plan that it came of; `phase` the last of `phases`."""

    fragment: str
    version: int
    phase: RescalePhase
    phases: dict[RescalePhase, int]
    moves: int
    cause: Cause
    plan: str | None
    units: list[int]
    previous_version: int | None

    @classmethod
    def of(cls, record: VersionRecord) -> Self:
        return cls(
            fragment=record.fragment,
            version=record.version,
            phase=record.phase,
            phases=_phases_out(record.phases),
            moves=record.moves,
            cause=record.cause,
            plan=record.plan,
            units=list(record.unit_ids),
            previous_version=record.previous_version,
        )


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
    cause: Cause
    plan: str | None
    phases: dict[RescalePhase, int]

    @classmethod
    def of(cls, version: Version) -> Self:
        body = version.body
        return cls(
            fragment=body.fragment,
            version=body.version,
            vnode_count=body.vnode_count,
            hash_id=body.hash_id,
            units=[UnitOut(**unit) for unit in units_out(body)],
            owners=owner_ids(body.mapping),
            previous_version=body.previous.version if body.previous else None,
            previous_owners=owner_ids(body.previous.mapping) if body.previous else None,
            moves=version.moves,
            cause=version.cause,
            plan=version.plan,
            phases=_phases_out(version.phases),
        )


class MappingOut(Response):
    """`owners` has one unit id for each vnode; `runs` are `[first, last, unit]`, `last` included: one of the two."""

    fragment: Annotated[str, Field(examples=["flights"])]
    version: int
    phase: RescalePhase
    digest: str
    vnode_count: Annotated[int, Field(examples=[256])]
    hash_id: str
    units: list[UnitOut]
    previous_version: int | None
    owners: list[int] | None = None
    runs: Annotated[list[tuple[int, int, int]] | None, Field(examples=[[[0, 127, 1], [128, 255, 2]]])] = None


def mapping_tail(body: MappingVersion, digest: str, form: MappingForm) -> bytes:
    """The JSON of what never changes of a `MappingOut`, as `mapping_document` goes on with it."""
    owners = {"owners": body.mapping.array.tolist()} if form == "owners" else {"runs": runs_out(body.mapping)}
    fields = {
        "digest": digest,
        "vnode_count": body.vnode_count,
        "hash_id": body.hash_id,
        "units": units_out(body),
        "previous_version": body.previous.version if body.previous else None,
        **owners,
    }
    return json.dumps(fields, separators=(",", ":")).encode()[1:]


def mapping_document(fragment: str, state: MappingState, tail: bytes) -> bytes:
    """The JSON of a `MappingOut`."""
    head = json.dumps(
        {"fragment": fragment, "version": state.version, "phase": state.phase}, separators=(",", ":")
    )
    return head[:-1].encode() + b"," + tail


class ChangedRunOut(Response):
    """Adjacent vnodes, `last` included; null is nobody."""

    first: int
    last: int
    source: int | None = Field(serialization_alias="from")
    target: int | None = Field(serialization_alias="to")


class DiffOut(Response):
    """Vnodes are numbered at `vnode_count`, the larger of both versions'."""

    source: int = Field(serialization_alias="from")
    target: int = Field(serialization_alias="to")
    vnode_count: int
    moves: int
    assigned: int
    released: int
    runs: list[ChangedRunOut]
    summary: SummaryOut

    @classmethod
    def of(cls, compared: VersionPair) -> Self:
        diff, before, after = compared.diff, compared.before, compared.after
        staying = {unit.id for unit in after.units}
        # Those that left are known by name, and own nothing: drained.
        left = [Unit(unit.id, unit.worker, 0.0) for unit in before.units if unit.id not in staying]
        return cls(
            source=before.version,
            target=after.version,
            vnode_count=diff.vnode_count,
            moves=len(diff.moves),
            assigned=len(diff.assigned),
            released=len(diff.released),
            runs=[
                ChangedRunOut(first=run.first, last=run.last, source=run.source, target=run.target)
                for run in diff.changes.runs()
            ],
            summary=SummaryOut.of(summary(before.mapping, after.mapping, (*after.units, *left))),
        )


def owner_ids(mapping: VnodeMapping) -> list[int]:
    """Of a mapping that is or may become a version: every vnode has an owner."""
    owners: list[int] = mapping.array.tolist()
    assert mapping.array.min() != NOBODY
    return owners


def runs_out(mapping: VnodeMapping) -> list[tuple[int, int, int | None]]:
    return [(run.first, run.last, run.owner) for run in mapping.runs()]


def units_out(body: MappingVersion) -> list[dict[str, Any]]:
    vnodes = Counter(body.mapping.array.tolist())
    return [{"id": unit.id, "worker": unit.worker, "vnodes": vnodes[unit.id]} for unit in body.units]


def _phases_out(changes: tuple[PhaseChange, ...]) -> dict[RescalePhase, int]:
    return {change.phase: change.at_ms for change in changes}
