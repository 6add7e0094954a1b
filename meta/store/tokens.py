"""Tokens, as rows. They are never removed: the audit log names them."""

from typing import Any

import sqlalchemy as sa

from meta.callers.access import AccessRole, Token
from meta.store.paging import page_newest_first
from meta.store.tables import tokens


class StoredTokens:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def add(self, token: Token) -> None:
        self._connection.execute(
            tokens.insert().values(
                id=token.id,
                name=token.name,
                role=token.role,
                secret_hash=token.secret_hash,
                created_at_ms=token.created_at_ms,
                expires_at_ms=token.expires_at_ms,
                revoked_at_ms=token.revoked_at_ms,
            )
        )

    def any_ever(self) -> bool:
        return self._connection.execute(sa.select(sa.exists(tokens.select()))).scalar_one()

    def usable(self, now_ms: int) -> list[Token]:
        """Neither revoked nor expired."""
        expires = tokens.c.expires_at_ms
        statement = (
            sa.select(tokens)
            .where(tokens.c.revoked_at_ms.is_(None))
            .where(expires.is_(None) | (expires > now_ms))
        )
        return [_token(row) for row in self._connection.execute(statement)]

    def newest(self, limit: int, before: tuple[int, str] | None = None) -> list[Token]:
        """At most `limit`, the newest first: those before this instant and id."""
        statement = page_newest_first(sa.select(tokens), tokens.c.created_at_ms, tokens.c.id, limit, before)
        return [_token(row) for row in self._connection.execute(statement)]

    def get(self, token_id: str) -> Token | None:
        row = self._connection.execute(sa.select(tokens).where(tokens.c.id == token_id)).one_or_none()
        return None if row is None else _token(row)

    def revoke(self, token_id: str, now_ms: int) -> bool:
        """False where there is no such token, or it is revoked already."""
        statement = (
            tokens.update()
            .where(tokens.c.id == token_id, tokens.c.revoked_at_ms.is_(None))
            .values(revoked_at_ms=now_ms)
        )
        return self._connection.execute(statement).rowcount == 1


def _token(row: sa.Row[Any]) -> Token:
    return Token(
        id=row.id,
        name=row.name,
        role=AccessRole(row.role),
        secret_hash=row.secret_hash,
        created_at_ms=row.created_at_ms,
        expires_at_ms=row.expires_at_ms,
        revoked_at_ms=row.revoked_at_ms,
    )
