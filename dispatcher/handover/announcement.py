"""What a unit knows of the versions that are spoken of: one digest each, whoever says it first."""

from collections.abc import Mapping

from dispatcher.handover.errors import DigestConflict, WrongBase
from dispatcher.handover.event import Intent
from dispatcher.handover.version import K, Version

Digests = Mapping[int, str]
"""By number: of a unit's own version, of the one before, and of the next one, once that is announced."""


def announced(digests: Digests, own: int, number: int, digest: str) -> Digests:
    """With what a frame or an INTENT says. Raises `DigestConflict`."""
    known = digests.get(number)
    if known is None and number > own:
        return {**digests, number: digest}
    if known not in (None, digest):
        raise DigestConflict(number, known=str(known), offered=digest)
    return digests


def intended(unit: int, digests: Digests, base: Version[K], intent: Intent[K]) -> Digests:
    """Raises `WrongBase`, `DigestConflict`."""
    own = base.number, base.digest
    if (intent.base, intent.base_digest) != own:
        raise WrongBase(unit, own=own, base=(intent.base, intent.base_digest))
    following = intent.next
    announced(digests, base.number, following.number, following.digest)
    return {base.number: base.digest, following.number: following.digest}
