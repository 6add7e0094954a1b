from dataclasses import dataclass
from typing import Generic

from dispatcher.handover.clock import Times
from dispatcher.handover.effect import Acknowledged, Collect, Drop, Install, Installed, Interrogate
from dispatcher.handover.message import Acquire, Control, Message, Records
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Heard(Generic[K]):
    """A message over the mesh, or of the unit to itself; `version` is what the sender goes by."""

    sender: int
    version: int
    message: Records[K] | Acquire[K] | Control


@dataclass(frozen=True, slots=True)
class Post(Generic[K]):
    """To a unit, which may be this one."""

    to: int
    message: Message[K]


@dataclass(frozen=True, slots=True)
class Take(Generic[K]):
    """Apply the records."""

    records: Records[K]


@dataclass(frozen=True, slots=True)
class Merge:
    """From now on all keys here have one event time, and this is known of it."""

    times: Times


@dataclass(frozen=True, slots=True)
class Retell:
    """A group has keys that were not in it when the operators were told its event time."""

    group: int | None


Outcome = (
    Merge
    | Retell
    | Post[K]
    | Take[K]
    | Interrogate
    | Collect[K]
    | Install[K]
    | Drop[K]
    | Installed[K]
    | Acknowledged
)
Outcomes = tuple[Outcome[K], ...]
