"""What a protocol adds to the unit that all have in common, which is in `unit` and `step`."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from dispatcher.handover.effect import Effect
from dispatcher.handover.event import Obeyed
from dispatcher.handover.message import Acquire, Control, Path, Records, Watermark
from dispatcher.handover.outcome import Heard, Outcomes
from dispatcher.handover.rules import Here, Rules
from dispatcher.handover.version import K, Version

P = TypeVar("P")
"""The phases of a protocol; `phase.Leaving` and `phase.Gone` are among them."""

Told = Mapping[int | None, int]
"""The event time that the operators were told last: None for that of most keys, a giver for the keys from there."""

Transition = tuple[P, Outcomes[K]]


@dataclass(frozen=True, slots=True)
class Protocol(Generic[K, P]):
    """Pure functions of a unit's phase. Each may raise `HandoverError`.

    `settled`: the phase of a unit that goes by a version. `version_of`: by which it goes. `route`: the unit to which an
    own record goes. `take`: records have come, those of the unit itself included. `hear`: a word of another unit.
    `obey`: of the coordinator, or the answer of the operators. `hearers`: who is told of a watermark. `relays`: what
    else a watermark leads to. `told`: what the operators are to be told of event time.

    Where `drains_time`, a watermark waits until every older record of its partition is applied.
    """

    rules: Rules
    settled: Callable[[Version[K]], P]
    version_of: Callable[[P], Version[K]]
    route: Callable[[Here[Any], P, K], tuple[int, Path]]
    take: Callable[[Here[Any], P, Heard[K], Records[K]], Transition[P, K]]
    hear: Callable[[Here[Any], P, Heard[K], Acquire[K] | Control], Transition[P, K]]
    obey: Callable[[Here[Any], P, Obeyed[K]], Transition[P, K]]
    hearers: Callable[[P], frozenset[int]]
    relays: Callable[[Here[Any], P, int, Watermark], Outcomes[K]]
    told: Callable[[Here[Any], P, Told], tuple[Told, list[Effect[K]]]]
    drains_time: bool = False
