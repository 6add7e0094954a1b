from dataclasses import dataclass, field
from typing import Any, Generic

from dispatcher.handover.announcement import Digests
from dispatcher.handover.clock import Clock, Times, event_time
from dispatcher.handover.ledger import CREDIT_BYTES, Ledger
from dispatcher.handover.links import Links
from dispatcher.handover.protocol import P, Protocol, Told
from dispatcher.handover.rules import Here
from dispatcher.handover.sources import Sources
from dispatcher.handover.version import K, Version


@dataclass(frozen=True, slots=True)
class Unit(Generic[K, P]):
    """The whole state of a unit in one execution of its job. Use `started`."""

    protocol: Protocol[K, P]
    here: Here[Any]
    execution: int
    phase: P
    ledger: Ledger[K]
    links: Links = field(default_factory=Links)
    sources: Sources = field(default_factory=Sources)
    told: Told = field(default_factory=dict)
    digests: Digests = field(default_factory=dict)
    renumbered: Version[K] | None = None
    """The version that its frames name until COMPLETE: by the new number, others may not know it yet."""


def started(
    protocol: Protocol[K, P],
    unit: int,
    execution: int,
    version: Version[K],
    *,
    credit_bytes: int = CREDIT_BYTES,
    times: Times | None = None,
) -> Unit[K, P]:
    """Rule 8: a new unit starts with the version before the one that it is for.

    `times`: event time of each source partition where the state comes from, as it was when that was sealed.
    """
    here = Here(unit, protocol.rules, Clock(times or {}))
    time = event_time(here.clock.floor)
    told: Told = {} if time is None else {None: time}
    digests = {version.number: version.digest}
    phase = protocol.settled(version)
    return Unit(protocol, here, execution, phase, Ledger(credit_bytes), told=told, digests=digests)
