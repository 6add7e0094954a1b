"""A data file as a source of a merge: it is opened, and a row group of it read, when the merge is there."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dispatcher.table.arrays import Flags, Numbers
from dispatcher.table.file import DELETED, PREFIX, STORAGE_KEY, DataFile, Kind
from dispatcher.table.files import open_file
from dispatcher.table.merge import SortedRows
from storage_keys.range import PrefixRun, prefix_bytes, table_bytes
from storage_keys.vnode import PREFIX_COUNT

_HELD_BYTES: Final = 128 << 20
"""What the batches of one merge may have, if rows are as large as in their group."""

_BATCH_BYTES_MIN, _BATCH_BYTES_MAX = 1 << 18, 16 << 20


ALL_PREFIXES: Final = (PrefixRun(0, PREFIX_COUNT - 1),)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rows to read of a table's files, by runs of prefixes, and the columns, in the types to read them as."""

    table_id: int
    schema: pa.Schema
    runs: tuple[PrefixRun, ...]
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    def touches(self, least: Numbers, greatest: Numbers) -> Flags:
        """Whether any prefix from `least` to `greatest` is in a run."""
        return _Runs(self.runs).touched(least, greatest)


class _Runs:
    """Runs of prefixes, to look up many prefixes at a time."""

    def __init__(self, runs: Iterable[PrefixRun]) -> None:
        ordered = sorted((run.first, run.last) for run in runs)
        self._lasts = np.array([last for _, last in ordered], dtype=np.int64)
        # Behind the last run there is one that nothing touches.
        self._firsts = np.array([*(first for first, _ in ordered), PREFIX_COUNT], dtype=np.int64)

    def touched(self, least: Numbers, greatest: Numbers) -> Flags:
        found: Flags = self._firsts[np.searchsorted(self._lasts, least)] <= greatest
        return found


def overlap(files: Sequence[DataFile]) -> int:
    """How many of the files a prefix has at most, each of which has rows from its first prefix to its last."""
    begun = np.bincount([file.first_prefix for file in files], minlength=PREFIX_COUNT + 1)
    ended = np.bincount([file.last_prefix + 1 for file in files], minlength=PREFIX_COUNT + 1)
    return int(np.cumsum(begun - ended).max())


def sorted_rows(files: Sequence[DataFile], selection: Selection) -> list[SortedRows]:
    """A source for each file. Its batches have the schema's columns, `_storage_key`, and `_deleted` in changes."""
    # A merge takes two batches of a source that begins.
    batches = 2 * max(overlap(files), 1)
    batch_bytes = min(max(_HELD_BYTES // batches, _BATCH_BYTES_MIN), _BATCH_BYTES_MAX)
    table, runs = table_bytes(selection.table_id), _Runs(selection.runs)
    return [
        SortedRows(
            batches=_batches(file, selection, runs, batch_bytes),
            sequence=file.sequence,
            kind=file.kind,
            starts_at=table + prefix_bytes(file.first_prefix),
        )
        for file in files
    ]


def _batches(file: DataFile, selection: Selection, runs: _Runs, batch_bytes: int) -> Iterator[pa.RecordBatch]:
    schema = _with_own_columns(selection.schema, file.kind)
    names = list(dict.fromkeys((*schema.names, PREFIX)))
    with open_file(file.path, selection.storage_options) as opened, pq.ParquetFile(opened) as parquet:
        for at in range(parquet.num_row_groups):
            group = parquet.metadata.row_group(at)
            if not runs.touched(*_ends(group)).any():
                continue
            rows = max(1, min(group.num_rows, group.num_rows * batch_bytes // max(group.total_byte_size, 1)))
            for batch in parquet.iter_batches(rows, [at], names):
                prefixes = batch[PREFIX].to_numpy()
                inside = batch.filter(pa.array(runs.touched(prefixes, prefixes)))
                yield inside.select(schema.names).cast(schema)


def _with_own_columns(schema: pa.Schema, kind: Kind) -> pa.Schema:
    own = [pa.field(STORAGE_KEY, pa.binary())]
    if kind is Kind.CHANGES:
        own.append(pa.field(DELETED, pa.bool_()))
    return pa.schema([*schema, *(field for field in own if field.name not in schema.names)])


def _ends(group: pq.RowGroupMetaData) -> tuple[Numbers, Numbers]:
    """The least and the greatest prefix in a row group."""
    columns = (group.column(at) for at in range(group.num_columns))
    found = next(column.statistics for column in columns if column.path_in_schema == PREFIX)
    least, greatest = (
        (found.min, found.max) if found is not None and found.has_min_max else (0, PREFIX_COUNT - 1)
    )
    return np.array([least]), np.array([greatest])
