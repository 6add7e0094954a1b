from dataclasses import dataclass, field
from typing import Generic, TypeVar

from dispatcher.handover.clock import Clock


@dataclass(frozen=True, slots=True)
class Rules:
    """What can be left out of any protocol, in the mutation check of the simulator alone."""

    needs_credit: bool = True
    """A distributor without credit pauses its sources; left out, direct batches need none."""
    drains_sources: bool = True
    """A source partition moves when all that was read from it is applied."""
    one_stream: bool = True
    """State, relayed records and own records go from one unit to another on one stream; else on three."""


R = TypeVar("R", bound=Rules)


@dataclass(frozen=True, slots=True)
class Here(Generic[R]):
    """What a unit's rules know of it beside its phase."""

    unit: int
    rules: R
    clock: Clock = field(default_factory=Clock)
