from dataclasses import dataclass
from typing import Final

from dispatcher.handover.pacing import Order
from dispatcher.handover.region.rules import Rules

FRAMES: Final = 64
"""The credit where none is asked for; 1 is the least."""
OPERATORS_MAX: Final = 8
"""In a region, where copies of a record take all ways."""


UNPACED: Final = {
    "icadd": "there all vnodes move at once",
    "controller": "there --keys-at-once says how many vnodes wait at each unit",
}
"""The protocols without rounds, and what they have instead."""


class Unsuitable(ValueError):
    """Options that do not go together."""


@dataclass(frozen=True, slots=True)
class Options:
    """What all runs of a simulation have in common.

    The first rescale goes from `units_before` to `units_after` units. `credit_frames`: of each unit to each, for
    ordinary batches and again for direct ones. `overlap`: more rescales, asked for while others are under way, and some
    of those aborted. `moving_sources`: source partitions change their unit at any time. `crash`: units are lost and
    deadlines pass. A batch has up to `batch_records`, and is as large. Of `ordered` alone: `parallel` and, with it,
    `order`, as in `Pacing`, with loads that are drawn. `operators` of each unit: a region that is drawn, or of
    `controller`, one behind the other: each vnode's state is with some of them, and may end. `rules_inside`: of the
    region.

    Of `controller` alone: `distributors`, how many units have sources (None: all); they stay, and are the first.
    `keys_at_once` are held at each unit. Raises `Unsuitable`.
    """

    protocol: str = "ordered"
    units_before: int = 2
    units_after: int = 3
    remap: bool = False
    records: int = 24
    vnodes: int = 4
    credit_frames: int = FRAMES
    batch_records: int = 1
    parallel: int | None = None
    order: Order | None = None
    crash: bool = False
    overlap: bool = False
    moving_sources: bool = False
    variant: str | None = None
    distributors: int | None = None
    operators: int = 1
    keys_at_once: int = 1
    rules_inside: Rules = Rules()  # noqa: RUF009 - frozen

    def __post_init__(self) -> None:
        if self.protocol != "controller" and self.parameters:
            raise Unsuitable(f"--distributors and --keys-at-once are of controller, not of {self.protocol}")
        if self.protocol != "controller" and self.operators > OPERATORS_MAX:
            raise Unsuitable(
                f"a region of {self.operators} operators is too large; ask for {OPERATORS_MAX} at most"
            )
        if (self.parallel is not None or self.order is not None) and self.protocol in UNPACED:
            raise Unsuitable(
                f"{self.protocol} has no pacing, {UNPACED[self.protocol]}; ordered takes --parallel and --hottest"
            )
        if self.order is not None and self.parallel is None:
            raise Unsuitable(
                "what is hottest goes first or last in rounds, and all vnodes move in one; give --parallel, too"
            )
        if self.first_units > min(self.units_before, self.units_after):
            raise Unsuitable(
                f"{self.distributors} distributors stay, so before and after there are at least as many units, not"
                f" {self.units_before} and {self.units_after}"
            )

    @property
    def first_units(self) -> int:
        """How many units stay, whatever happens, with all sources among them."""
        return self.distributors or 0

    @property
    def parameters(self) -> dict[str, int | None]:
        """Of the protocol."""
        if self.distributors is None and self.keys_at_once == 1:
            return {}
        return {"distributors": self.distributors, "at_once": self.keys_at_once}
