"""Who may say what: a word that breaks this was never sent by a unit that keeps the rules."""

from dispatcher.handover.controller.arrivals import Arrivals
from dispatcher.handover.controller.phase import Moving
from dispatcher.handover.controller.rules import Here, distributors, nodes
from dispatcher.handover.message import Acquire, Control, Done, Final, Redistribute, Scaleup, Sets, Shutdown
from dispatcher.handover.version import K, Rescale, Version


def may_say(
    here: Here, base: Version[K], arrivals: Arrivals[K], sender: int, message: Acquire[K] | Control
) -> bool:
    """Before INTENT: as far as the base version tells."""
    match message:
        case Shutdown() | Scaleup():
            return sender not in arrivals.asked
        case Done():
            return sender not in arrivals.done
        case Acquire(key=key):
            return sender not in arrivals.done and base.owners.get(key, here.unit) != here.unit
        case _:
            return False


def has_part(here: Here, phase: Moving[K], sender: int, message: Acquire[K] | Control) -> bool:
    """From INTENT on: as the rescale tells."""
    rescale = phase.rescale
    xs = distributors(here, rescale)
    match message:
        case Sets():
            return here.unit in xs and _may_set(phase, sender, message)
        case Redistribute(key=key, next=following):
            sets = phase.distributor.sets.get(sender)
            return sets is not None and key in sets.hold and sets.whitelist.issuperset(following or ())
        case Final():
            return sender in xs
        case _:
            known = sender in xs and may_say(here, rescale.base, phase.arrivals, sender, message)
            return known and _is_for(here, rescale, message)


def had_part(here: Here, rescale: Rescale[K], arrivals: Arrivals[K]) -> bool:
    """Of all that came before INTENT."""
    keys = arrivals.received.union(*arrivals.chunks.values())
    return (
        arrivals.asked | arrivals.done | arrivals.chunks.keys() <= distributors(here, rescale)
        and (not arrivals.asked or here.unit in nodes(rescale))
        and (not arrivals.done or bool(rescale.givers_to(here.unit)))
        and all(rescale.receiver(key) == here.unit for key in keys)
    )


def _may_set(phase: Moving[K], node: int, sets: Sets[K]) -> bool:
    keys = sets.whitelist.union(sets.hold)
    return (
        node in nodes(phase.rescale)
        and node not in phase.distributor.sets
        and len(keys) == len(sets.whitelist) + len(sets.hold)
        and keys.issubset(phase.rescale.leaving(node))
    )


def _is_for(here: Here, rescale: Rescale[K], message: Acquire[K] | Control) -> bool:
    match message:
        case Shutdown() | Scaleup():
            return here.unit in nodes(rescale)
        case Acquire(key=key):
            return rescale.receiver(key) == here.unit
        case _:
            return bool(rescale.givers_to(here.unit))
