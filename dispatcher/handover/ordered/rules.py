from dataclasses import dataclass

from dispatcher.handover import rules


@dataclass(frozen=True, slots=True)
class Rules(rules.Rules):
    """The rules of `ordered` that can be left out, all in force but in the mutation check of the simulator."""

    awaits_done: bool = True
    """2: an upgraded distributor sends to the old owner until it has seen its Done."""
    holds: bool = True
    """3: records wait while their state is being collected."""
    flushes_last: bool = True
    """4: FLUSH is the last of the old traffic."""
    buffers: bool = True
    """5: direct batches wait for FLUSHED."""
    buffers_own: bool = True
    """5: those of the new owner itself, too."""
    buffers_time: bool = True
    """5: and so what its origin says of event time."""
    buffers_early: bool = True
    """5: and so at a unit that is still on the old version."""
    hears_early: bool = True
    """6: what comes before INTENT counts."""
    holds_time: bool = True
    """3: a watermark waits while records are held."""
    acknowledges_last: bool = True
    """7: a unit acknowledges when nothing of the base version is left, and leaves on COMPLETE alone."""
    paces: bool = True
    """A key is given when its round is called."""


Here = rules.Here[Rules]
