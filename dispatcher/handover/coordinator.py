"""The job's coordinator, the only one of its job that hears of new mapping versions.

It is Running, or Rescaling (before that Moving, while there are rounds to come; then Emptying, while removed units
leave), or Snapshotting, or Restarting, never two of them. A unit that is lost, or a rescale that takes too long,
restarts the job from its last snapshot, under a version that the service makes of the mapping without the lost unit.
"""

from collections.abc import Mapping
from dataclasses import replace

from dispatcher.handover.effect import Acknowledged, Drained, Installed, Left, Released, Report
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Barrier, Complete, Intent, OpenSource, ReleaseSource, Resume, Round
from dispatcher.handover.job import (
    Coordinator,
    DeadlinePassed,
    Defer,
    Emptying,
    JobEffects,
    JobEvent,
    MoveSource,
    Moving,
    Reported,
    Requested,
    Rescaling,
    Restart,
    Restarted,
    Restarting,
    Running,
    Seal,
    Settle,
    SnapshotDue,
    Snapshotting,
    Start,
    Tell,
    Transition,
    UnitLost,
)
from dispatcher.handover.pacing import Move, rounds
from dispatcher.handover.version import K, Rescale, Version


def advance(job: Coordinator[K], event: JobEvent[K]) -> Transition[K]:
    """The coordinator after the event, and what it wants done.

    Raises `NotFollowing` where a version is requested that is not the next one, and `BadLoad` where one of its loads is
    no number; the job runs on. Raises `IllegalEvent`.
    """
    match event:
        case Reported():
            return _reported(job, event)
        case Requested() | SnapshotDue():
            return _asked(job, event)
        case _ if isinstance(job.phase, Restarting):
            return _while_restarting(job, job.phase, event)
        case MoveSource(source=source, to=to) if source in job.readers:
            return _move(job, {source: to})
        case UnitLost(unit=unit):
            # The end of one that has left looks just like that.
            return _restart(job, unit) if unit in job.units else (job, ())
        case DeadlinePassed(version=number):
            # A removed unit that never leaves keeps everything waiting, too.
            late = isinstance(job.phase, Moving | Rescaling | Emptying) and job.target.number == number
            return _restart(job, None) if late else (job, ())
        case MoveSource() | Restarted():
            raise IllegalEvent(job.phase, event)


def _asked(job: Coordinator[K], event: Requested[K] | SnapshotDue) -> Transition[K]:
    """One thing at a time."""
    match job.phase, event:
        case Running(version=version), Requested():
            return _rescale(job, version, event)
        case Running(version=version), SnapshotDue():
            return _snapshot(job, version)
        case _:
            return job, (Defer(event),)


def _while_restarting(
    job: Coordinator[K],
    phase: Restarting[K],
    event: MoveSource | UnitLost | DeadlinePassed | Restarted[K],
) -> Transition[K]:
    """A unit that is lost meanwhile will be missing when its start is waited for."""
    match event:
        case Restarted(execution=execution, version=version, readers=readers) if execution > job.execution:
            opened: JobEffects[K] = tuple(
                Tell(readers[source], OpenSource(source)) for source in sorted(readers)
            )
            return replace(
                job, phase=Running(version), execution=execution, readers=readers, moving={}
            ), opened
        case Restarted():
            raise IllegalEvent(phase, event)
        case _:
            return job, ()


def _reported(job: Coordinator[K], event: Reported[K]) -> Transition[K]:
    unit = event.unit
    if event.execution < job.execution or isinstance(job.phase, Restarting):
        return job, ()
    if event.execution > job.execution:
        raise IllegalEvent(job.phase, event)
    match job.phase, event.report:
        case _, Released(source=source) if source in job.moving and job.readers[source] == unit:
            return _open(job, source)
        case (Moving() as phase, Installed(version=number, key=key)) if (
            number == phase.next.number and key in phase.waiting and phase.next.owners[key] == unit
        ):
            return _installed(job, phase, key)
        case (Rescaling() | Emptying() | Snapshotting()) as phase, report if (
            unit in phase.waiting and report == _awaited_report(phase)
        ):
            return _awaited(job, phase, unit)
        case _:
            raise IllegalEvent(job.phase, event)


def _awaited_report(phase: Rescaling[K] | Emptying[K] | Snapshotting[K]) -> Report[K]:
    match phase:
        case Rescaling(next=following):
            return Acknowledged(following.number)
        case Emptying():
            return Left()
        case Snapshotting(epoch=epoch):
            return Drained(epoch)


def _awaited(
    job: Coordinator[K], phase: Rescaling[K] | Emptying[K] | Snapshotting[K], unit: int
) -> Transition[K]:
    """One of those that it waits for has reported; after the last one it goes on."""
    waiting = phase.waiting - {unit}
    if waiting:
        return replace(job, phase=replace(phase, waiting=waiting)), ()
    match phase:
        case Rescaling():
            return _complete(job, phase)
        case Emptying(version=version):
            return _rescaled(job, version)
        case Snapshotting(version=version, epoch=epoch):
            resumed: JobEffects[K] = tuple(Tell(to, Resume()) for to in sorted(version.units))
            return replace(job, phase=Running(version), epoch=epoch), (Seal(epoch), *resumed)


def _rescale(job: Coordinator[K], version: Version[K], asked: Requested[K]) -> Transition[K]:
    """Streams of new units first, then INTENT to everybody."""
    following = asked.next
    rescale = Rescale.between(version, following)
    moves = (
        Move(key, giver, rescale.receiver(key), asked.loads.get(key, 0.0))
        for key, giver in version.owners.items()
        if rescale.moves(key)
    )
    first, *later = rounds(moves, asked.pacing) or ((),)
    numbers = {key: number for number, keys in enumerate((first, *later)) for key in keys} if later else {}
    starts = tuple(Start(unit, version) for unit in sorted(following.units - version.units))
    intent = Intent(version.number, version.digest, following, numbers)
    intents = tuple(Tell(unit, intent) for unit in sorted(rescale.units))
    return replace(job, phase=_moving(version, following, 0, first, tuple(later))), (*starts, *intents)


def _moving(
    version: Version[K],
    following: Version[K],
    number: int,
    keys: tuple[K, ...],
    later: tuple[tuple[K, ...], ...],
) -> Moving[K] | Rescaling[K]:
    if later:
        return Moving(version, following, number, frozenset(keys), later)
    return Rescaling(version, following, version.units | following.units)


def _installed(job: Coordinator[K], phase: Moving[K], key: K) -> Transition[K]:
    """When all of a round is there, its next one begins at those that give in it."""
    waiting = phase.waiting - {key}
    if waiting:
        return replace(job, phase=replace(phase, waiting=waiting)), ()
    number, keys, later = phase.round + 1, phase.later[0], phase.later[1:]
    givers = sorted({phase.version.owners[moved] for moved in keys})
    order = Round(phase.next.number, number)
    following = _moving(phase.version, phase.next, number, keys, later)
    return replace(job, phase=following), tuple(Tell(giver, order) for giver in givers)


def _complete(job: Coordinator[K], phase: Rescaling[K]) -> Transition[K]:
    following = phase.next
    removed = phase.version.units - following.units
    completes: JobEffects[K] = tuple(Tell(unit, Complete(following.number)) for unit in sorted(job.units))
    targets = sorted(following.units)
    stranded = sorted(source for source, unit in job.readers.items() if unit in removed)
    job, moves = _move(job, {source: targets[at % len(targets)] for at, source in enumerate(stranded)})
    effects = (*completes, Settle(following.number), *moves)
    if removed:
        return replace(job, phase=Emptying(following, removed)), effects
    job, more = _rescaled(job, following)
    return job, (*effects, *more)


def _rescaled(job: Coordinator[K], version: Version[K]) -> Transition[K]:
    """A snapshot at once, so that no restart reads again what was read before the rescale."""
    if job.recoverable:
        return _snapshot(job, version)
    return replace(job, phase=Running(version)), ()


def _snapshot(job: Coordinator[K], version: Version[K]) -> Transition[K]:
    epoch = job.epoch + 1
    barriers: JobEffects[K] = tuple(Tell(unit, Barrier(epoch)) for unit in sorted(version.units))
    return replace(job, phase=Snapshotting(version, epoch, version.units)), barriers


def _move(job: Coordinator[K], targets: Mapping[str, int]) -> Transition[K]:
    """The old reader lets go first; where it is about to, only the target changes."""
    changed = {
        source: to for source, to in targets.items() if source in job.moving or to != job.readers[source]
    }
    releases: JobEffects[K] = tuple(
        Tell(job.readers[source], ReleaseSource(source)) for source in changed if source not in job.moving
    )
    return replace(job, moving={**job.moving, **changed}), releases


def _open(job: Coordinator[K], source: str) -> Transition[K]:
    """At the unit that was wanted, or where that is not of the job (any more), at another that will stay."""
    staying = sorted(job.target.units)
    to = job.moving[source]
    if to not in staying:
        to = staying[to % len(staying)]
    moving = {name: unit for name, unit in job.moving.items() if name != source}
    return replace(job, readers={**job.readers, source: to}, moving=moving), (Tell(to, OpenSource(source)),)


def _restart(job: Coordinator[K], lost: int | None) -> Transition[K]:
    return replace(job, phase=Restarting(job.target)), (Restart(job.epoch, lost),)
