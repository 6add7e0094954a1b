"""How the jobs of a fragment hand its state over in a rescale: asked for when a plan is applied.

The service keeps it with the rescale for the appliers to read, and does nothing with it itself.
"""

from dataclasses import dataclass
from enum import StrEnum


class Protocol(StrEnum):
    ORDERED = "ordered"
    ICADD = "icadd"
    CONTROLLER = "controller"
    STOP_START = "stop-start"


class Rounds(StrEnum):
    """How many vnodes move at a time: all, at most one for each pair of units, or `parallel` of them."""

    ALL = "all"
    MATCHING = "matching"
    PARALLEL = "parallel"


class Order(StrEnum):
    HOTTEST_FIRST = "hottest-first"
    HOTTEST_LAST = "hottest-last"


@dataclass(frozen=True, slots=True)
class Pacing:
    """`parallel` is there with `Rounds.PARALLEL` alone; without an `order` the applier chooses."""

    rounds: Rounds
    parallel: int | None = None
    order: Order | None = None


@dataclass(frozen=True, slots=True)
class Handover:
    protocol: Protocol
    pacing: Pacing | None = None
