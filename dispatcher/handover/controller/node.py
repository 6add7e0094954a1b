"""The steps of a node that leaves or gives, Y or Z: 2 and 5."""

from dataclasses import replace

from dispatcher.handover.controller import chain
from dispatcher.handover.controller.chain import Package
from dispatcher.handover.controller.phase import (
    Asked,
    Cutting,
    Given,
    Holding,
    Listing,
    Moving,
    Node,
    Passing,
)
from dispatcher.handover.controller.rules import Here, distributors
from dispatcher.handover.effect import Collect, Drop, Interrogate
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Collected, Interrogated
from dispatcher.handover.message import Final, Message, Redistribute
from dispatcher.handover.outcome import Outcomes, Post
from dispatcher.handover.version import K

Stepped = tuple[Moving[K], Outcomes[K]]


def asked(here: Here, phase: Moving[K]) -> Stepped[K]:
    """Step 2, with SHUTDOWN or SCALEUP of every distributor."""
    if isinstance(phase.node, Asked) and phase.arrivals.asked == distributors(here, phase.rescale):
        return replace(phase, node=Listing()), (Interrogate(),)
    return phase, ()


def interrogated(here: Here, phase: Moving[K], answer: Interrogated[K]) -> Stepped[K]:
    """Which operator has state of which key, before the sets, and again before a state is packaged."""
    match phase.node:
        case Listing():
            return _listed(here, phase, answer)
        case Passing():
            return _packaged(here, phase, phase.node, answer)
        case _:
            raise IllegalEvent(phase.node, answer)


def _listed(here: Here, phase: Moving[K], answer: Interrogated[K]) -> Stepped[K]:
    # Mend e.
    operators = answer.operators if here.rules.unites else answer.operators[:1]
    keys = phase.rescale.leaving(here.unit)
    sets = chain.sets(operators, keys, here.rules.at_once)
    left = tuple(key for key in keys if key in sets.whitelist)
    node: Node[K] = Holding(sets.hold, left) if sets.hold else Given()
    return replace(phase, node=node), _to_all(here, phase, sets)


def finished(here: Here, phase: Moving[K], distributor: int, final: Final[K]) -> Stepped[K]:
    """Step 5, with FINAL of every distributor."""
    node = phase.node
    if not isinstance(node, Holding) or node.keys != final.keys or distributor in node.finals:
        raise IllegalEvent(node, final)
    finals = node.finals | {distributor}
    if finals != distributors(here, phase.rescale):
        return replace(phase, node=replace(node, finals=finals)), ()
    return replace(phase, node=Passing(node.keys, node.left)), (Interrogate(),)


def _packaged(here: Here, phase: Moving[K], node: Passing[K], answer: Interrogated[K]) -> Stepped[K]:
    at_once = here.rules.at_once
    package = chain.through(answer.operators, Final(node.keys), node.left, at_once)
    if isinstance(package, Final):
        # Mend f: no operator has anything to add.
        if not here.rules.answers:
            return phase, ()
        package = Package(tuple((key, ()) for key in node.keys))
    # Mend i: no operator has anything to name.
    if not package.next and here.rules.names_ended:
        package = package.named(node.left, at_once)
    left = tuple(key for key in node.left if key not in package.next)
    phase = replace(phase, node=Cutting(frozenset(node.keys), package.next, left))
    outcomes: Outcomes[K] = ()
    for key, parts in package.parts:
        if not parts:
            phase, more = _given(here, phase, key, ())
            outcomes += more
    return phase, (*outcomes, *(Collect(key) for key, parts in package.parts if parts))


def stated(here: Here, phase: Moving[K], collected: Collected[K]) -> Stepped[K]:
    if not isinstance(phase.node, Cutting) or collected.key not in phase.node.keys:
        raise IllegalEvent(phase.node, collected)
    phase, outcomes = _given(here, phase, collected.key, collected.chunks)
    return phase, (Drop(collected.key), *outcomes)


def _given(here: Here, phase: Moving[K], key: K, chunks: tuple[bytes, ...]) -> Stepped[K]:
    """REDISTRIBUTE to all; without chunks where nobody had state. The one of the last key has the next ones."""
    node = phase.node
    assert isinstance(node, Cutting)
    keys = node.keys - {key}
    following = None if keys else node.next
    after: Node[K] = replace(node, keys=keys)
    if not keys:
        after = Holding(node.next, node.left) if node.next else Given()
    count = len(chunks)
    messages: list[Message[K]] = [
        Redistribute(key, index, count, chunk, following if index + 1 == count else None)
        for index, chunk in enumerate(chunks)
    ]
    messages = messages or [Redistribute(key, 0, 0, b"", following)]
    return replace(phase, node=after), _to_all(here, phase, *messages)


def _to_all(here: Here, phase: Moving[K], *messages: Message[K]) -> Outcomes[K]:
    """Itself last, so that what it answers is behind them."""
    to = sorted(distributors(here, phase.rescale), key=lambda unit: (unit == here.unit, unit))
    return tuple(Post(unit, message) for unit in to for message in messages)
