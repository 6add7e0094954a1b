from collections.abc import Iterable
from random import Random
from typing import Final, Protocol

from dispatcher.handover.simulator.lanes import Lane

SLOW_SHARES: Final = (0.0, 0.1, 0.4)
SLOW_UNIT_SHARES: Final = (0.0, 0.0, 0.3)
PATIENCE: Final = 12
"""How often a slow lane is passed over, at most."""


class Chooser(Protocol):
    def choose(self, lanes: list[Lane]) -> Lane | None:
        """One of the lanes, of which there is at least one; None ends the run."""


class Draw:
    """What happens next: each run has its own taste, so that rare orders of events are common in some run."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.slow_share = random.choice(SLOW_SHARES)
        self.units_slow_share = random.choice(SLOW_UNIT_SHARES)
        self.slow: dict[Lane, bool] = {}
        self.slow_units: dict[int, bool] = {}

    def choose(self, lanes: list[Lane]) -> Lane:
        """A slow one only where chance insists on it."""
        random = self.random.random
        lane = lanes[int(random() * len(lanes))]
        for _ in range(PATIENCE):
            if not self._is_slow(lane):
                return lane
            lane = lanes[int(random() * len(lanes))]
        return lane

    def _is_slow(self, lane: Lane) -> bool:
        slow = self.slow.get(lane)
        if slow is None:
            unit = lane[-1]
            slow = self.random.random() < self.slow_share or (isinstance(unit, int) and self._slow_unit(unit))
            self.slow[lane] = slow
        return slow

    def _slow_unit(self, unit: int) -> bool:
        if unit not in self.slow_units:
            self.slow_units[unit] = self.random.random() < self.units_slow_share
        return self.slow_units[unit]


class Script:
    """The lanes of an earlier run, or some of them. Those on which nothing can happen are passed over."""

    def __init__(self, lanes: Iterable[Lane]) -> None:
        self.left = iter(lanes)

    def choose(self, lanes: list[Lane]) -> Lane | None:
        return next((lane for lane in self.left if lane in lanes), None)


class Recorded:
    """A draw, and the lanes that it came to."""

    def __init__(self, draw: Chooser) -> None:
        self.draw = draw
        self.followed: list[Lane] = []

    def choose(self, lanes: list[Lane]) -> Lane | None:
        lane = self.draw.choose(lanes)
        if lane is not None:
            self.followed.append(lane)
        return lane
