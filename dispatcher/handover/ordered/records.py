"""Where records go: an own record to its unit (rules 1, 2), one that has come to the operators, or on (1, 3, 5)."""

from dataclasses import replace

from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.message import Path, Records
from dispatcher.handover.ordered.phase import (
    Acknowledged,
    Given,
    Giving,
    Phase,
    Settled,
    Transition,
    version_of,
)
from dispatcher.handover.ordered.rules import Here
from dispatcher.handover.outcome import Heard, Post, Take
from dispatcher.handover.phase import Gone, Leaving
from dispatcher.handover.version import K


def route(here: Here, phase: Phase[K], key: K) -> tuple[int, Path]:
    """The unit to which an own record goes."""
    match phase:
        case Giving(rescale=rescale, arrivals=arrivals) | Given(rescale=rescale, arrivals=arrivals):
            # Rule 2: the old owner orders its records until it has given all.
            if rescale.giver(key) not in arrivals.done and here.rules.awaits_done:
                return rescale.giver(key), Path.ORDINARY
            return rescale.receiver(key), Path.DIRECT if rescale.moves(key) else Path.ORDINARY
        case Acknowledged(rescale=rescale):
            # The receiver may still wait for a FLUSHED of this unit: rule 5 holds until COMPLETE.
            return rescale.receiver(key), Path.DIRECT if rescale.moves(key) else Path.ORDINARY
        # Rule 1, and whatever is not in a handover.
        case Settled(version=version) | Leaving(version=version) | Gone(version=version):
            return version.owners[key], Path.ORDINARY


def take(here: Here, phase: Phase[K], heard: Heard[K], records: Records[K]) -> Transition[K]:
    """What a unit does with records that have come to it, its own included."""
    key, own = records.batch.key, version_of(phase)
    match phase:
        case Settled() | Acknowledged():
            # Rule 3 of an owner that has not heard of the next version; rule 1.
            if own.owners[key] == here.unit:
                return phase, (Take(records),)
            if heard.version > own.number:
                return _to_new_owner(here, phase, heard, records, own.owners[key])
        case Giving(rescale=rescale) | Given(rescale=rescale):
            if rescale.receiver(key) == here.unit:
                # Rule 1.
                if not rescale.moves(key):
                    return phase, (Take(records),)
                return _to_new_owner(here, phase, heard, records, rescale.giver(key))
            if rescale.giver(key) == here.unit:
                return _to_old_owner(here, phase, records)
    raise IllegalEvent(phase, heard)


def _to_old_owner(here: Here, phase: Giving[K] | Given[K], records: Records[K]) -> Transition[K]:
    key = records.batch.key
    match phase:
        # Rule 3: it applies what it still has,
        case Giving(rescale=rescale, round=number) if rescale.round(key) > number:
            return phase, (Take(records),)
        # holds what is being cut out,
        case Giving(held=held) if key in held:
            if not here.rules.holds:
                return phase, (Take(records),)
            return replace(phase, held={**held, key: (*held[key], records)}), ()
        # and sends on the rest, behind its Acquire.
        case _:
            return phase, (forward(phase, records),)


def forward(phase: Giving[K] | Given[K], records: Records[K]) -> Post[K]:
    return Post(phase.rescale.receiver(records.batch.key), records)


def _to_new_owner(
    here: Here,
    phase: Settled[K] | Acknowledged[K] | Giving[K] | Given[K],
    heard: Heard[K],
    records: Records[K],
    giver: int,
) -> Transition[K]:
    rules, sender = here.rules, heard.sender
    if sender == giver and records.batch.key not in phase.arrivals.received.get(giver, ()):
        raise IllegalEvent(phase, heard)
    # Rule 5: applied if it came from the old owner, or when nothing older of its origin can follow.
    ordered = sender == giver or (records.origin, giver) in phase.arrivals.flushed
    own, early = sender == here.unit, isinstance(phase, Settled | Acknowledged)
    left_out = not rules.buffers or (own and not rules.buffers_own) or (early and not rules.buffers_early)
    if ordered or left_out:
        return phase, (Take(records),)
    return replace(phase, arrivals=phase.arrivals.with_buffered(records, giver)), ()
