from collections import deque
from collections.abc import Callable
from typing import Any, Final

Lane = tuple[Any, ...]
"""Where things happen one after the other, by kind, and by whom it is about."""

STREAM: Final = "stream"
"""(STREAM, sender, to): frames; behind that the connection, where there are several."""
ORDERS: Final = "orders"
"""(ORDERS, unit): of the coordinator."""
REPORTS: Final = "reports"
"""(REPORTS, unit): to the coordinator."""
INTERROGATION: Final = "interrogation"
"""(INTERROGATION, unit): the operators are asked for their keys, and then the unit is told."""
STATE: Final = "state"
"""(STATE, key, unit): a state that is being cut out."""
INSIDE: Final = "inside"
"""(INSIDE, source, target, unit): an edge between operators."""
ANSWER: Final = "answer"
"""(ANSWER, operator, unit): what an operator says to its distributor."""
SOURCE: Final = "source"
"""(SOURCE, name): a source partition."""


class Lanes:
    """What is under way, in order on each lane, and at any speed."""

    def __init__(self) -> None:
        self.queues: dict[Lane, deque[Any]] = {}

    def __contains__(self, lane: Lane) -> bool:
        return lane in self.queues

    def put(self, lane: Lane, thing: object) -> None:
        queue = self.queues.get(lane)
        if queue is None:
            self.queues[lane] = deque((thing,))
        else:
            queue.append(thing)

    def next(self, lane: Lane) -> Any:
        queue = self.queues[lane]
        thing = queue.popleft()
        if not queue:
            del self.queues[lane]
        return thing

    def keep(self, wanted: Callable[[Lane], bool]) -> None:
        """These lanes alone."""
        self.queues = {lane: queue for lane, queue in self.queues.items() if wanted(lane)}
