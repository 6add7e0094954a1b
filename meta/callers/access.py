"""Who asks: callers and their roles, and the entries of the audit log.

Pure. Every change is asked for by a `Caller`; the service itself is one where it moves by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from ipaddress import ip_address
from typing import Any

from meta.callers.request_errors import Forbidden


class AccessRole(StrEnum):
    """What a caller may do, each including the one before."""

    READER = "reader"
    OPERATOR = "operator"
    ADMIN = "admin"

    @property
    def rank(self) -> int:
        return list(AccessRole).index(self)

    def includes(self, other: "AccessRole") -> bool:
        return self.rank >= other.rank


@dataclass(frozen=True, slots=True)
class Caller:
    """`name` is a token's name; `request_id` is the request's, in its answer and in the log too."""

    name: str
    role: AccessRole
    request_id: str = "-"


def require(caller: Caller, role: AccessRole) -> Caller:
    """The caller, who may do what `role` may. Raises `Forbidden`."""
    if not caller.role.includes(role):
        raise Forbidden(caller.name, caller.role, role)
    return caller


@dataclass(frozen=True, slots=True)
class Token:
    """What proves a caller: the database has only the SHA-256 of its secret. A revoked one stays as a row."""

    id: str
    name: str
    role: AccessRole
    secret_hash: str = field(repr=False)
    created_at_ms: int
    expires_at_ms: int | None = None
    revoked_at_ms: int | None = None

    def usable(self, now_ms: int) -> bool:
        return self.revoked_at_ms is None and (self.expires_at_ms is None or now_ms < self.expires_at_ms)


# Who calls a service that never had a token, which listens on loopback only.
LOCAL = "local"

# What the service does by itself: an adaptive fragment follows its workers, a lost unit is replaced.
ITSELF = Caller("vnodemap", AccessRole.ADMIN)


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Who did what, to what; `action` is a verb of the API, such as `apply`, and `detail` is JSON-ready."""

    at_ms: int
    caller: Caller
    action: str
    subject: str
    detail: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None


def is_loopback(host: str) -> bool:
    """Whether the name or address means the machine itself, whatever a name server says."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
