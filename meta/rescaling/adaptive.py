"""Adaptive fragments: on which units one should run, and why it does not move yet. Pure.

A fragment with an `AdaptivePolicy` follows its workers. It should run on every unit of the live workers that do not
drain, within these bounds:

- never on more than `max` units, nor on more units than it has vnodes;
- with at least `min` of them it never goes below `min`. With fewer it runs on all there are: it does not shrink by
  itself then, so that it stays on a draining worker rather than fall below `min`; but a unit that is lost runs nothing
  any more, and is replaced by what lives, however little that is. Where nothing lives it stays as it is.

Which units these are is `choose_units`' rule, which keeps the units that the fragment has: as long as the number is
the same and all of them live, nothing moves, whoever else joins. (A fragment at its `max` does not spread to a new
worker; an operator's plan does that.)

It does not move yet, each for a reason that `not_now` shows:

1. `NobodyLives`, `TooFewLive`: the bounds above.
2. `RescaleUnderWay`: one at a time.
3. `InDoubt`: after an outage of the service nobody could be heard for a while, and whether one of its workers lives
   is known when it beats or when its timeout has passed once more. (Workers in doubt that it does not run on count as
   not there.)
4. `TooManyVanished`: more than half of its workers, and at least two, were lost within one cool-down. That looks like
   a network cut rather than like failures, and moving everything onto the rest would make it worse. It waits until
   the cool-down has passed since the newest of these losses, and takes them for real then.
5. `CoolingDown`: its current version is younger than the cool-down. So there is at most one rescale by itself in each
   cool-down, counted from any version's beginning, an operator's included; who comes and goes meanwhile causes none.
   A version that begins in the future by more than a cool-down comes from before the clock was set back, and does not
   count: one rescale more for each such step, where there would be none for as long as the step was.

All of this follows from the stored rows and the moment: replicas need not agree on who decides, since of those that
decide the same only one finds its base version still current.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from meta.lifecycle import AdaptivePolicy, Moment, Worker
from meta.mapping.placement import choose_units
from meta.mapping.publication import Current, MappingVersion, Phase
from meta.mapping.unit import Unit


@dataclass(frozen=True, slots=True)
class NobodyLives:
    def __str__(self) -> str:
        return "no unit is on a worker that is alive and does not drain; it stays as it is until there is one"


@dataclass(frozen=True, slots=True)
class TooFewLive:
    available: int
    least: int
    draining: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"it would leave the draining {_named(self.draining)}, but only {self.available} units of other workers "
            f"are there and its least is {self.least}; register more workers or lower `min`"
        )


@dataclass(frozen=True, slots=True)
class RescaleUnderWay:
    version: int
    phase: Phase

    def __str__(self) -> str:
        return f"a rescale to version {self.version} is under way ({self.phase}); it waits until that has settled"


@dataclass(frozen=True, slots=True)
class InDoubt:
    workers: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"the service was away and has not heard {_named(self.workers)} since; it waits until they beat or "
            "their heartbeat timeout has passed"
        )


@dataclass(frozen=True, slots=True)
class TooManyVanished:
    workers: tuple[str, ...]
    until_ms: int

    def __str__(self) -> str:
        return (
            f"too many vanished at once ({_named(self.workers)}); it waits until {self.until_ms} (ms since the epoch), "
            "since that looks like a network cut rather than like failures"
        )


@dataclass(frozen=True, slots=True)
class CoolingDown:
    version: int
    until_ms: int

    def __str__(self) -> str:
        return f"version {self.version} is young; it waits until {self.until_ms} (ms since the epoch)"


# Why a fragment that should move does not yet; `str` of it is for people.
NotNow = NobodyLives | TooFewLive | RescaleUnderWay | InDoubt | TooManyVanished | CoolingDown


@dataclass(frozen=True, slots=True)
class Wish:
    """The units that a fragment should run on, which are not those it runs on.

    `available` is how many it could choose from; `lost` and `draining` are units that it runs on.
    """

    units: tuple[Unit, ...]
    available: int
    least: int
    lost: tuple[Unit, ...]
    draining: tuple[Unit, ...]

    @property
    def shrinks_below_least(self) -> bool:
        return bool(self.draining) and not self.lost and len(self.units) < self.least


def wish(
    policy: AdaptivePolicy, version: MappingVersion, workers: Sequence[Worker], moment: Moment
) -> Wish | None:
    """None where the fragment runs on the units that it should run on."""
    running = {unit.id for unit in version.units}
    live = [worker for worker in workers if worker.alive(moment)]
    # Those in doubt are neither lost nor there anew.
    available = [
        unit
        for worker in live
        if not worker.draining
        for unit in worker.units
        if unit.id in running or not worker.in_doubt(moment)
    ]
    count = min(len(available), policy.max, version.vnode_count)
    units = choose_units(available, version.mapping, count) if count else ()
    if {unit.id for unit in units} == running:
        return None
    alive = {unit_id for worker in live for unit_id in worker.unit_ids}
    drained = {unit_id for worker in live if worker.draining for unit_id in worker.unit_ids}
    return Wish(
        units=units,
        available=len(available),
        least=min(policy.min, version.vnode_count),
        lost=tuple(unit for unit in version.units if unit.id not in alive),
        draining=tuple(unit for unit in version.units if unit.id in drained),
    )


def hindrance(
    policy: AdaptivePolicy,
    wished: Wish,
    version: MappingVersion,
    current: Current,
    began_at_ms: int,
    workers: Sequence[Worker],
    moment: Moment,
) -> NotNow | None:
    """Why it does not move yet; None where it moves now. `began_at_ms`: when the current version began."""
    names = {unit.worker for unit in version.units}
    its_workers = [worker for worker in workers if worker.name in names]
    return (
        _bounds(wished)
        or (RescaleUnderWay(current.version, current.phase) if current.phase is not Phase.SETTLED else None)
        or _doubt(its_workers, moment)
        or _vanished(policy, its_workers, moment)
        or _cooling(policy, current.version, began_at_ms, moment)
    )


def _bounds(wished: Wish) -> NotNow | None:
    if not wished.units:
        return NobodyLives()
    if wished.shrinks_below_least:
        draining = tuple(sorted({unit.worker for unit in wished.draining}))
        return TooFewLive(wished.available, wished.least, draining)
    return None


def _doubt(its_workers: Iterable[Worker], moment: Moment) -> NotNow | None:
    doubted = tuple(worker.name for worker in its_workers if worker.in_doubt(moment))
    return InDoubt(doubted) if doubted else None


def _vanished(policy: AdaptivePolicy, its_workers: Sequence[Worker], moment: Moment) -> NotNow | None:
    losses = [
        (lost_at_ms, worker.name)
        for worker in its_workers
        if (lost_at_ms := worker.lost_at_ms(moment)) is not None
    ]
    if not losses:
        return None
    newest_ms, _ = max(losses)
    until_ms = newest_ms + policy.cool_down_ms
    together = tuple(sorted(name for at_ms, name in losses if newest_ms - at_ms < policy.cool_down_ms))
    if moment.now_ms >= until_ms or len(together) < 2 or 2 * len(together) <= len(its_workers):
        return None
    return TooManyVanished(together, until_ms)


def _cooling(policy: AdaptivePolicy, version: int, began_at_ms: int, moment: Moment) -> NotNow | None:
    if abs(moment.now_ms - began_at_ms) < policy.cool_down_ms:
        return CoolingDown(version, began_at_ms + policy.cool_down_ms)
    return None


def _named(workers: Sequence[str]) -> str:
    return f"worker{'s' if len(workers) > 1 else ''} {', '.join(workers)}"
