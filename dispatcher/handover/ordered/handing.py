"""How a unit hands over: from INTENT through Acquire, Done, FLUSH and FLUSHED to COMPLETE (rules 3, 4, 6, 7)."""

from dataclasses import replace

from dispatcher.handover.effect import Acknowledged as Acknowledgement
from dispatcher.handover.effect import Collect, Drop, Install, Installed
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Collected, Complete, Intent, Obeyed, Round
from dispatcher.handover.message import Acquire, Control, Done, Flush, Flushed, RelayedWatermark
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.ordered.event_time import merged, time_told
from dispatcher.handover.ordered.phase import (
    Acknowledged,
    Given,
    Giving,
    Phase,
    Settled,
    Transition,
    version_of,
)
from dispatcher.handover.ordered.records import forward
from dispatcher.handover.ordered.rules import Here
from dispatcher.handover.ordered.standing import has_part, have_part, may_say
from dispatcher.handover.outcome import Heard, Merge, Outcomes, Post, Retell, Take
from dispatcher.handover.phase import Leaving
from dispatcher.handover.version import K, Rescale


def obey(here: Here, phase: Phase[K], event: Obeyed[K]) -> Transition[K]:
    """An order of the coordinator, or the answer of the operators."""
    match phase, event:
        case Settled(), Intent():
            return _upgraded(here, phase, event)
        case Giving(), Round(version=version, number=number) if version == phase.rescale.next.number:
            if phase.held or number not in phase.leaving or number <= phase.round:
                raise IllegalEvent(phase, event)
            return _begun(here, phase, number)
        case Giving(), Collected(key=key) if key in phase.held:
            return _given_one(here, phase, event)
        case Acknowledged(rescale=rescale, arrivals=arrivals), Complete(version=version) if (
            version == rescale.next.number
        ):
            # Rule 7: a removed unit leaves only now.
            if rescale.removes(here.unit):
                return Leaving(rescale.next), ()
            return Settled(rescale.next, arrivals), ()
        case _:
            raise IllegalEvent(phase, event)


def hear(here: Here, phase: Phase[K], heard: Heard[K], message: Acquire[K] | Control) -> Transition[K]:
    """A word of another unit about the handover."""
    match phase:
        # Rule 6: it may be upgraded while this one is not.
        case Settled() | Acknowledged() if heard.version == version_of(phase).number + 1:
            if not here.rules.hears_early:
                return phase, ()
            if not may_say(version_of(phase), phase.arrivals, heard.sender, message):
                raise IllegalEvent(phase, heard)
            arrivals, outcomes = _arrived(phase.arrivals, heard.sender, message)
            return replace(phase, arrivals=arrivals), outcomes
        case Giving() | Given() if heard.version == phase.rescale.next.number:
            rescale, arrivals, sender = phase.rescale, phase.arrivals, heard.sender
            known = may_say(rescale.base, arrivals, sender, message)
            if not known or not has_part(here.unit, rescale, arrivals, sender, message):
                raise IllegalEvent(phase, heard)
            arrivals, outcomes = _arrived(arrivals, sender, message)
            following, more = _answered(here, replace(phase, arrivals=arrivals), heard.sender, message)
            return following, outcomes + more
        case _:
            raise IllegalEvent(phase, heard)


def _arrived(
    arrivals: Arrivals[K], sender: int, message: Acquire[K] | Control
) -> tuple[Arrivals[K], Outcomes[K]]:
    match message:
        case Acquire(key=key):
            arrivals, whole = arrivals.with_chunk(message)
            if whole is None:
                return arrivals, ()
            return arrivals.with_received(sender, message), (Retell(sender), Install(key, whole))
        case RelayedWatermark(source=source, time=time):
            return arrivals.with_times(sender, {source: time}), ()
        case Done():
            return arrivals.with_done(sender), ()
        case Flush():
            return arrivals.with_flush(sender), ()
        case Flushed(origin=origin):
            # Rule 5: what waited for it came from its origin itself.
            arrivals, waited = arrivals.with_flushed(origin, sender)
            return arrivals, tuple(Take(records) for records in waited)
        case _:
            raise IllegalEvent(arrivals, message)


def _answered(
    here: Here, phase: Giving[K] | Given[K], sender: int, message: Acquire[K] | Control
) -> Transition[K]:
    match phase, message:
        case _, Acquire(key=key) if key in phase.arrivals.received.get(sender, ()):
            outcomes: Outcomes[K] = _installed(phase.rescale, key)
        # Rule 4: its old traffic ends here, for from now on `route` goes direct.
        case _, Done() if here.rules.flushes_last:
            outcomes = (Post(sender, Flush()),)
        # Rule 4: behind all that was forwarded.
        case Given(), Flush():
            outcomes = _relayed(here, phase, sender)
        case _:
            outcomes = ()
    return _acknowledged(here, phase, outcomes)


def _upgraded(here: Here, phase: Settled[K], intent: Intent[K]) -> Transition[K]:
    rescale = Rescale.between(phase.version, intent.next, intent.rounds if here.rules.paces else {})
    arrivals = phase.arrivals
    if not have_part(here.unit, rescale, arrivals):
        raise IllegalEvent(phase, intent)
    # Rule 4, for the givers whose Done came first.
    to_flush = arrivals.done if here.rules.flushes_last else rescale.receivers
    flushes: Outcomes[K] = tuple(Post(giver, Flush()) for giver in sorted(to_flush))
    # Their state was here before the rounds were known.
    early: Outcomes[K] = tuple(
        report
        for key in rescale.rounds
        if key in arrivals.received.get(rescale.giver(key), ())
        for report in _installed(rescale, key)
    )
    leaving: dict[int, list[K]] = {}
    for key in rescale.leaving(here.unit):
        leaving.setdefault(rescale.round(key), []).append(key)
    if not leaving:
        return _acknowledged(here, Given(rescale, arrivals), (*flushes, *early))
    giving, collects = _begun(here, Giving(rescale, arrivals, leaving, 0, {}, {}), 0)
    return giving, (*collects, *flushes, *early)


def _installed(rescale: Rescale[K], key: K) -> Outcomes[K]:
    """What the next round waits for."""
    return (Installed(rescale.next.number, key),) if rescale.round(key) < rescale.last else ()


def _begun(here: Here, phase: Giving[K], number: int) -> Transition[K]:
    """A round of the keys that are given here."""
    keys = phase.leaving.get(number, ())
    following = replace(phase, round=number, held=dict.fromkeys(keys, ()), times=here.clock.times)
    return following, tuple(Collect(key) for key in keys)


def _given_one(here: Here, phase: Giving[K], collected: Collected[K]) -> Transition[K]:
    """Rule 3: Acquire, then what was held; after the last key, Done."""
    rescale, key, chunks = phase.rescale, collected.key, collected.chunks
    receiver, last, now = rescale.receiver(key), len(chunks) - 1, here.clock.times
    outcomes: Outcomes[K] = (
        *(
            Post(receiver, Acquire(key, index, last + 1, chunk, phase.times if index == last else {}))
            for index, chunk in enumerate(chunks)
        ),
        *(forward(phase, records) for records in phase.held[key]),
        Drop(key),
    )
    held = {other: waiting for other, waiting in phase.held.items() if other != key}
    if held:
        return replace(phase, held=held), outcomes
    news = {source: time for source, time in now.items() if time != phase.times.get(source)}
    outcomes += time_told(here, rescale, news)
    if phase.round < max(phase.leaving):
        return replace(phase, held=held), outcomes
    # Itself last, so that its own FLUSHED is behind its Done everywhere.
    done: Outcomes[K] = tuple(
        Post(unit, Done()) for unit in sorted(rescale.units, key=lambda unit: (unit == here.unit, unit))
    )
    following = Given(rescale, phase.arrivals)
    # Rule 4: not before its own Done.
    relayed = tuple(
        post for origin in sorted(phase.arrivals.flushes) for post in _relayed(here, following, origin)
    )
    return _acknowledged(here, following, (*outcomes, *done, *relayed))


def _relayed(here: Here, phase: Given[K], origin: int) -> Outcomes[K]:
    return tuple(Post(unit, Flushed(origin)) for unit in sorted(phase.rescale.receivers[here.unit]))


def _acknowledged(here: Here, phase: Giving[K] | Given[K], outcomes: Outcomes[K]) -> Transition[K]:
    """The transition, which may be the one to `Acknowledged`."""
    if isinstance(phase, Giving) or not _nothing_left(here, phase):
        return phase, outcomes
    rescale = phase.rescale
    reported = (*outcomes, Merge(merged(here, phase)), Acknowledgement(rescale.next.number))
    if not here.rules.acknowledges_last and rescale.removes(here.unit):
        return Leaving(rescale.next), reported
    return Acknowledged(rescale), reported


def _nothing_left(here: Here, phase: Given[K]) -> bool:
    """Rule 7: whether it has sent FLUSH to every giver, relayed everyone's, and seen all its FLUSHED."""
    rescale, arrivals = phase.rescale, phase.arrivals
    if not here.rules.acknowledges_last:
        return here.unit not in rescale.receivers or here.unit in arrivals.done
    return (
        arrivals.done == rescale.receivers.keys()
        and (here.unit not in rescale.receivers or arrivals.flushes == rescale.units)
        # Nobody else is heard: `standing`.
        and len(arrivals.flushed) == len(rescale.units) * len(rescale.givers_to(here.unit))
    )
