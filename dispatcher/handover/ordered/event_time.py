"""Event time while keys move: rules 3 and 5, for watermarks, each of which goes the way of the records before it.

Of a moved key the new owner believes the old one, which relays what each origin says, behind the records that it
forwards; and from FLUSHED on the origin itself. So the keys that were given may be behind the others of their unit,
until nothing of the handover is left there.
"""

from functools import reduce

from dispatcher.handover.clock import Times, earlier, event_time
from dispatcher.handover.effect import Advance, AdvanceOnly, Effect
from dispatcher.handover.message import RelayedWatermark, Watermark
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.ordered.phase import Acknowledged, Given, Giving, Phase, Settled, version_of
from dispatcher.handover.ordered.rules import Here
from dispatcher.handover.outcome import Outcomes, Post
from dispatcher.handover.protocol import Told
from dispatcher.handover.version import K, Rescale


def hearers(phase: Phase[K]) -> frozenset[int]:
    """Who is told of watermarks: those that apply records, and old owners that have not given all."""
    match phase:
        case Giving(rescale=rescale, arrivals=arrivals) | Given(rescale=rescale, arrivals=arrivals):
            return rescale.next.owning | (rescale.receivers.keys() - arrivals.done)
        case _:
            return version_of(phase).owning


def told_now(here: Here, phase: Phase[K], told: Told) -> tuple[Told, list[Effect[K]]]:
    """What the operators are told of event time: of the keys from each giver by themselves, and of the others."""
    behind: frozenset[K] = frozenset()
    effects: list[Effect[K]] = []
    if isinstance(phase, Settled | Giving | Given | Acknowledged):
        for giver, keys in sorted(phase.arrivals.received.items()):
            behind |= keys
            time = event_time(times_of(here, phase.arrivals, giver))
            if time is not None and _is_news(told, giver, time):
                told = {**told, giver: time}
                effects.append(AdvanceOnly(time, keys))
    time = event_time(here.clock.times)
    if time is not None and _is_news(told, None, time):
        told = {**told, None: time}
        effects.append(Advance(time, behind))
    return told, effects


def _is_news(told: Told, group: int | None, time: int) -> bool:
    return time > told.get(group, time - 1)


def times_of(here: Here, arrivals: Arrivals[K], giver: int) -> Times:
    """Of the keys from `giver`: what it says, and of those who have nothing older on their way, what they say."""
    senders = frozenset(here.clock.heard)
    if here.rules.buffers_time:
        senders = frozenset(origin for origin, of in arrivals.flushed if of == giver)
    return here.clock.since(arrivals.times[giver], senders)


def relays(here: Here, phase: Phase[K], origin: int, watermark: Watermark) -> Outcomes[K]:
    """Rule 3, for event time: it is held back while records are held, and then goes behind what was forwarded.

    What an origin says after its FLUSH says nothing of the records that go past this unit.
    """
    match phase:
        case Giving(rescale=rescale, held=held) if not held or not here.rules.holds_time:
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
