"""Who asks: callers and their roles, and the entries of the audit log.

Pure. Every change is asked for by a `Caller`; the service itself is one where it moves by itself.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


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
