"""Event time: every unit that stays is told, and those that join are told what was said before them.

A watermark goes when everything older is applied (`drained_time`), so it is true whoever tells it, and whenever.
"""

from dispatcher.handover.controller.phase import Moving, Phase, version_of
from dispatcher.handover.controller.rules import Here, distributors, joining
from dispatcher.handover.message import Watermark
from dispatcher.handover.outcome import Outcomes, Post
from dispatcher.handover.version import K, Rescale


def hearers(phase: Phase[K]) -> frozenset[int]:
    """Not those that leave: nothing is to come to them behind SHUTDOWN and FINAL but their own credit."""
    return version_of(phase).units


def time_so_far(here: Here, rescale: Rescale[K]) -> Outcomes[K]:
    """For the units that join, from the distributors that were there before.

    Of others nothing else may ever come, and so a word of theirs when the unit has left again.
    """
    if here.unit not in distributors(here, rescale) - joining(rescale):
        return ()
    return tuple(
        Post(unit, Watermark(source, time))
        for unit in sorted(joining(rescale))
        for source, time in here.clock.times.items()
    )


def relays(here: Here, phase: Phase[K], origin: int, watermark: Watermark) -> Outcomes[K]:
    """A unit that joins does not tell the others, nor itself, as long as it goes by the old mapping."""
    match phase:
        case Moving(rescale=rescale) if origin in joining(rescale) and here.unit not in joining(rescale):
            return tuple(Post(unit, watermark) for unit in sorted(joining(rescale)))
        case _:
            return ()
