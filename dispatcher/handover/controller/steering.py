"""The steps of a distributor X: 1, 3, 4 and 6."""

from dataclasses import replace

from dispatcher.handover.controller.phase import Moving
from dispatcher.handover.controller.records import route, switched, way
from dispatcher.handover.controller.rules import Here, distributors, nodes
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.message import Acquire, Done, Final, Redistribute, Scaleup, Sets, Shutdown
from dispatcher.handover.outcome import Outcomes, Post
from dispatcher.handover.version import K, Rescale

Steered = tuple[Moving[K], Outcomes[K]]


def asking(here: Here, rescale: Rescale[K]) -> Outcomes[K]:
    """Step 1."""
    if here.unit not in distributors(here, rescale):
        return ()
    to = sorted(nodes(rescale))
    return tuple(Post(node, Shutdown() if rescale.removes(node) else Scaleup()) for node in to)


def with_sets(here: Here, phase: Moving[K], node: int, sets: Sets[K]) -> Steered[K]:
    """Steps 3 and 4, and what mend b held back goes by them."""
    distributor = phase.distributor.with_sets(node, sets)
    phase = replace(phase, distributor=distributor)
    free = frozenset(key for key in distributor.held if way(here, phase, key) is not None)
    return _advanced(*_released(here, phase, free), node, sets.hold)


def redistributed(here: Here, phase: Moving[K], node: int, message: Redistribute[K]) -> Steered[K]:
    """Step 6: state first, then the records that waited for it, then the next keys."""
    key, sets = message.key, phase.distributor.sets.get(node)
    if sets is None or key not in sets.hold:
        raise IllegalEvent(phase.distributor, message)
    copied: Outcomes[K] = ()
    # Mend c: in front of the records of this distributor.
    if message.count and (
        here.rules.copies_everywhere or here.unit == min(distributors(here, phase.rescale))
    ):
        acquire = Acquire(key, message.index, message.count, message.state)
        copied = (Post(phase.rescale.receiver(key), acquire),)
    if message.index + 1 < message.count:
        return phase, copied
    following = message.next or ()
    hold = (*(held for held in sets.hold if held != key), *following)
    sets = Sets(sets.whitelist - frozenset(following), hold)
    phase = replace(phase, distributor=phase.distributor.with_sets(node, sets))
    phase, released = _released(here, phase, frozenset({key}))
    if message.next is None:
        return phase, copied + released
    return _advanced(phase, copied + released, node, following)


def _released(here: Here, phase: Moving[K], keys: frozenset[K]) -> Steered[K]:
    distributor, waited = phase.distributor.without_held(keys)
    phase = replace(phase, distributor=distributor)
    return phase, tuple(Post(route(here, phase, records.batch.key)[0], records) for records in waited)


def _advanced(phase: Moving[K], outcomes: Outcomes[K], node: int, keys: tuple[K, ...]) -> Steered[K]:
    """Step 4: FINAL is behind all that went to the node; without a key, the node has given all."""
    if keys:
        return phase, (*outcomes, Post(node, Final(keys)))
    if not switched(phase):
        return phase, outcomes
    # Mend h: behind the last copy.
    receivers: frozenset[int] = frozenset().union(*phase.rescale.receivers.values())
    return phase, (*outcomes, *(Post(unit, Done()) for unit in sorted(receivers)))
