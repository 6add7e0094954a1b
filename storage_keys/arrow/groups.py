"""Strings and binaries in groups of 8 bytes and a marker (`storage_keys.groups`), in many rows at once."""

from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from storage_keys.arrow.span import PADDING, Bytes, Places, Rows, Spans, classes, windows

_GROUP: Final = 8
_FRAME: Final = 9
"""A group and its marker; as a marker: more follows."""
_USED: Final = np.array([(1 << 8 * used) - 1 for used in range(_GROUP)] + 2 * [(1 << 64) - 1], "<u8")
"""By the marker: those bytes of a group, as a word, that are not padding."""
_STEPS: Final = 32
"""Groups that are read of all rows at once; of longer values the rest is read row by row."""


@dataclass(frozen=True, slots=True)
class Grouped:
    """A tag, then bytes in groups of 8 (`storage_keys.groups`), flipped where the column is descending."""

    tag: int
    spans: Spans
    flipped: bool

    @property
    def widths(self) -> Places:
        return 2 + _FRAME * self._counts()

    def write(self, out: Bytes, at: Places) -> None:
        for count, rows in classes(self._counts()):
            places = at[rows]
            windows(out, 2 + _FRAME * count)[places] = self._cells(count, rows, len(places))

    def _counts(self) -> Places:
        return (self.spans.lengths + (_GROUP - 1)) >> 3

    def _cells(self, count: int, rows: Rows, row_count: int) -> npt.NDArray[np.void]:
        """The cells of the rows that have `count` groups."""
        width = 2 + _FRAME * count
        tag = 255 - self.tag if self.flipped else self.tag
        cells = bytearray(bytes((tag, count > 0)) + (b"\0" * _GROUP + bytes((_FRAME,))) * count) * row_count
        if count:
            starts, lengths = self.spans.starts[rows], self.spans.lengths[rows]
            groups = windows(self.spans.data, _GROUP * count)[starts].view("<u8").reshape(-1, count)
            used = lengths - _GROUP * (count - 1)
            groups[:, -1] &= _USED[used]
            for at in range(count):
                # An assignment of both axes at once would go along the short one.
                np.ndarray(row_count, "<u8", cells, 2 + _FRAME * at, (width,))[...] = groups[:, at]
            np.ndarray(row_count, "u1", cells, width - 1, (width,))[...] = used
        found = np.frombuffer(cells, np.uint8)
        if self.flipped:
            np.invert(found, found)
        return found.view(f"V{width}")


@dataclass(frozen=True, slots=True)
class Groups:
    """What was found from the places on: `counts` groups, of whose last one `used` bytes; where they end."""

    counts: Places
    used: Places
    ends: Places
    good: npt.NDArray[np.bool_]

    def joined(self, data: Bytes, at: Places) -> Spans:
        """The bytes of the groups that begin at `at`, without their markers."""
        room = _GROUP * self.counts
        starts = np.cumsum(room) - room
        out = np.zeros(int(room.sum()) + PADDING, np.uint8)
        for count, rows in classes(self.counts):
            if count:
                framed = windows(data, _FRAME * count)[at[rows] + 1].view(np.uint8)
                groups = framed.reshape(-1, count, _FRAME)[:, :, :_GROUP].reshape(-1, _GROUP * count)
                windows(out, _GROUP * count)[starts[rows]] = groups.view(f"V{_GROUP * count}")[:, 0]
        return Spans(out, starts, np.maximum(room - _GROUP + self.used, 0))


def groups_at(data: Bytes, at: Places, end: Places) -> Groups:
    """Find the groups of each payload that begins at `at[i]`, and look at nothing beyond `end[i]`."""
    first = data[at]
    found = Groups(
        np.zeros(len(at), np.int64), np.zeros(len(at), np.int64), at + 1, (first <= 1) & (at < end)
    )
    rows = np.flatnonzero((first == 1) & found.good)
    words = windows(data, _GROUP, "<u8")
    for step in range(_STEPS):
        if not len(rows):
            return found
        places = found.ends[rows]
        markers = data[places + _GROUP]
        good = (places + _FRAME <= end[rows]) & (markers >= 1) & (markers <= _FRAME)
        good &= words[places] & ~_USED[np.minimum(markers, _FRAME)] == 0
        found.good[rows] = good
        found.counts[rows] = step + 1
        found.used[rows] = markers
        found.ends[rows] = places + _FRAME
        rows = rows[good & (markers == _FRAME)]
    for row in rows.tolist():
        _find_rest(found, data, row, int(end[row]))
    return found


def _find_rest(found: Groups, data: Bytes, row: int, end: int) -> None:
    place = int(found.ends[row])
    markers = data[place + _GROUP : end : _FRAME]
    others = np.flatnonzero(markers != _FRAME)
    if not len(others):
        found.good[row] = False
        return
    more, marker = int(others[0]), int(markers[others[0]])
    last = data[place + _FRAME * more :][:_GROUP]
    found.good[row] = marker >= 1 and not last[marker:].any() and marker < _FRAME
    found.counts[row] += more + 1
    found.used[row] = marker
    found.ends[row] = place + _FRAME * (more + 1)
