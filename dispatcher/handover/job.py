"""What the coordinator of a job is and hears, and what it wants done."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from dispatcher.handover.effect import Report
from dispatcher.handover.event import Order
from dispatcher.handover.pacing import Pacing
from dispatcher.handover.version import K, Version


@dataclass(frozen=True, slots=True)
class Running(Generic[K]):
    version: Version[K]


@dataclass(frozen=True, slots=True)
class Moving(Generic[K]):
    """The part of a rescale before its last round.

    `round` is under way, and `waiting` are its keys that are not installed; `later` are the rounds to come. No unit can
    acknowledge by now: some giver is not done.
    """

    version: Version[K]
    next: Version[K]
    round: int
    waiting: frozenset[K]
    later: tuple[tuple[K, ...], ...]


@dataclass(frozen=True, slots=True)
class Rescaling(Generic[K]):
    """`waiting`: the units of both versions that have not acknowledged `next`."""

    version: Version[K]
    next: Version[K]
    waiting: frozenset[int]


@dataclass(frozen=True, slots=True)
class Emptying(Generic[K]):
    """`version` is complete; `waiting` are the removed units that have not left."""

    version: Version[K]
    waiting: frozenset[int]


@dataclass(frozen=True, slots=True)
class Snapshotting(Generic[K]):
    """`waiting`: the units that still have records under way."""

    version: Version[K]
    epoch: int
    waiting: frozenset[int]


@dataclass(frozen=True, slots=True)
class Restarting(Generic[K]):
    """Until the units are started again; `version` was the last to which the job was to go."""

    version: Version[K]


JobPhase = Running[K] | Moving[K] | Rescaling[K] | Emptying[K] | Snapshotting[K] | Restarting[K]


@dataclass(frozen=True, slots=True)
class Coordinator(Generic[K]):
    """`readers`: the unit of each source partition; `moving`: the next one, while the old one still drains it.

    `epoch` is the last sealed. A `recoverable` job takes a snapshot after each rescale, where it stores any.
    """

    phase: JobPhase[K]
    execution: int
    readers: Mapping[str, int]
    moving: Mapping[str, int] = field(default_factory=dict)
    epoch: int = 0
    recoverable: bool = True

    @property
    def target(self) -> Version[K]:
        """To which the job goes, or at which it is."""
        phase = self.phase
        return phase.next if isinstance(phase, Moving | Rescaling) else phase.version

    @property
    def units(self) -> frozenset[int]:
        """That run, or are being started."""
        match self.phase:
            case Moving(version=version, next=following) | Rescaling(version=version, next=following):
                return version.units | following.units
            case Emptying(version=version, waiting=leaving):
                return version.units | leaving
            case _:
                return self.phase.version.units


@dataclass(frozen=True, slots=True)
class Requested(Generic[K]):
    """A version was published: the one after the job's with the phase `rescaling`, or, where that was aborted, the same
    mapping by a higher number.

    `loads`: of its keys, where the pacing orders by them.
    """

    next: Version[K]
    pacing: Pacing = field(default_factory=Pacing)
    loads: Mapping[K, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reported(Generic[K]):
    """`execution` is the unit's. What is left of an older one says nothing of this one."""

    unit: int
    report: Report[K]
    execution: int


@dataclass(frozen=True, slots=True)
class SnapshotDue:
    pass


@dataclass(frozen=True, slots=True)
class MoveSource:
    source: str
    to: int


@dataclass(frozen=True, slots=True)
class UnitLost:
    unit: int


@dataclass(frozen=True, slots=True)
class DeadlinePassed:
    """Of the rescale to `version`."""

    version: int


@dataclass(frozen=True, slots=True)
class Restarted(Generic[K]):
    """The units of `version` run, from the last snapshot, under an execution number that nobody had before."""

    execution: int
    version: Version[K]
    readers: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class Tell(Generic[K]):
    to: int
    order: Order[K]


@dataclass(frozen=True, slots=True)
class Start(Generic[K]):
    """A new unit and its streams to and from everybody, with the version before the one that it is for (rule 8)."""

    unit: int
    version: Version[K]


@dataclass(frozen=True, slots=True)
class Defer(Generic[K]):
    """The job is busy; ask anew when it runs. By then, a request may be aborted, or have another base."""

    event: Requested[K] | SnapshotDue


@dataclass(frozen=True, slots=True)
class Seal:
    """Every record read so far is applied: keep state and positions as this epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Restart:
    """Stop every unit and start again from `epoch`; `lost` is a unit that is not there any more."""

    epoch: int
    lost: int | None


@dataclass(frozen=True, slots=True)
class Settle:
    """The version is complete: tell the service."""

    version: int


JobEvent = Requested[K] | Reported[K] | SnapshotDue | MoveSource | UnitLost | DeadlinePassed | Restarted[K]
JobEffect = Tell[K] | Start[K] | Defer[K] | Seal | Restart | Settle
JobEffects = tuple[JobEffect[K], ...]
Transition = tuple[Coordinator[K], JobEffects[K]]
