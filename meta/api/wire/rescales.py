"""Rescales on the wire."""

from typing import Annotated, Self

from pydantic import Field

from meta.api.wire.base import TEXT_PATTERN, Request, Response
from meta.lifecycle import RescalePlan
from meta.mapping.plan import Certificate
from meta.mapping.publication import Phase


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


class AcceptanceOut(Response):
    version: int
    phase: Phase
