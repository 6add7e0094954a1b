"""The runs that stand for all: each topology, with crashes, overlap, moving sources and a credit of one in a third."""

from dispatcher.handover.simulator.options import FRAMES, Options

TOPOLOGIES = ((2, 3), (1, 2), (3, 2), (3, 3), (2, 2), (3, 5), (5, 2))


def options(seed: int, variant: str | None = None, *, protocol: str = "ordered") -> Options:
    """A seed's own: every combination comes once in 567 seeds."""
    before, after = TOPOLOGIES[seed % 7]
    return Options(
        protocol=protocol,
        units_before=before,
        units_after=after,
        remap=before == after,
        crash=seed // 7 % 3 == 0,
        overlap=seed // 21 % 3 == 0,
        moving_sources=seed // 63 % 3 == 0,
        credit_frames=1 if seed // 189 % 3 == 0 else FRAMES,
        variant=variant,
    )
