"""The runs that stand for all: each topology, with crashes, overlap, moving sources, a credit of one in a third each;
a third each with one vnode at a time, with two, and with all, in any order; half with batches of up to three records.
"""

from dispatcher.handover.pacing import Order
from dispatcher.handover.simulator.options import FRAMES, Options

TOPOLOGIES = ((2, 3), (1, 2), (3, 2), (3, 3), (2, 2), (3, 5), (5, 2))
PARALLEL = (1, None, 2)
ORDERS = (None, *Order)


def options(seed: int, variant: str | None = None, *, protocol: str = "ordered") -> Options:
    """A seed's own: every combination but that of orders comes once in 3,402 seeds. `ordered` alone is paced."""
    before, after = TOPOLOGIES[seed % 7]
    return Options(
        protocol=protocol,
        units_before=before,
        units_after=after,
        remap=before == after,
        parallel=PARALLEL[seed // 7 % 3] if protocol == "ordered" else None,
        crash=seed // 21 % 3 == 0,
        overlap=seed // 63 % 3 == 0,
        moving_sources=seed // 189 % 3 == 0,
        credit_frames=1 if seed // 567 % 3 == 0 else FRAMES,
        batch_records=1 + seed % 2 * 2,
        order=ORDERS[seed // 1701 % 3],
        variant=variant,
    )
