"""What a unit wants done, in this order. Those marked so answer with an event, the reports go to the coordinator."""

from dataclasses import dataclass
from typing import Generic

from dispatcher.handover.message import Frame, Records
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Send(Generic[K]):
    """Put a frame on the stream to another unit. It never blocks."""

    to: int
    frame: Frame[K]


@dataclass(frozen=True, slots=True)
class Apply(Generic[K]):
    """Give the records to the operators, behind all that they were given before; answered with `Applied`."""

    records: Records[K]


@dataclass(frozen=True, slots=True)
class Interrogate:
    """Ask all operators for the keys that they have state of, behind all that they were given before.

    Answered with `Interrogated`, behind `Applied` of that.
    """


@dataclass(frozen=True, slots=True)
class Collect(Generic[K]):
    """Cut the key's state out of the operators, behind all that they were given before.

    Answered with `Collected`, behind `Applied` of that.
    """

    key: K


@dataclass(frozen=True, slots=True)
class Install(Generic[K]):
    """Give the key's state, all its chunks, to the operators, in front of all that they are given later."""

    key: K
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Drop(Generic[K]):
    """The operators may forget the key: its state is on its way."""

    key: K


@dataclass(frozen=True, slots=True)
class Advance(Generic[K]):
    """Event time of every key here but `behind`, for operators and timers, behind all that they were given before.

    So not of a key whose `Collect` they have. A key's own time never goes back.
    """

    time: int
    behind: frozenset[K]


@dataclass(frozen=True, slots=True)
class AdvanceOnly(Generic[K]):
    """Event time of `keys`, which are new here."""

    time: int
    keys: frozenset[K]


@dataclass(frozen=True, slots=True)
class PauseSources:
    """Read nothing more until `ResumeSources`, from no source that is started meanwhile either."""


@dataclass(frozen=True, slots=True)
class ResumeSources:
    pass


@dataclass(frozen=True, slots=True)
class StartSource:
    source: str


@dataclass(frozen=True, slots=True)
class StopSource:
    source: str


@dataclass(frozen=True, slots=True)
class Refuse(Generic[K]):
    """Count and log a frame that is not taken: it is of another execution."""

    sender: int
    frame: Frame[K]
    reason: str


@dataclass(frozen=True, slots=True)
class Installed(Generic[K]):
    """A report: the key's state is here. Of the last round there is none.

    Where operators take `Install` later, it may be on its way to them. An engine whose pace is to bound that, too,
    sends the report when they have it; nothing else waits for it.
    """

    version: int
    key: K


@dataclass(frozen=True, slots=True)
class Acknowledged:
    """A report: nothing of the base version is left here."""

    version: int


@dataclass(frozen=True, slots=True)
class Released:
    """A report: every record that was read here from `source` is applied."""

    source: str


@dataclass(frozen=True, slots=True)
class Drained:
    """A report: every own record is applied, and none is read until `Resume`."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Left:
    """A report, the last: close the streams and stop."""


Report = Installed[K] | Acknowledged | Released | Drained | Left
Effect = (
    Send[K]
    | Apply[K]
    | Interrogate
    | Collect[K]
    | Install[K]
    | Drop[K]
    | Advance[K]
    | AdvanceOnly[K]
    | PauseSources
    | ResumeSources
    | StartSource
    | StopSource
    | Refuse[K]
    | Report[K]
)
