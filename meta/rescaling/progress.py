"""How far a version is, by subscriber and by vnode.

Pure. An applier may tell which vnodes it has handed over already; whoever acknowledged has handed over all.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from meta.lifecycle import Fragment, Moment, Progress, Role, Subscriber, progress
from meta.mapping.diff import Diff
from meta.mapping.publication import MappingVersion
from storage_keys.vnode import PREFIX_COUNT

Run = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Follower:
    """A subscriber beside its fragment's current version: `lag` versions behind, None where it acknowledged none."""

    subscriber: Subscriber
    lag: int | None
    silent_ms: int
    waited_for: bool
    handed_over: int


@dataclass(frozen=True, slots=True)
class VnodeProgress:
    """Of the `moving` vnodes `handed_over` are handed over by every applier that is waited for."""

    progress: Progress
    moving: int
    handed_over: int
    followers: tuple[Follower, ...]


def vnode_progress(
    fragment: Fragment, subscribers: Iterable[Subscriber], moving: int, moment: Moment
) -> VnodeProgress:
    """`moving` vnodes have another owner in the current version than in its base."""
    everybody = list(subscribers)
    version = progress(fragment, everybody, moment)
    waiting = {applier.id for applier in version.waiting_for}
    followers = tuple(
        Follower(
            subscriber=subscriber,
            lag=_lag(subscriber, fragment),
            silent_ms=moment.silence_ms(subscriber.seen_at_ms),
            waited_for=subscriber.id in waiting,
            handed_over=_handed_over(subscriber, fragment, moving),
        )
        for subscriber in everybody
    )
    reported = [_reported(applier, fragment) for applier in version.waiting_for]
    handed_over = int(np.logical_and.reduce(reported).sum()) if reported else moving
    return VnodeProgress(version, moving, handed_over, followers)


def moving_vnodes(version: MappingVersion) -> npt.NDArray[np.bool_]:
    """True where a vnode's owner changes; by the larger of both vnode counts, see `Diff`."""
    moving = np.zeros(PREFIX_COUNT, np.bool_)
    if version.previous is not None:
        moving[Diff(version.previous.mapping, version.mapping).moves.vnodes] = True
    return moving


def vnodes_of(runs: Iterable[Run]) -> npt.NDArray[np.bool_]:
    """True for each vnode of these runs, last ones included."""
    vnodes = np.zeros(PREFIX_COUNT, np.bool_)
    for first, last in runs:
        vnodes[first : last + 1] = True
    return vnodes


def runs_of(vnodes: npt.NDArray[np.bool_]) -> tuple[Run, ...]:
    """The inverse of `vnodes_of`: maximal runs, in order."""
    edges = np.flatnonzero(np.diff(vnodes, prepend=False, append=False))
    return tuple(zip(edges[::2].tolist(), (edges[1::2] - 1).tolist(), strict=True))


def _lag(subscriber: Subscriber, fragment: Fragment) -> int | None:
    acknowledged = subscriber.acknowledged_version
    return None if acknowledged is None else fragment.current.version - acknowledged


def _handed_over(subscriber: Subscriber, fragment: Fragment, moving: int) -> int:
    if subscriber.role is not Role.APPLIER:
        return 0
    if subscriber.acknowledged(fragment.current.version):
        return moving
    return int(_reported(subscriber, fragment).sum())


def _reported(applier: Subscriber, fragment: Fragment) -> npt.NDArray[np.bool_]:
    report = applier.handed_over
    of_current = report is not None and report.version == fragment.current.version
    return vnodes_of(report.vnodes if report and of_current else ())
