"""Event time while keys move: rules 3 and 5, for watermarks, each of which goes the way of the records before it.

Of a moved key the new owner believes the old one, which relays what each origin says, behind the records that it
forwards; and from FLUSHED on the origin itself. So the keys that were given may be behind the others of their unit,
until nothing of the handover is left there.
"""

from functools import reduce

from dispatcher.handover.clock import Times, earlier
from dispatcher.handover.message import RelayedWatermark, Watermark
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.ordered.outcome import Here, Outcomes, Post
from dispatcher.handover.ordered.phase import Given, Giving, Phase
from dispatcher.handover.version import K, Rescale


def times_of(here: Here, arrivals: Arrivals[K], giver: int) -> Times:
    """Of the keys from `giver`: what it says, and of those who have nothing older on their way, what they say."""
    senders = frozenset(here.clock.heard)
    if here.rules.buffers_time:
        senders = frozenset(origin for origin, of in arrivals.flushed if of == giver)
    return here.clock.since(arrivals.times[giver], senders)


def relayed_time(here: Here, phase: Phase[K], origin: int, watermark: Watermark) -> Outcomes[K]:
    """Rule 3, for event time: it is held back while records are held, and then goes behind what was forwarded.

    What an origin says after its FLUSH says nothing of the records that go past this unit.
    """
    match phase:
        case Giving(rescale=rescale) if not here.rules.holds_time:
            return time_told(here, rescale, {watermark.source: watermark.time})
        case Given(rescale=rescale, arrivals=arrivals) if origin not in arrivals.flushes:
            return time_told(here, rescale, {watermark.source: watermark.time})
        case _:
            return ()


def time_told(here: Here, rescale: Rescale[K], times: Times) -> Outcomes[K]:
    return tuple(
        Post(unit, RelayedWatermark(source, time))
        for unit in sorted(rescale.receivers.get(here.unit, ()))
        for source, time in times.items()
    )


def merged(here: Here, phase: Given[K]) -> Times:
    """What holds for every key that this unit has from now on."""
    rescale, arrivals, clock = phase.rescale, phase.arrivals, here.clock
    of_each = [times_of(here, arrivals, giver) for giver in sorted(arrivals.received)]
    if not of_each or any(
        owner == here.unit and not rescale.moves(key) for key, owner in rescale.base.owners.items()
    ):
        of_each.append(clock.times)
    return reduce(earlier, of_each)
