"""Bytes of many rows in one buffer, read and written with no Python loop over the rows.

A window of `w` bytes begins at every byte of a buffer; numpy gathers and scatters windows at about 10 ns
each, whatever their width. So rows are taken by classes of equal width.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Bytes = npt.NDArray[np.uint8]
Places = npt.NDArray[np.int64]
Rows = npt.NDArray[np.int64] | slice

PADDING: Final = 32
"""Bytes that a window may reach beyond the last span."""

_ALL: Final = slice(None)
_WIDE: Final = 256
"""Spans of more bytes are moved one by one: they have as many widths as rows."""


@dataclass(frozen=True, slots=True)
class Spans:
    """`lengths[i]` bytes at `starts[i]` of `data` for each row, with at least `PADDING` more after the last."""

    data: Bytes
    starts: Places
    lengths: Places

    @classmethod
    def of(cls, column: pa.Array) -> "Spans":
        """The values of a large_binary array."""
        _, offsets, buffer = column.buffers()
        if not len(column):
            return cls(padded(np.empty(0, np.uint8)), np.empty(0, np.int64), np.empty(0, np.int64))
        bounds = np.frombuffer(offsets, np.int64, len(column) + 1, 8 * column.offset)
        first, last = int(bounds[0]), int(bounds[-1])
        body = np.frombuffer(buffer, np.uint8)[first:last] if last > first else np.empty(0, np.uint8)
        return cls(padded(body), bounds[:-1] - first, np.diff(bounds))

    def write(self, out: Bytes, at: Places) -> None:
        """Copy each row's bytes to `at[i]` of `out`."""
        wide = self.lengths > _WIDE
        for width, rows in classes(np.minimum(self.lengths, _WIDE + 1)):
            if 0 < width <= _WIDE:
                windows(out, width)[at[rows]] = windows(self.data, width)[self.starts[rows]]
        for row in np.flatnonzero(wide).tolist():
            start, place, length = int(self.starts[row]), int(at[row]), int(self.lengths[row])
            out[place : place + length] = self.data[start : start + length]


def padded(data: Bytes) -> Bytes:
    """A copy of the bytes with `PADDING` zeros after them."""
    found = np.empty(len(data) + PADDING, np.uint8)
    found[: len(data)] = data
    found[len(data) :] = 0
    return found


def windows(data: Bytes, width: int, dtype: str | None = None) -> npt.NDArray[Any]:
    """An item of `width` bytes from every byte of the buffer on; `dtype`, where given, is of that width."""
    return np.ndarray((max(len(data) - width + 1, 0),), dtype or f"V{width}", data, 0, (1,))


def classes(sizes: npt.NDArray[Any]) -> Iterator[tuple[int, Rows]]:
    """Each size, none of them negative, with the rows that have it."""
    if not len(sizes):
        return
    low, high = int(sizes.min()), int(sizes.max())
    if low == high:
        yield low, _ALL
        return
    small = sizes.astype(np.uint8 if high < 1 << 8 else np.uint16 if high < 1 << 16 else np.int64)
    # Of 8 and 16 bits a stable sort is a radix sort.
    order = np.argsort(small, kind="stable")
    counts = np.bincount(small)
    ends = np.cumsum(counts)
    for size in np.flatnonzero(counts).tolist():
        yield size, order[ends[size] - counts[size] : ends[size]]
