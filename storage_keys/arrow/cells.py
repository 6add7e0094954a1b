"""The bytes of one column, or of a whole key, in many rows: how many there are, then written where they go."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from storage_keys.arrow.span import Bytes, Places, Spans, windows


class Cells(Protocol):
    """One cell for each row."""

    @property
    def widths(self) -> int | Places:
        """Bytes in each row's cell; a single number where all are alike."""

    def write(self, out: Bytes, at: Places) -> None:
        """Write each row's cell, its first byte at `at[i]` of `out`."""


@dataclass(frozen=True, slots=True)
class Packed:
    """Cells of one layout: the values of each field as they stand in memory under its dtype."""

    row_count: int
    fields: tuple[tuple[str, int | npt.NDArray[Any]], ...]

    @property
    def widths(self) -> int:
        return sum(np.dtype(dtype).itemsize for dtype, _ in self.fields)

    def rows(self) -> Bytes:
        """All cells, one after another."""
        layout = np.dtype([(f"f{at}", dtype) for at, (dtype, _) in enumerate(self.fields)])
        model = np.zeros((), layout)
        varying = []
        for at, (_, values) in enumerate(self.fields):
            if isinstance(values, int):
                model[f"f{at}"] = values
            else:
                varying.append((f"f{at}", values))
        # Repeating bytes is many times faster than assigning a constant to a field.
        cells = bytearray(model.tobytes()) * self.row_count
        table = np.frombuffer(cells, layout) if cells else np.empty(0, layout)
        for name, values in varying:
            table[name] = values
        return np.frombuffer(cells, np.uint8)

    def write(self, out: Bytes, at: Places) -> None:
        if self.row_count and self.widths:
            windows(out, self.widths)[at] = self.rows().view(f"V{self.widths}")


@dataclass(frozen=True, slots=True)
class Copied:
    """Cells that are spans of bytes as they are."""

    spans: Spans

    @property
    def widths(self) -> Places:
        return self.spans.lengths

    def write(self, out: Bytes, at: Places) -> None:
        self.spans.write(out, at)


@dataclass(frozen=True, slots=True)
class Nullable:
    """The null tag alone, or the cell of a value; `present` has cells for the valid rows only."""

    null_tag: int
    valid: npt.NDArray[np.bool_]
    present: Cells

    @property
    def widths(self) -> Places:
        found = np.ones(len(self.valid), np.int64)
        found[self.valid] = self.present.widths
        return found

    def write(self, out: Bytes, at: Places) -> None:
        out[at[~self.valid]] = self.null_tag
        self.present.write(out, at[self.valid])


@dataclass(frozen=True, slots=True)
class Joined:
    """The cells of all parts, one part after another; `joined` makes them."""

    parts: tuple[Cells, ...]

    @property
    def widths(self) -> Places:
        widths: int | Places = 0
        for part in self.parts:
            widths = widths + part.widths
        assert not isinstance(widths, int), "joined() makes one part of these"
        return widths

    def write(self, out: Bytes, at: Places) -> None:
        for part in self.parts:
            part.write(out, at)
            at = at + part.widths


def joined(parts: Iterable[Cells]) -> Cells:
    """The cells of all parts, at least one, with neighbours of fixed width as one."""
    found: list[Cells] = []
    for part in parts:
        if found and isinstance(part, Packed) and isinstance(found[-1], Packed):
            found[-1] = Packed(part.row_count, found[-1].fields + part.fields)
        else:
            found.append(part)
    return found[0] if len(found) == 1 else Joined(tuple(found))


def laid_out(cells: Cells, row_count: int) -> tuple[Bytes, Places]:
    """All cells, one after another, and the row_count + 1 bounds between them."""
    if isinstance(cells, Packed):
        return cells.rows(), cells.widths * np.arange(row_count + 1)
    bounds = np.zeros(row_count + 1, np.int64)
    np.cumsum(cells.widths, out=bounds[1:])
    out = np.empty(int(bounds[-1]), np.uint8)
    cells.write(out, bounds[:-1])
    return out, bounds
