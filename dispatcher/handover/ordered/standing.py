"""Who may say what: a word that breaks this was never sent by a unit that keeps the rules."""

from dispatcher.handover.message import Acquire, Control, Done, Flush, Flushed, RelayedWatermark
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.version import K, Rescale, Version


def may_say(base: Version[K], arrivals: Arrivals[K], sender: int, message: Acquire[K] | Control) -> bool:
    """As far as the base version tells, by which the owners of the keys are known."""
    match message:
        case Acquire(key=key):
            new = sender not in arrivals.done and key not in arrivals.received.get(sender, ())
            return new and base.owners.get(key) == sender
        case RelayedWatermark():
            return sender in base.owning
        case Done():
            return sender not in arrivals.done
        case Flush():
            return sender not in arrivals.flushes
        case Flushed(origin=origin):
            return sender in arrivals.done and (origin, sender) not in arrivals.flushed
        case _:
            return False


def has_part(
    unit: int, rescale: Rescale[K], arrivals: Arrivals[K], sender: int, message: Acquire[K] | Control
) -> bool:
    """And as the rescale tells. `unit` is the one that hears it."""
    match message:
        case Acquire(key=key):
            return rescale.moves(key) and rescale.receiver(key) == unit
        case RelayedWatermark():
            return sender in rescale.givers_to(unit)
        case Done():
            return sender in rescale.receivers and _has_given(unit, rescale, arrivals, sender)
        case Flush():
            return sender in rescale.units and unit in rescale.receivers
        case Flushed(origin=origin):
            return origin in rescale.units and sender in rescale.givers_to(unit)
        case _:
            return False


def have_part(unit: int, rescale: Rescale[K], arrivals: Arrivals[K]) -> bool:
    """Of all that came before INTENT."""
    givers, owners = rescale.givers_to(unit), rescale.next.owners
    keys = (key for some in (*arrivals.received.values(), arrivals.chunks) for key in some)
    pairs = arrivals.flushed.union(arrivals.buffered)
    return (
        arrivals.times.keys() <= givers
        and all(owners[key] == unit for key in keys)
        and arrivals.done <= rescale.receivers.keys()
        and all(_has_given(unit, rescale, arrivals, giver) for giver in arrivals.done)
        and arrivals.flushes <= (rescale.units if unit in rescale.receivers else frozenset())
        and all(origin in rescale.units and giver in givers for origin, giver in pairs)
    )


def _has_given(unit: int, rescale: Rescale[K], arrivals: Arrivals[K], giver: int) -> bool:
    """Whether Done may be said to `unit`: it has every key from there."""
    received = arrivals.received.get(giver, frozenset())
    return received.issuperset(key for key in rescale.leaving(giver) if rescale.receiver(key) == unit)
