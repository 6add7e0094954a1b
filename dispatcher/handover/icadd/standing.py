"""Who may say what: a word that breaks this was never sent by a unit that keeps the rules."""

from dispatcher.handover.icadd.arrivals import Arrivals
from dispatcher.handover.icadd.phase import Acknowledged, Phase, Settled, version_of
from dispatcher.handover.icadd.rules import Here
from dispatcher.handover.message import Acquire, Control, Done, Flush
from dispatcher.handover.outcome import Heard
from dispatcher.handover.phase import Gone, Leaving
from dispatcher.handover.version import K, Rescale, Version


def is_due(here: Here, phase: Phase[K], heard: Heard[K], message: Acquire[K] | Control) -> bool:
    match phase:
        case _ if heard.sender == here.unit:
            return True
        case Settled(arrivals=arrivals) | Acknowledged(arrivals=arrivals):
            return _may_say(version_of(phase), arrivals, heard.sender, message)
        case Leaving() | Gone():
            return False
        case _:
            rescale, sender = phase.rescale, heard.sender
            return _may_say(rescale.base, phase.arrivals, sender, message) and (
                sender in rescale.units if isinstance(message, Flush) else _is_for(here, rescale, message)
            )


def were_due(here: Here, rescale: Rescale[K], arrivals: Arrivals[K]) -> bool:
    """Of all that came before INTENT."""
    keys = arrivals.received.union(arrivals.chunks)
    return arrivals.flushes <= rescale.units and all(rescale.receiver(key) == here.unit for key in keys)


def _may_say(base: Version[K], arrivals: Arrivals[K], sender: int, message: Acquire[K] | Control) -> bool:
    """As far as the base version tells, by which the owners of the keys are known."""
    match message:
        case Acquire(key=key):
            new = sender not in arrivals.finished and key not in arrivals.received
            return new and base.owners.get(key) == sender
        case Done():
            return sender in base.units - arrivals.finished
        case Flush():
            return sender not in arrivals.flushes
        case _:
            return False


def _is_for(here: Here, rescale: Rescale[K], message: Acquire[K] | Control) -> bool:
    return not isinstance(message, Acquire) or rescale.receiver(message.key) == here.unit
