"""Plans on the wire."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from meta.api.wire.base import UNITS_MAX, Parallelism, Request, Response
from meta.api.wire.versions import owner_ids
from meta.mapping.plan import Certificate
from meta.planning import DryRun, Goal


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
            previous_owners=owner_ids(planned.previous),
            owners=owner_ids(stored.mapping),
            moves=[
                MoveOut(vnode=move.vnode, source=move.source, target=move.target, reason=move.reason)
                for move in planned.moves
            ],
        )
