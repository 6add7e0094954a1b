"""Sorted rows into Parquet files. They become part of the table by a commit alone."""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.fs import DeltaStorageHandler
from pyarrow import fs

from dispatcher.table.cutting import cut
from dispatcher.table.file import PREFIX, Kind

TARGET_BYTES: Final = 128 * 1024 * 1024
"""Of a file's rows in Arrow; compressed it is smaller."""

NO_OPTIONS: Final[Mapping[str, str]] = MappingProxyType({})

# A group is what a reader can skip by its statistics; a page, by the page index, what it can skip in it.
GROUP_ROWS: Final = 65_536
_PAGE_ROWS: Final = 4_096
# A look-up reads the whole dictionary of a group for one page. Arrow's limit of 1 MiB is meant for groups of a million
# rows: in ours, columns of many values were kept as dictionaries that were larger than the values.
_DICTIONARY_BYTES: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete file, `name` relative to the table. Prefixes are those of its rows, both ends included."""

    name: str
    kind: Kind
    rows: int
    size_bytes: int
    first_prefix: int
    last_prefix: int
    written_ms: int


def write_sorted(
    tables: Iterable[pa.Table],
    root: str,
    name: str,
    kind: Kind,
    target_bytes: int,
    storage_options: Mapping[str, str] = NO_OPTIONS,
) -> tuple[WrittenFile, ...]:
    """Write rows, which come in order of storage keys, as files under the URL or path `root`.

    `name` starts the names of the files. Where it fails, none of them is left.
    """
    filesystem, folder = filesystem_of(root, storage_options)
    found: list[WrittenFile] = []
    pieces = cut(tables, target_bytes)
    with ExitStack() as undo:
        while (first := next(pieces, None)) is not None:
            own = f"{name}-{uuid4().hex}.parquet"
            undo.callback(_remove, filesystem, f"{folder}/{own}")
            found.append(_write(filesystem, folder, own, kind, _until_end(first, pieces)))
        undo.pop_all()
    return tuple(found)


def remove_files(root: str, names: Iterable[str], storage_options: Mapping[str, str] = NO_OPTIONS) -> None:
    filesystem, folder = filesystem_of(root, storage_options)
    for name in names:
        _remove(filesystem, f"{folder}/{name}")


def existing_files(
    root: str, names: Iterable[str], storage_options: Mapping[str, str] = NO_OPTIONS
) -> tuple[str, ...]:
    filesystem, folder = filesystem_of(root, storage_options)
    ordered = sorted(names)
    found = filesystem.get_file_info([f"{folder}/{name}" for name in ordered])
    return tuple(name for name, info in zip(ordered, found, strict=True) if info.type != fs.FileType.NotFound)


def missing_files(
    root: str, names: Iterable[str], storage_options: Mapping[str, str] = NO_OPTIONS
) -> set[str]:
    """By one listing at a URL, where looking for each is a request or two; on a disk a listing takes longer."""
    wanted = set(names)
    if "://" not in root:
        return wanted.difference(existing_files(root, wanted))
    filesystem, folder = filesystem_of(root, storage_options)
    return wanted.difference(info.base_name for info in filesystem.get_file_info(fs.FileSelector(folder)))


def filesystem_of(root: str, storage_options: Mapping[str, str] = NO_OPTIONS) -> tuple[fs.FileSystem, str]:
    """The file system that has the folder `root`, and the folder in it.

    URLs are opened as deltalake opens them: what the options do not say, the process's environment does.
    """
    if "://" in root:
        return _store(root, tuple(sorted(storage_options.items()))), ""
    return fs.LocalFileSystem(), root


@lru_cache(maxsize=8)
def _store(root: str, storage_options: tuple[tuple[str, str], ...]) -> fs.FileSystem:
    """Once for many files: it asks who it is, and where, before its first answer."""
    return fs.PyFileSystem(DeltaStorageHandler(root, dict(storage_options)))


def open_file(path: str, storage_options: Mapping[str, str] = NO_OPTIONS) -> pa.NativeFile:
    root, _, name = path.rpartition("/")
    filesystem, folder = filesystem_of(root, storage_options)
    return filesystem.open_input_file(f"{folder}/{name}")


def in_row_groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows in row groups; Spark's batches are smaller."""
    return _regrouped(pa.Table.from_batches([batch]) for batch in batches)


def _regrouped(tables: Iterable[pa.Table]) -> Iterator[pa.Table]:
    waiting: list[pa.Table] = []
    rows = 0
    for table in tables:
        waiting.append(table)
        rows += table.num_rows
        if rows >= GROUP_ROWS:
            whole = pa.concat_tables(waiting)
            end = rows - rows % GROUP_ROWS
            for start in range(0, end, GROUP_ROWS):
                yield whole.slice(start, GROUP_ROWS)
            waiting, rows = [whole.slice(end)], rows - end
    if rows:
        yield pa.concat_tables(waiting)


def _until_end(first: pa.Table, pieces: Iterator[pa.Table | None]) -> Iterator[pa.Table]:
    """The pieces of one file, up to the None that ends it."""
    piece: pa.Table | None = first
    while piece is not None:
        yield piece
        piece = next(pieces)


def _write(
    filesystem: fs.FileSystem, folder: str, name: str, kind: Kind, pieces: Iterator[pa.Table]
) -> WrittenFile:
    path = f"{folder}/{name}"
    groups = _regrouped(pieces)
    group = next(groups)
    rows, first_prefix, last_prefix = 0, group[PREFIX][0].as_py(), 0
    with filesystem.open_output_stream(path) as sink, _parquet(sink, group.schema) as parquet:
        while group is not None:
            parquet.write_table(group, GROUP_ROWS)
            rows += group.num_rows
            last_prefix = group[PREFIX][-1].as_py()
            group = next(groups, None)
    size_bytes = filesystem.get_file_info(path).size
    return WrittenFile(name, kind, rows, size_bytes, first_prefix, last_prefix, time.time_ns() // 1_000_000)


def _parquet(sink: pa.NativeFile, fields: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        fields,
        compression="zstd",
        write_page_index=True,
        max_rows_per_page=_PAGE_ROWS,
        dictionary_pagesize_limit=_DICTIONARY_BYTES,
        # Arrow's types would carry the session's time zone; Parquet's own are what Spark reads.
        store_schema=False,
    )


def _remove(filesystem: fs.FileSystem, path: str) -> None:
    if filesystem.get_file_info(path).type == fs.FileType.File:
        filesystem.delete_file(path)
