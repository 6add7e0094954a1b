"""Use cases on tokens: create, list and revoke them.

A token is `vnm_<id>_<secret>`. The secret is shown once, and the database has its SHA-256, which 32 random bytes need
no salt for.
"""

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from meta.callers.access import ITSELF, LOCAL, AccessRole, AuditEntry, Caller, Token
from meta.callers.request_errors import BadToken, TokenNotFound, TooManyTokens
from meta.hearing import Hearing
from meta.store.database import Database, retry_conflicts

PREFIX = "vnm"
TOKENS_MAX = 1_000
ID_BYTES = 8
SECRET_BYTES = 32


@dataclass(frozen=True, slots=True)
class Tokens:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def create(
        self, name: str, role: AccessRole, *, expires_in_s: int | None, by: Caller
    ) -> tuple[Token, str]:
        """A new token, and what its holder shows: this once, it is kept nowhere."""
        if name in (LOCAL, ITSELF.name):
            raise BadToken("name", f"{name} is what the audit log calls the service's own; choose another")
        now_ms = self.hearing.now().now_ms
        secret = secrets.token_urlsafe(SECRET_BYTES)
        token = Token(
            id=secrets.token_hex(ID_BYTES),
            name=name,
            role=role,
            secret_hash=_hash(secret),
            created_at_ms=now_ms,
            expires_at_ms=None if expires_in_s is None else now_ms + expires_in_s * 1_000,
        )
        with self.database.transaction() as tx:
            if len(tx.tokens.usable(now_ms)) >= TOKENS_MAX:
                raise TooManyTokens(TOKENS_MAX)
            tx.tokens.add(token)
            detail = {"name": name, "role": role, "expires_at_ms": token.expires_at_ms}
            tx.audit.add(AuditEntry(now_ms, by, "create-token", token.id, detail))
        return token, f"{PREFIX}_{token.id}_{secret}"

    def newest(self, limit: int, before: tuple[int, str] | None = None) -> list[Token]:
        """At most `limit`, the newest first, those that are revoked or expired too."""
        with self.database.reading() as tx:
            return tx.tokens.newest(limit, before)

    @retry_conflicts
    def revoke(self, token_id: str, *, by: Caller) -> Token:
        """The token, which counts no more. Revoking it again changes nothing."""
        now_ms = self.hearing.now().now_ms
        with self.database.transaction() as tx:
            if tx.tokens.revoke(token_id, now_ms):
                tx.audit.add(AuditEntry(now_ms, by, "revoke-token", token_id))
            token = tx.tokens.get(token_id)
        if token is None:
            raise TokenNotFound(token_id)
        return token

    def any_ever(self) -> bool:
        with self.database.reading() as tx:
            return tx.tokens.any_ever()


def matching(shown: str, known: Mapping[str, Token]) -> Token | None:
    """The token of `known`, by id, that this is. An id that is not there takes the same steps as a wrong secret."""
    prefix, _, rest = shown.partition("_")
    token_id, _, secret = rest.partition("_")
    token = known.get(token_id)
    same = hmac.compare_digest(_hash(secret), token.secret_hash if token else _NO_SECRET)
    return token if same and prefix == PREFIX else None


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


# No secret has it, since none is empty.
_NO_SECRET = _hash("")
