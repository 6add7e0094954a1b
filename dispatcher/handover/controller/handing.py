"""A unit in a rescale: what it hears, and the coordinator's orders. The steps are in `steering` and `node`."""

from dataclasses import replace

from dispatcher.handover.controller.arrivals import Arrivals
from dispatcher.handover.controller.event_time import time_so_far
from dispatcher.handover.controller.node import asked, finished, interrogated, stated
from dispatcher.handover.controller.phase import (
    Acknowledged,
    Asked,
    Given,
    Moving,
    Phase,
    Settled,
    Transition,
    version_of,
)
from dispatcher.handover.controller.records import switched
from dispatcher.handover.controller.rules import Here, distributors, nodes
from dispatcher.handover.controller.standing import had_part, has_part, may_say
from dispatcher.handover.controller.steering import asking, redistributed, with_sets
from dispatcher.handover.effect import Acknowledged as Acknowledgement
from dispatcher.handover.effect import Install
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Collected, Complete, Intent, Interrogated, Obeyed
from dispatcher.handover.message import (
    Acquire,
    Control,
    Done,
    Final,
    Redistribute,
    Scaleup,
    Sets,
    Shutdown,
)
from dispatcher.handover.outcome import Heard, Outcomes, Retell
from dispatcher.handover.phase import Leaving
from dispatcher.handover.version import K, Rescale


def obey(here: Here, phase: Phase[K], event: Obeyed[K]) -> Transition[K]:
    """An order of the coordinator, or the answer of the operators."""
    match phase, event:
        # It is paced by a few keys at a time, and knows no rounds.
        case Settled(), Intent(rounds=rounds) if not rounds:
            return _upgraded(here, phase, event)
        case Moving(), Interrogated():
            return _acknowledged(here, *interrogated(here, phase, event))
        case Moving(), Collected():
            return _acknowledged(here, *stated(here, phase, event))
        case Acknowledged(rescale=rescale, arrivals=arrivals), Complete(version=version) if (
            version == rescale.next.number
        ):
            if rescale.removes(here.unit):
                return Leaving(rescale.next), ()
            return Settled(rescale.next, arrivals), ()
        case _:
            raise IllegalEvent(phase, event)


def hear(here: Here, phase: Phase[K], heard: Heard[K], message: Acquire[K] | Control) -> Transition[K]:
    """A word of another unit about the rescale."""
    match phase:
        # Mend a: it may be upgraded while this one is not.
        case Settled() | Acknowledged() if heard.version == version_of(phase).number + 1:
            if not here.rules.hears_early:
                return phase, ()
            if not may_say(here, version_of(phase), phase.arrivals, heard.sender, message):
                raise IllegalEvent(phase, heard)
            arrivals, outcomes = _arrived(here, phase.arrivals, heard, message)
            return replace(phase, arrivals=arrivals), outcomes
        case Moving() if heard.version == phase.rescale.next.number:
            return _acknowledged(here, *_stepped(here, phase, heard, message))
        case _:
            raise IllegalEvent(phase, heard)


def _stepped(
    here: Here, phase: Moving[K], heard: Heard[K], message: Acquire[K] | Control
) -> tuple[Moving[K], Outcomes[K]]:
    if not has_part(here, phase, heard.sender, message):
        raise IllegalEvent(phase, heard)
    match message:
        case Sets():
            return with_sets(here, phase, heard.sender, message)
        case Redistribute():
            return redistributed(here, phase, heard.sender, message)
        case Final():
            return finished(here, phase, heard.sender, message)
        case _:
            arrivals, outcomes = _arrived(here, phase.arrivals, heard, message)
            phase, more = asked(here, replace(phase, arrivals=arrivals))
            return phase, outcomes + more


def _arrived(
    here: Here, arrivals: Arrivals[K], heard: Heard[K], message: Acquire[K] | Control
) -> tuple[Arrivals[K], Outcomes[K]]:
    """What may come before INTENT."""
    match message:
        case Shutdown() | Scaleup():
            return arrivals.with_asked(heard.sender), ()
        case Done():
            return arrivals.with_done(heard.sender), ()
        case Acquire(key=key):
            arrivals, whole = arrivals.with_chunk(heard.sender, message)
            # Mend d: one copy comes from every distributor.
            if whole is None or (key in arrivals.received and here.rules.first_copy):
                return arrivals, ()
            return arrivals.with_received(key), (Retell(None), Install(key, whole))
        case _:
            raise IllegalEvent(arrivals, heard)


def _upgraded(here: Here, phase: Settled[K], intent: Intent[K]) -> Transition[K]:
    rescale = Rescale.between(phase.version, intent.next)
    if not had_part(here, rescale, phase.arrivals):
        raise IllegalEvent(phase, intent)
    node = Asked() if here.unit in nodes(rescale) else Given()
    moving: Moving[K] = Moving(rescale, phase.arrivals, node)
    moving, outcomes = asked(here, moving)
    outcomes = (*time_so_far(here, rescale), *outcomes, *asking(here, rescale))
    return _acknowledged(here, moving, outcomes)


def _acknowledged(here: Here, phase: Moving[K], outcomes: Outcomes[K]) -> Transition[K]:
    if not _nothing_left(here, phase):
        return phase, outcomes
    rescale = phase.rescale
    return Acknowledged(rescale), (*outcomes, Acknowledgement(rescale.next.number))


def _nothing_left(here: Here, phase: Moving[K]) -> bool:
    """Whether it goes by F' for good, has given all, and has all that it gets."""
    rescale, xs = phase.rescale, distributors(here, phase.rescale)
    if not isinstance(phase.node, Given) or (here.unit in xs and not switched(phase)):
        return False
    # Mend h: the target cannot know which keys have state.
    return not rescale.givers_to(here.unit) or phase.arrivals.done == xs or not here.rules.awaits_done
