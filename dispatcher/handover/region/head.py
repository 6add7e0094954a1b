"""The distributor's side: messages go out, and are done when every copy is acknowledged."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Generic

from dispatcher.handover.effect import Collect, Drop, Install, Interrogate
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Collected, Interrogated
from dispatcher.handover.region.errors import StrangeState
from dispatcher.handover.region.graph import Region
from dispatcher.handover.region.message import (
    Acquire,
    Answer,
    Copy,
    Message,
    Met,
    MetWithKeys,
    MetWithState,
)
from dispatcher.handover.region.passage import Put
from dispatcher.handover.region.payload import pack, unpack
from dispatcher.handover.region.rules import Rules
from dispatcher.handover.version import K

CHUNK_BYTES: Final = 1 << 20

Event = Interrogate | Collect[K] | Install[K] | Drop[K] | Answer[K]
Effect = Put[K] | Interrogated[K] | Collected[K]


@dataclass(frozen=True, slots=True)
class Passing:
    """What has been answered so far to a message that has no answer."""


@dataclass(frozen=True, slots=True)
class Collecting(Generic[K]):
    key: K
    states: Mapping[str, bytes] = field(default_factory=dict)


Gathered = Passing | Interrogated[K] | Collecting[K]


@dataclass(frozen=True, slots=True)
class Open(Generic[K]):
    """A message on its way. `copies`: on each edge, those that were put there less those that came, as far as is known.

    One of them may come to be known before the other, so it may be negative; then the one that put it is still to be
    heard of, and an edge before it is not even.
    """

    copies: Mapping[tuple[str, str], int]
    gathered: Gathered[K]


@dataclass(frozen=True, slots=True)
class Head(Generic[K]):
    """`number`: of the last message. `open`: those on their way."""

    region: Region
    rules: Rules = field(default_factory=Rules)
    chunk_bytes: int = CHUNK_BYTES
    number: int = 0
    open: Mapping[int, Open[K]] = field(default_factory=dict)


def step(head: Head[K], event: Event[K]) -> tuple[Head[K], tuple[Effect[K], ...]]:
    """Raises `PayloadError`, and `IllegalEvent` for an answer to nothing."""
    match event:
        case Interrogate():
            return _send(head, event, Interrogated(frozenset()))
        case Collect(key=key):
            return _send(head, event, Collecting(key))
        case Install(key=key, chunks=chunks):
            states = unpack(b"".join(chunks))
            if strange := states.keys() - head.region.stateful:
                raise StrangeState(key, sorted(strange))
            return _send(head, Acquire(key, states), Passing())
        case Drop():
            return _send(head, event, Passing())
        case Met():
            return _heard(head, event, event)
        case MetWithKeys(met=met) | MetWithState(met=met):
            return _heard(head, met, event)


def _send(head: Head[K], message: Message[K], gathered: Gathered[K]) -> tuple[Head[K], tuple[Effect[K], ...]]:
    number = head.number + 1
    source, targets = head.region.head, head.region.targets[head.region.head]
    # Rule 1.
    targets = targets if head.rules.copies else targets[:1]
    opened = Open({(source, target): 1 for target in targets}, gathered)
    after, effects = _settle(replace(head, number=number), number, opened)
    return after, (*(Put(source, target, Copy(number, message)) for target in targets), *effects)


def _heard(head: Head[K], met: Met, answer: Answer[K]) -> tuple[Head[K], tuple[Effect[K], ...]]:
    opened = head.open.get(met.number)
    if opened is None:
        raise IllegalEvent(head, answer)
    counts = [((met.source, met.operator), -1)]
    counts += (((met.operator, target), 1) for target in met.targets)
    copies = dict(opened.copies)
    for edge, count in counts:
        copies[edge] = copies.get(edge, 0) + count
    return _settle(head, met.number, Open(copies, _gather(head, opened.gathered, answer)))


def _gather(head: Head[K], gathered: Gathered[K], answer: Answer[K]) -> Gathered[K]:
    match gathered, answer:
        # Rule 2.
        case Interrogated(keys=before), MetWithKeys(keys=keys):
            return Interrogated(before | keys if head.rules.unites else keys)
        case Collecting(), MetWithState(met=met, state=state):
            return replace(gathered, states=_with_state(head.rules, gathered.states, met.operator, state))
        case _, Met():
            return gathered
    raise IllegalEvent(head, answer)


def _with_state(
    rules: Rules, states: Mapping[str, bytes], operator: str, state: bytes | None
) -> Mapping[str, bytes]:
    """Rule 3."""
    if operator in states and not (rules.replaces if state is not None else rules.replaces_by_none):
        return states
    others = {name: some for name, some in states.items() if name != operator}
    return others if state is None else {**others, operator: state}


def _settle(head: Head[K], number: int, opened: Open[K]) -> tuple[Head[K], tuple[Effect[K], ...]]:
    """Rule 6: a message is done when nothing of it is outstanding."""
    counts = opened.copies.values()
    others = {at: some for at, some in head.open.items() if at != number}
    outstanding = any(counts) if head.rules.counts_by_edge else sum(counts)
    if outstanding and head.rules.counts:
        return replace(head, open={**others, number: opened}), ()
    after = replace(head, open=others)
    match opened.gathered:
        case Interrogated():
            return after, (opened.gathered,)
        case Collecting(key=key, states=states):
            return after, (Collected(key, pack(states, head.chunk_bytes)),)
        case Passing():
            return after, ()
