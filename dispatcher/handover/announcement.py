"""What a unit knows of the next version: `digest` is what it was told first, by others or by INTENT, or None."""

from dispatcher.handover.errors import DigestConflict, WrongBase
from dispatcher.handover.event import Intent
from dispatcher.handover.outcome import Heard
from dispatcher.handover.version import K, Rescale, Version


def announced(digest: str | None, heard: Heard[K]) -> str:
    """Raises `DigestConflict`."""
    if digest not in (None, heard.digest):
        raise DigestConflict(heard.version, known=str(digest), offered=heard.digest)
    return heard.digest


def intended(
    unit: int, base: Version[K], intent: Intent[K], digest: str | None, *, paces: bool = True
) -> Rescale[K]:
    """Of the rounds of INTENT, where it `paces`. Raises `WrongBase`, `DigestConflict`."""
    following = intent.next
    if (intent.base, intent.base_digest) != (base.number, base.digest):
        own = (base.number, base.digest)
        raise WrongBase(unit, own=own, base=(intent.base, intent.base_digest))
    if digest not in (None, following.digest):
        raise DigestConflict(following.number, known=following.digest, offered=str(digest))
    return Rescale.between(base, following, intent.rounds if paces else None)
