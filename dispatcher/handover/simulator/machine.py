"""The protocols that can be simulated, and their variants: builds with a rule left out, or without a mend."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from dispatcher.handover.controller.protocol import controller
from dispatcher.handover.controller.rules import Rules as Controller
from dispatcher.handover.effect import Effect
from dispatcher.handover.event import Event
from dispatcher.handover.icadd.protocol import icadd
from dispatcher.handover.icadd.rules import Rules as Icadd
from dispatcher.handover.ordered.protocol import ordered
from dispatcher.handover.ordered.rules import Rules as Ordered
from dispatcher.handover.protocol import Protocol
from dispatcher.handover.rules import Rules
from dispatcher.handover.step import step
from dispatcher.handover.unit import started

Step = Callable[[Any, Event[int]], tuple[Any, tuple[Effect[int], ...]]]


@dataclass(frozen=True, slots=True)
class Machine:
    """A protocol as the simulator sees it: how a unit of it starts, and steps. The state is its own business."""

    started: Callable[..., Any]
    step: Step
    family: "Family"
    rules: Rules


@dataclass(frozen=True, slots=True)
class Family:
    """A protocol, and the rules of each variant.

    Where it does not keep order, a break of it is counted. `by_key`: there are keys that nobody has state of yet.
    """

    build: Callable[[Any], Protocol[Any, Any]]
    rules: Rules
    variants: Mapping[str, Rules]
    keeps_order: bool = True
    by_key: bool = False


FAMILIES: Final[Mapping[str, Family]] = {
    "ordered": Family(
        ordered,
        Ordered(),
        {
            "without-rule-2": Ordered(awaits_done=False),
            "without-rule-3": Ordered(holds=False),
            "without-rule-3-for-time": Ordered(holds_time=False),
            "without-rule-4": Ordered(flushes_last=False),
            "without-rule-5": Ordered(buffers=False),
            "without-rule-5-own": Ordered(buffers_own=False),
            "without-rule-5-early": Ordered(buffers_early=False),
            "without-rule-5-for-time": Ordered(buffers_time=False),
            "without-rule-6": Ordered(hears_early=False),
            "without-rule-7": Ordered(acknowledges_last=False),
            "without-rule-9": Ordered(needs_credit=False),
            "without-rounds": Ordered(paces=False),
            "without-source-drain": Ordered(drains_sources=False),
        },
    ),
    "icadd": Family(
        icadd,
        Icadd(),
        {
            "as-written": Icadd(takes_from_old_owner=False, whitelists_taken=False, leaves_unmoved=False),
            # What a unit sends to itself counts as passed downstream: then H has no effect.
            "as-written-self-send-passes": Icadd(takes_from_old_owner=False, whitelists_taken=False),
            "without-mend-a": Icadd(takes_from_old_owner=False),
            "exit-on-all-done": Icadd(relays_until_complete=False),
            "keep-acquired-in-whitelist": Icadd(leaves_received=False),
            "new-unit-normal": Icadd(new_units_collect=False),
            "without-mend-h": Icadd(leaves_unmoved=False),
            "without-flush": Icadd(awaits_flushes=False),
            "non-fifo": Icadd(one_stream=False),
        },
        keeps_order=False,
        by_key=True,
    ),
    "controller": Family(
        controller,
        Controller(),
        {
            "as-written": Controller(
                holds_all=False,
                first_copy=False,
                unites=False,
                answers=False,
                consults_giver=False,
                names_ended=False,
            ),
            "without-mend-a": Controller(hears_early=False),
            "without-mend-b": Controller(holds_all=False),
            "without-mend-c": Controller(copies_everywhere=False),
            "without-mend-d": Controller(first_copy=False),
            "without-mend-e": Controller(unites=False),
            "without-mend-f": Controller(answers=False),
            "without-mend-g": Controller(consults_giver=False),
            "without-mend-h": Controller(awaits_done=False),
            "without-mend-i": Controller(names_ended=False),
            "without-credit": Controller(needs_credit=False),
            "without-source-drain": Controller(drains_sources=False),
        },
        by_key=True,
    ),
}


class Unknown(ValueError):
    """There is no such protocol or variant; `known` are those there are."""

    def __init__(self, what: str, name: str, known: tuple[str, ...]) -> None:
        self.what = what
        self.name = name
        self.known = known
        super().__init__(f"there is no {what} {name!r}; there is {', '.join(known)}")


def machine(protocol: str, variant: str | None = None, **parameters: Any) -> Machine:
    """`parameters` are of the protocol's rules. Raises `Unknown`."""
    family = FAMILIES.get(protocol)
    if family is None:
        raise Unknown("protocol", protocol, tuple(FAMILIES))
    if variant is not None and variant not in family.variants:
        raise Unknown("variant", variant, tuple(family.variants))
    rules = family.rules if variant is None else family.variants[variant]
    rules = replace(rules, **parameters)
    return Machine(partial(started, family.build(rules)), step, family, rules)
