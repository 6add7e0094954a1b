"""The protocols that can be simulated, and their variants: builds with a rule left out."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from dispatcher.handover.effect import Effect
from dispatcher.handover.event import Event
from dispatcher.handover.ordered.protocol import ordered
from dispatcher.handover.ordered.rules import Rules
from dispatcher.handover.step import step
from dispatcher.handover.unit import started

Step = Callable[[Any, Event[int]], tuple[Any, tuple[Effect[int], ...]]]


@dataclass(frozen=True, slots=True)
class Machine:
    """A protocol as the simulator sees it: how a unit of it starts, and steps. The state is its own business."""

    started: Callable[..., Any]
    step: Step


class Unknown(ValueError):
    """There is no such protocol or variant; `known` are those there are."""

    def __init__(self, what: str, name: str, known: tuple[str, ...]) -> None:
        self.what = what
        self.name = name
        self.known = known
        super().__init__(f"there is no {what} {name!r}; there is {', '.join(known)}")


def _ordered(rules: Rules) -> Machine:
    return Machine(partial(started, ordered(rules)), step)


ORDERED: Final[Mapping[str, Rules]] = {
    "without-rule-2": Rules(awaits_done=False),
    "without-rule-3": Rules(holds=False),
    "without-rule-3-for-time": Rules(holds_time=False),
    "without-rule-4": Rules(flushes_last=False),
    "without-rule-5": Rules(buffers=False),
    "without-rule-5-own": Rules(buffers_own=False),
    "without-rule-5-early": Rules(buffers_early=False),
    "without-rule-5-for-time": Rules(buffers_time=False),
    "without-rule-6": Rules(hears_early=False),
    "without-rule-7": Rules(acknowledges_last=False),
    "without-rule-9": Rules(needs_credit=False),
    "without-source-drain": Rules(drains_sources=False),
}


def machine(protocol: str, variant: str | None = None) -> Machine:
    """Raises `Unknown`."""
    if protocol != "ordered":
        raise Unknown("protocol", protocol, ("ordered",))
    if variant is None:
        return _ordered(Rules())
    if variant not in ORDERED:
        raise Unknown("variant", variant, tuple(ORDERED))
    return _ordered(ORDERED[variant])
