"""Rescales on the wire."""

from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from meta.api.wire.base import TEXT_PATTERN, AnyCertificate, Request, Response
from meta.api.wire.subscribers import ProgressOut
from meta.lifecycle import Cause, Rescale, RescalePhase, RescaleStep
from meta.mapping.publication import Phase
from meta.rescaling.handover import Handover, Order, Pacing, Protocol, Rounds
from meta.rescaling.progress import VnodeProgress
from storage_keys.vnode import PREFIX_COUNT


class PacingWire(Request):
    """How many vnodes move at a time. `parallel` goes with the rounds of that name, and with no others."""

    rounds: Rounds
    parallel: Annotated[int, Field(ge=1, le=PREFIX_COUNT, strict=True)] | None = None
    order: Order | None = None

    @model_validator(mode="after")
    def _parallel_rounds(self) -> Self:
        if (self.parallel is not None) != (self.rounds is Rounds.PARALLEL):
            raise ValueError('give `parallel` with rounds "parallel", and only with these')
        return self


class HandoverWire(Request):
    """What the appliers are asked to do; without a pacing they choose."""

    protocol: Protocol
    pacing: PacingWire | None = None

    @property
    def value(self) -> Handover:
        pacing = self.pacing
        return Handover(
            self.protocol, Pacing(pacing.rounds, pacing.parallel, pacing.order) if pacing else None
        )

    @classmethod
    def of(cls, handover: Handover) -> Self:
        pacing = handover.pacing
        return cls(
            protocol=handover.protocol,
            pacing=PacingWire(rounds=pacing.rounds, parallel=pacing.parallel, order=pacing.order)
            if pacing
            else None,
        )


class RescaleIn(Request):
    token: Annotated[str, Field(pattern=TEXT_PATTERN, max_length=64)]
    handover: HandoverWire | None = None


class RollbackIn(Request):
    """`to_version`: whose mapping to go back to; null is the last one before that had settled."""

    to_version: Annotated[int, Field(ge=1, le=2**31 - 1, strict=True)] | None = None
    handover: HandoverWire | None = None


class RescaleOut(Response):
    """The answer to a token, the same each time but for `phase`.

    `changed`: false where the plan had nothing to do.
    """

    id: str
    token: str
    fragment: str
    base_version: int
    version: int
    changed: bool
    phase: RescalePhase
    applied_at_ms: int
    handover: HandoverWire | None
    certificate: AnyCertificate

    @classmethod
    def of(cls, rescale: Rescale) -> Self:
        return cls(**_applied(rescale), version=rescale.applied_version)


class RescaleVersionOut(Response):
    version: int
    cause: Cause
    phases: dict[RescalePhase, int]

    @classmethod
    def of(cls, step: RescaleStep) -> Self:
        phases = {change.phase: change.at_ms for change in step.phases}
        return cls(version=step.version, cause=step.cause, phases=phases)


class RescaleRecordOut(RescaleOut):
    """A rescale with what became of it. `version` is its newest; `phases` has the first instant of each.

    `versions`: several where it lost units under way, or was aborted.
    """

    phases: dict[RescalePhase, int]
    versions: list[RescaleVersionOut]

    @classmethod
    def of(cls, rescale: Rescale) -> Self:
        return cls(
            **_applied(rescale),
            version=rescale.version,
            phases=rescale.phases,
            versions=[RescaleVersionOut.of(step) for step in rescale.steps],
        )


class RescaleShownOut(RescaleRecordOut):
    """`progress`: of its newest version, null once the fragment has gone on to another rescale."""

    progress: ProgressOut | None

    @classmethod
    def shown(cls, rescale: Rescale, progress: VnodeProgress) -> Self:
        record = RescaleRecordOut.of(rescale)
        is_current = progress.progress.current.version == rescale.version
        return cls(**dict(record), progress=ProgressOut.of(progress) if is_current else None)


class AcceptanceOut(Response):
    version: int
    phase: Phase


def _applied(rescale: Rescale) -> dict[str, Any]:
    return {
        "id": rescale.id,
        "token": rescale.token,
        "fragment": rescale.fragment,
        "base_version": rescale.base_version,
        "changed": rescale.changed,
        "phase": rescale.phase,
        "applied_at_ms": rescale.applied_at_ms,
        "handover": HandoverWire.of(rescale.handover) if rescale.handover else None,
        "certificate": rescale.certificate,
    }
