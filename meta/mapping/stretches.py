"""Stretches of adjacent vnodes, as two columns: first vnodes and lengths."""

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

# Both index the end of an array by slot, where there is an entry for each.
WAITING = -1
OUTSIDE = -2


def stretches(values: Ids) -> tuple[Ids, Ids]:
    """First index and length of each run of equal values, of which there is at least one."""
    bounds = np.concatenate(([0], np.flatnonzero(values[1:] != values[:-1]) + 1, [len(values)]))
    return bounds[:-1], bounds[1:] - bounds[:-1]


def members(firsts: Ids, lengths: Ids) -> Ids:
    """All vnodes of these stretches."""
    starts = np.cumsum(lengths) - lengths
    vnodes: Ids = np.arange(int(lengths.sum())) + np.repeat(firsts - starts, lengths)
    return vnodes
