"""An operator's side: what it does with a copy that has come to the front of one of its edges."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic

from dispatcher.handover.effect import Collect, Drop, Interrogate
from dispatcher.handover.region.graph import Region
from dispatcher.handover.region.message import Acquire, Copy, Message, Met
from dispatcher.handover.region.rules import Rules
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Arrived(Generic[K]):
    """A copy is next on the edge from `source`: all records that were put there before it are applied."""

    source: str
    copy: Copy[K]


@dataclass(frozen=True, slots=True)
class TellKeys:
    """Answer with `MetWithKeys`."""

    met: Met


@dataclass(frozen=True, slots=True)
class TellState(Generic[K]):
    """Answer with `MetWithState`. Until Acquire or Drop, make no record of the key but of one that comes in.

    So a reader reads the key no further, and timers of it wait.
    """

    met: Met
    key: K


@dataclass(frozen=True, slots=True)
class Tell:
    """Answer with this."""

    met: Met


@dataclass(frozen=True, slots=True)
class Load(Generic[K]):
    """The key is here now: its state, or None if the operator had none."""

    key: K
    state: bytes | None


@dataclass(frozen=True, slots=True)
class Forget(Generic[K]):
    key: K


@dataclass(frozen=True, slots=True)
class Put(Generic[K]):
    """On the edge from `source`, behind the records that are on it."""

    source: str
    target: str
    copy: Copy[K]


Effect = TellKeys | TellState[K] | Tell | Load[K] | Forget[K] | Put[K]


@dataclass(frozen=True, slots=True)
class Passage:
    """`edges`: how many lead here. `arrived`: of each message, on how many of them it has come, until it has on all."""

    operator: str
    targets: tuple[str, ...]
    edges: int
    stateful: bool
    rules: Rules = field(default_factory=Rules)
    arrived: Mapping[int, int] = field(default_factory=dict)


def passage(region: Region, operator: str, rules: Rules | None = None) -> Passage:
    """Of an operator in the region, or one at its end, where messages are discarded."""
    return Passage(
        operator,
        region.targets.get(operator, ()),
        sum(operator in targets for targets in region.targets.values()),
        operator in region.stateful,
        rules or Rules(),
    )


def step(passage: Passage, event: Arrived[K]) -> tuple[Passage, tuple[Effect[K], ...]]:
    """The effects are done in their order, before anything else is taken from an edge of the operator."""
    rules, copy = passage.rules, event.copy
    count = passage.arrived.get(copy.number, 0) + 1
    first, last = count == 1, count == passage.edges
    # Rule 1.
    targets = passage.targets if rules.copies else passage.targets[:1]
    if not (first if _hurries(copy.message, rules) else last):
        targets = ()
    met = Met(copy.number, event.source, passage.operator, targets)
    effects = _effects(passage, copy, met, first=first) if passage.stateful else (Tell(met),)
    puts = tuple(Put(passage.operator, target, copy) for target in targets)
    arrived = {number: some for number, some in passage.arrived.items() if number != copy.number}
    if not last:
        arrived[copy.number] = count
    return replace(passage, arrived=arrived), (*effects, *puts)


def _hurries(message: Message[K], rules: Rules) -> bool:
    """Whether it goes on with its first copy, before records that came behind that, or with its last."""
    if isinstance(message, Acquire | Drop):
        return rules.hurries
    return not rules.waits


def _effects(passage: Passage, copy: Copy[K], met: Met, *, first: bool) -> tuple[Effect[K], ...]:
    match copy.message:
        case Interrogate():
            return (TellKeys(met),)
        case Collect(key=key):
            return (TellState(met, key),)
        # Rule 4.
        case Acquire(key=key, states=states) if first or not passage.rules.takes_first:
            return Load(key, states.get(passage.operator)), Tell(met)
        # Rule 5.
        case Drop(key=key) if first or not passage.rules.drops_first:
            return Forget(key), Tell(met)
        case _:
            return (Tell(met),)
