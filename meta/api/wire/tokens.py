"""Tokens on the wire."""

from typing import Annotated, Self

from pydantic import Field

from meta.api.wire.base import Name, Request, Response
from meta.callers.access import AccessRole, Token

YEARS_MAX_S = 10 * 365 * 24 * 3600


class TokenIn(Request):
    """`name` is for the audit log: who holds it. Without `expires_in_s` it counts until it is revoked."""

    name: Name
    role: AccessRole
    expires_in_s: Annotated[int, Field(ge=1, le=YEARS_MAX_S, strict=True)] | None = None


class TokenOut(Response):
    id: str
    name: str
    role: AccessRole
    created_at_ms: int
    expires_at_ms: int | None
    revoked_at_ms: int | None

    @classmethod
    def of(cls, token: Token) -> Self:
        return cls(
            id=token.id,
            name=token.name,
            role=token.role,
            created_at_ms=token.created_at_ms,
            expires_at_ms=token.expires_at_ms,
            revoked_at_ms=token.revoked_at_ms,
        )


class NewTokenOut(Response):
    """`token` is shown this once."""

    id: str
    name: str
    role: AccessRole
    created_at_ms: int
    expires_at_ms: int | None
    token: str = Field(repr=False)

    @classmethod
    def of(cls, token: Token, shown: str) -> Self:
        return cls(
            id=token.id,
            name=token.name,
            role=token.role,
            created_at_ms=token.created_at_ms,
            expires_at_ms=token.expires_at_ms,
            token=shown,
        )
