"""How a unit hands over: Interrogation, Collection, Done of all, and the end."""

from dataclasses import replace

from dispatcher.handover.effect import Acknowledged as Acknowledgement
from dispatcher.handover.effect import Collect, Drop, Install, Interrogate
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Collected, Complete, Intent, Interrogated, Obeyed
from dispatcher.handover.icadd.arrivals import Arrivals
from dispatcher.handover.icadd.phase import (
    Acknowledged,
    Collecting,
    Finished,
    Given,
    Interrogating,
    Phase,
    Settled,
    Transition,
    version_of,
)
from dispatcher.handover.icadd.rules import Here
from dispatcher.handover.icadd.standing import is_due, were_due
from dispatcher.handover.message import Acquire, Control, Done, Flush, Watermark
from dispatcher.handover.outcome import Heard, Outcomes, Post, Retell
from dispatcher.handover.phase import Leaving
from dispatcher.handover.version import K, Rescale


def obey(here: Here, phase: Phase[K], event: Obeyed[K]) -> Transition[K]:
    """An order of the coordinator, or the answer of the operators."""
    match phase, event:
        # It is paced by one key at a time, and knows no rounds.
        case Settled(), Intent(rounds=rounds) if not rounds:
            return _begun(here, phase, event)
        case Interrogating(), Interrogated(keys=keys):
            return _collecting(here, phase, keys)
        case Collecting(hold=hold), Collected(key=key) if key in hold:
            return _given_one(here, phase, event)
        case Acknowledged(rescale=rescale, arrivals=arrivals), Complete(version=version) if (
            version == rescale.next.number
        ):
            # Mend E: a removed unit leaves only now.
            if rescale.removes(here.unit):
                return Leaving(rescale.next), ()
            return Settled(rescale.next, arrivals), ()
        case _:
            raise IllegalEvent(phase, event)


def hear(here: Here, phase: Phase[K], heard: Heard[K], message: Acquire[K] | Control) -> Transition[K]:
    """A word of another unit about the handover, for which this one may not be upgraded."""
    if not is_due(here, phase, heard, message):
        raise IllegalEvent(phase, heard)
    match phase:
        case Settled() | Interrogating() | Acknowledged() if heard.version == version_of(phase).number + 1:
            arrivals, outcomes = _arrived(phase.arrivals, heard, message)
            return replace(phase, arrivals=arrivals), outcomes
        case Collecting() if heard.version == phase.rescale.next.number:
            arrivals, outcomes = _arrived(phase.arrivals, heard, message)
            return replace(phase, arrivals=arrivals), outcomes
        case Given() | Finished() if heard.version == phase.rescale.next.number:
            arrivals, outcomes = _arrived(phase.arrivals, heard, message)
            return _onward(here, replace(phase, arrivals=arrivals), outcomes)
        case _:
            raise IllegalEvent(phase, heard)


def _arrived(
    arrivals: Arrivals[K], heard: Heard[K], message: Acquire[K] | Control
) -> tuple[Arrivals[K], Outcomes[K]]:
    match message:
        case Acquire(key=key):
            arrivals, whole = arrivals.with_chunk(message)
            return arrivals, () if whole is None else (Retell(None), Install(key, whole))
        case Done():
            return arrivals.with_done(heard.sender), ()
        case Flush():
            return arrivals.with_flush(heard.sender), ()
        case _:
            raise IllegalEvent(arrivals, heard)


def _begun(here: Here, phase: Settled[K], intent: Intent[K]) -> Transition[K]:
    rescale, arrivals = Rescale.between(phase.version, intent.next), phase.arrivals
    if not were_due(here, rescale, arrivals):
        raise IllegalEvent(phase, intent)
    if here.unit in rescale.base.units:
        return Interrogating(rescale, arrivals), (Interrogate(), *_time_told(here, rescale))
    # Mend G: it goes by the rules of Collection, with nothing to give.
    if here.rules.new_units_collect:
        return _onward(here, Given(rescale, arrivals), ())
    return _finished(here, Given(rescale, arrivals), ())


def _time_told(here: Here, rescale: Rescale[K]) -> Outcomes[K]:
    """To new units, which have not heard what was said before."""
    return tuple(
        Post(unit, Watermark(source, time))
        for unit in sorted(rescale.next.units - rescale.base.units)
        for source, time in here.clock.times.items()
    )


def _collecting(here: Here, phase: Interrogating[K], keys: frozenset[K]) -> Transition[K]:
    rescale = phase.rescale
    whitelist = frozenset(key for key in keys | phase.whitelist if _leaves(here, rescale, key))
    order = tuple(key for key in rescale.base.owners if key in whitelist)
    return _next_one(here, Collecting(rescale, phase.arrivals, whitelist, order), ())


def _leaves(here: Here, rescale: Rescale[K], key: K) -> bool:
    # Mend F: not what has been acquired.
    return rescale.receiver(key) != here.unit or (rescale.moves(key) and not here.rules.leaves_received)


def _next_one(here: Here, phase: Collecting[K], outcomes: Outcomes[K]) -> Transition[K]:
    """The next key goes into hold; after the last one, Done."""
    if phase.order:
        key, *order = phase.order
        whitelist = phase.whitelist - {key}
        phase = replace(phase, whitelist=whitelist, order=tuple(order), hold={**phase.hold, key: ()})
        return phase, (*outcomes, Collect(key))
    dones: Outcomes[K] = tuple(Post(unit, Done()) for unit in sorted(phase.rescale.units - {here.unit}))
    given = Given(phase.rescale, phase.arrivals.with_done(here.unit))
    return _onward(here, given, (*outcomes, *dones))


def _given_one(here: Here, phase: Collecting[K], collected: Collected[K]) -> Transition[K]:
    """Acquire, what was held, Drop."""
    key, chunks = collected.key, collected.chunks
    receiver = phase.rescale.receiver(key)
    outcomes: Outcomes[K] = (
        *(Post(receiver, Acquire(key, index, len(chunks), chunk)) for index, chunk in enumerate(chunks)),
        *(Post(receiver, records) for records in phase.hold[key]),
        Drop(key),
    )
    hold = {other: held for other, held in phase.hold.items() if other != key}
    return _next_one(here, replace(phase, hold=hold), outcomes)


def _onward(here: Here, phase: Given[K] | Finished[K], outcomes: Outcomes[K]) -> Transition[K]:
    """Where the last Done has come, or the last FLUSH."""
    match phase:
        case Given(rescale=rescale, arrivals=arrivals) if arrivals.finished == rescale.base.units:
            return _finished(here, phase, outcomes)
        case Finished(rescale=rescale, arrivals=arrivals) if (
            arrivals.flushes == rescale.units or not here.rules.awaits_flushes
        ):
            return Acknowledged(rescale), (*outcomes, Acknowledgement(rescale.next.number))
        case _:
            return phase, outcomes


def _finished(here: Here, phase: Given[K], outcomes: Outcomes[K]) -> Transition[K]:
    """What it sends from here on goes by F'; to each unit, FLUSH is behind what did not."""
    rescale, arrivals = phase.rescale, phase.arrivals.with_flush(here.unit)
    others = rescale.units - {here.unit} if here.rules.awaits_flushes else ()
    flushes: Outcomes[K] = tuple(Post(unit, Flush()) for unit in sorted(others))
    outcomes = (*outcomes, *flushes)
    if rescale.removes(here.unit) and not here.rules.relays_until_complete:
        return Leaving(rescale.next), (*outcomes, Acknowledgement(rescale.next.number))
    return _onward(here, Finished(rescale, arrivals), outcomes)
