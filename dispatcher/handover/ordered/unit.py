from dataclasses import dataclass, field
from typing import Generic

from dispatcher.handover.clock import Clock, Times, event_time
from dispatcher.handover.ledger import CREDIT_BYTES, Ledger
from dispatcher.handover.links import Links
from dispatcher.handover.ordered.event_time import Told
from dispatcher.handover.ordered.outcome import Here
from dispatcher.handover.ordered.phase import Phase, Settled
from dispatcher.handover.ordered.rules import ALL, Rules
from dispatcher.handover.sources import Sources
from dispatcher.handover.version import K, Version


@dataclass(frozen=True, slots=True)
class Unit(Generic[K]):
    """The whole state of a unit in one execution of its job. Use `started`."""

    here: Here
    execution: int
    phase: Phase[K]
    ledger: Ledger[K]
    links: Links = field(default_factory=Links)
    sources: Sources = field(default_factory=Sources)
    told: Told = field(default_factory=dict)


def started(
    unit: int,
    execution: int,
    version: Version[K],
    *,
    credit_bytes: int = CREDIT_BYTES,
    times: Times | None = None,
    rules: Rules = ALL,
) -> Unit[K]:
    """Rule 8: a new unit starts with the version before the one that it is for.

    `times`: event time of each source partition where the state comes from, as it was when that was sealed.
    """
    here = Here(unit, rules, Clock(times or {}))
    time = event_time(here.clock.floor)
    told: Told = {} if time is None else {None: time}
    return Unit(here, execution, Settled(version), Ledger(credit_bytes), told=told)
