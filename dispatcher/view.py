"""What one reader may believe of one fragment, and what it may tell.

Pure: publications come in as values, instants as milliseconds of one monotonic clock.

Two versions are kept apart. `newest` is the newest publication seen. `usable` is the newest one that a batch may
use: a version in phase `rescaling` may still be aborted, so until it is accepted a batch uses the version before it,
F, which travels in the body. Neither ever goes back, whatever a source says: etcd may lose its data and a
restored database may publish its past again.
"""

from collections.abc import Collection
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache
from typing import Literal

from dispatcher.errors import DigestConflict, WrongBody
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import Base, Current, MappingVersion, Phase, decode_body, digest

# Appliers are waited for before a version settles; readers never are.
Role = Literal["applier", "reader"]


class Source(StrEnum):
    """Where a version was read, the most direct first."""

    ETCD = "etcd"
    HTTP = "http"
    DISK = "disk"


@dataclass(frozen=True, slots=True)
class View:
    """`current` is `newest`'s phase and digest. `source` confirmed at `confirmed_ms` that nothing is newer."""

    newest: MappingVersion
    current: Current
    usable: MappingVersion | None
    source: Source
    confirmed_ms: int

    @property
    def unaccepted(self) -> int | None:
        """The version that must be accepted before a batch may use it."""
        return self.newest.version if self.current.phase is Phase.RESCALING else None

    def age_ms(self, now_ms: int) -> int:
        return max(0, now_ms - self.confirmed_ms)


@dataclass(frozen=True, slots=True)
class Report:
    """What the service should hear: the version to acknowledge, and one to ask acceptance for."""

    acknowledge: int | None
    accept: int | None


def needs_body(view: View | None, current: Current) -> bool:
    return view is None or current.version > view.newest.version


# Several subscriptions of one process follow one fragment, and each hears of the same bytes.
@lru_cache(maxsize=8)
def checked_body(fragment: str, current: Current, body: bytes) -> MappingVersion:
    """The version that `current` announces, out of bytes from anywhere. Raises `WrongBody`."""
    if (found := digest(body)) != current.digest:
        raise WrongBody(fragment, current.version, f"its digest is {found}, announced was {current.digest}")
    try:
        published = decode_body(body)
    except MalformedPublication as error:
        raise WrongBody(fragment, current.version, str(error)) from error
    if (published.fragment, published.version) != (fragment, current.version):
        raise WrongBody(
            fragment, current.version, f"it is fragment {published.fragment}'s {published.version}"
        )
    return published


def confirms(view: View, current: Current) -> bool:
    """Whether a source that says `current` shows that nothing newer than `view` exists; one in the past does not."""
    return current.version >= view.newest.version


def taken(view: View | None, newest: MappingVersion, current: Current, source: Source, now_ms: int) -> View:
    """The view after `source` said `current`; `newest` is its body, or the view's where `needs_body` is false.

    A version or a phase of the past changes nothing. Raises `DigestConflict`.
    """
    if view is None:
        return View(newest, current, _usable(None, newest, current.phase), source, now_ms)
    if current.contradicts(view.current):
        raise DigestConflict(
            view.newest.fragment,
            current.version,
            held=view.current.digest,
            offered=current.digest,
            source=source,
        )
    if not confirms(view, current):
        return view
    confirmed = replace(view, source=source, confirmed_ms=now_ms)
    return _grown(confirmed, newest, current) if current.supersedes(view.current) else confirmed


def accepted(view: View, version: int, phase: Phase) -> View:
    """The view after the service let `version` be used."""
    current = Current(version, phase, view.current.digest)
    same = version == view.newest.version
    return _grown(view, view.newest, current) if same and current.supersedes(view.current) else view


def report(view: View | None, pinned: Collection[int], role: Role) -> Report:
    """What to tell while the versions in `pinned` are in use.

    The oldest pin is acknowledged, else what may be used: nothing below it is in use, and nothing will be, since pins
    only open on `usable`. A new version is accepted by the pin that first uses it, else here, when no pin is open.
    """
    if pinned:
        return Report(acknowledge=min(pinned), accept=None)
    if view is None:
        return Report(acknowledge=None, accept=None)
    return Report(
        acknowledge=view.usable.version if view.usable else None,
        accept=view.unaccepted if role == "applier" else None,
    )


def _grown(view: View, newest: MappingVersion, current: Current) -> View:
    return replace(view, newest=newest, current=current, usable=_usable(view.usable, newest, current.phase))


def _usable(known: MappingVersion | None, newest: MappingVersion, phase: Phase) -> MappingVersion | None:
    if phase is not Phase.RESCALING:
        return newest
    before = _as_version(newest, newest.previous)
    # What was usable stays so: `before` may be older, where a rescale was superseded.
    if known is None or (before is not None and before.version > known.version):
        return before
    return known


def _as_version(newest: MappingVersion, base: Base | None) -> MappingVersion | None:
    """F as a version of its own; None where some vnode has no owner in it, so that nothing can be routed by it."""
    if base is None or None in base.mapping.owners:
        return None
    return MappingVersion(newest.fragment, base.version, newest.hash_id, base.units, base.mapping)
