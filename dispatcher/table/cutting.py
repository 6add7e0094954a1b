"""Where a file ends: at a prefix boundary once it is large enough, and inside of a prefix that alone is too large."""

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from dispatcher.table.file import PREFIX

_STEPS: Final = 16
"""Prefixes are looked at together while they are below this part of the target."""


def cut(tables: Iterable[pa.Table], target_bytes: int) -> Iterator[pa.Table | None]:
    """The rows again, sorted by prefix as they came, and None wherever a file ends, which includes the end.

    A prefix of more than `target_bytes` (of Arrow) has files of its own, of about that size. Of other prefixes a file
    has whole ones, until they reach the target. Held is one prefix, and of a large one the target.
    """
    file_bytes, prefix_bytes = 0.0, 0.0
    prefix, large = -1, False
    held: list[pa.Table] = []
    for table in tables:
        row_bytes = max(table.nbytes / table.num_rows, 1)
        for stretch, first, last in _stretches(table, target_bytes / _STEPS / row_bytes):
            if first != prefix:
                yield from held
                held, file_bytes = [], file_bytes + prefix_bytes
                if large or file_bytes >= target_bytes:
                    yield None
                    file_bytes = 0
                prefix_bytes, large = 0, False
            prefix = last
            held.append(stretch)
            prefix_bytes += stretch.num_rows * row_bytes
            if prefix_bytes > target_bytes and first == last:
                if file_bytes:
                    # Its first rows have waited, so that they are not in the file of those before.
                    yield None
                    file_bytes = 0
                large = True
                *full, rest = _pieces(pa.concat_tables(held), target_bytes / row_bytes)
                for piece in full:
                    yield piece
                    yield None
                held = [rest]
    if held:
        yield from held
        yield None


def _stretches(table: pa.Table, rows_max: float) -> Iterator[tuple[pa.Table, int, int]]:
    """Whole prefixes of the table, and their first and last; alone are large ones, and those that may go on outside."""
    prefixes = table[PREFIX].to_numpy()
    starts = np.flatnonzero(np.diff(prefixes, prepend=-1))
    at, end = 0, len(starts)
    while at < end:
        until = int(np.searchsorted(starts, starts[at] + rows_max, "right")) - 1
        until = at + 1 if at == 0 else max(min(until, end - 1), at + 1)
        first_row = int(starts[at])
        last_row = int(starts[until]) if until < end else table.num_rows
        rows = table.slice(first_row, last_row - first_row)
        yield rows, int(prefixes[first_row]), int(prefixes[last_row - 1])
        at = until


def _pieces(table: pa.Table, rows_max: float) -> Iterator[pa.Table]:
    """The table in pieces of so many rows, the last of which is not empty."""
    rows = max(int(rows_max), 1)
    for start in range(0, table.num_rows, rows):
        yield table.slice(start, rows)
