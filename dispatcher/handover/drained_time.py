"""Event time where watermarks do not go the way of records: a watermark goes when everything older is applied.

So it is true of every key at every unit, wherever the key is by then (`Protocol.drains_time`). Its price: while a unit
waits for that, its sources are paused.
"""

from dispatcher.handover.clock import event_time
from dispatcher.handover.effect import Advance, Effect
from dispatcher.handover.message import Watermark
from dispatcher.handover.outcome import Outcomes
from dispatcher.handover.protocol import Told
from dispatcher.handover.rules import Here, R
from dispatcher.handover.version import K


def relays_nothing(_here: Here[R], _phase: object, _origin: int, _watermark: Watermark) -> Outcomes[K]:
    return ()


def told_of_all(here: Here[R], _phase: object, told: Told) -> tuple[Told, list[Effect[K]]]:
    """Answer a key's state with `Retell(None)`: what is true of the others is true of it."""
    time = event_time(here.clock.times)
    if time is None or time <= told.get(None, time - 1):
        return told, []
    return {None: time}, [Advance(time, frozenset())]
