from dataclasses import dataclass
from typing import Final

from dispatcher.handover.pacing import Order

FRAMES: Final = 64
"""The credit where none is asked for; 1 is the least."""


@dataclass(frozen=True, slots=True)
class Options:
    """What all runs of a simulation have in common.

    The first rescale goes from `units_before` to `units_after` units. `credit_frames`: of each unit to each, for
    ordinary batches and again for direct ones. `overlap`: more rescales, asked for while others are under way.
    `moving_sources`: source partitions change their unit at any time. `crash`: units are lost and deadlines pass.
    `parallel`, `order`: as in `Pacing`, with loads that are drawn.
    """

    protocol: str = "ordered"
    units_before: int = 2
    units_after: int = 3
    remap: bool = False
    records: int = 24
    vnodes: int = 4
    credit_frames: int = FRAMES
    parallel: int | None = None
    order: Order | None = None
    crash: bool = False
    overlap: bool = False
    moving_sources: bool = False
    variant: str | None = None
