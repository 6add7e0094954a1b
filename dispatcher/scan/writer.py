"""Sorted rows into Parquet files, one for each partition, by the tasks of one Spark job.

A file becomes part of the table by the driver's commit alone. A task that Spark runs twice writes two
files of different names; only the name that its last run returned is committed.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs
from pyspark.sql import Column, DataFrame

from storage_keys.arrow import storage_keys
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.spark import prefix_column, quoted

PREFIX: Final = "_vnode_prefix"
STORAGE_KEY: Final = "_storage_key"

# A group is what a reader can skip by its statistics; a page, by the page index, what it can skip in it.
_GROUP_ROWS: Final = 65_536
_PAGE_ROWS: Final = 4_096


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A complete file, `name` relative to the table. Prefixes are those of its rows, both ends included."""

    name: str
    rows: int
    size_bytes: int
    first_prefix: int
    last_prefix: int
    written_ms: int


_WRITTEN: Final = (
    "name string, rows bigint, size_bytes bigint, first_prefix bigint, last_prefix bigint, written_ms bigint"
)


def write_files(rows: DataFrame, root: str, schema: KeySchema, batch: str) -> tuple[WrittenFile, ...]:
    """Write each partition that has rows, in order of storage keys, as one file under the URL or path `root`.

    `rows` has the table's own columns; `batch` starts the names of the files. Nothing is committed.
    """
    prefix = prefix_column(schema.distribution_types, [quoted(name) for name in schema.distribution])
    in_key_order = rows.withColumn(PREFIX, prefix).sortWithinPartitions(
        quoted(PREFIX), *(_ordered(column) for column in schema.columns)
    )
    return tuple(
        WrittenFile(**row.asDict())
        for row in in_key_order.mapInArrow(_task(root, schema, batch), _WRITTEN).collect()
    )


def _ordered(column: KeyColumn) -> Column:
    """The column in the order of its key bytes."""
    key, first = quoted(column.name), column.order.nulls == "first"
    if column.order.descending:
        return key.desc_nulls_first() if first else key.desc_nulls_last()
    return key.asc_nulls_first() if first else key.asc_nulls_last()


def _task(
    root: str, schema: KeySchema, batch: str
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def write_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        groups = _groups(batches)
        first = next(groups, None)
        if first is not None:
            written = _write_file(root, f"{batch}-{uuid4().hex}.parquet", schema, first, groups)
            yield pa.RecordBatch.from_pylist([asdict(written)])

    return write_partition


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows again, in row groups; Spark's batches are smaller."""
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        if batch.num_rows:
            waiting.append(batch)
            rows += batch.num_rows
        while rows >= _GROUP_ROWS:
            table = pa.Table.from_batches(waiting)
            yield table.slice(0, _GROUP_ROWS)
            waiting = table.slice(_GROUP_ROWS).to_batches()
            rows -= _GROUP_ROWS
    if rows:
        yield pa.Table.from_batches(waiting)


def _write_file(
    root: str, name: str, schema: KeySchema, first: pa.Table, rest: Iterator[pa.Table]
) -> WrittenFile:
    filesystem, folder = _filesystem(root)
    path = f"{folder}/{name}"
    rows, first_prefix, last_prefix = 0, first[PREFIX][0].as_py(), 0
    with _removed_on_failure(filesystem, path):
        fields = first.schema.append(pa.field(STORAGE_KEY, pa.binary()))
        with filesystem.open_output_stream(path) as sink, _parquet(sink, fields) as parquet:
            group: pa.Table | None = first
            while group is not None:
                keys = storage_keys(schema, group)
                parquet.write_table(group.append_column(fields[-1], keys), _GROUP_ROWS)
                rows += group.num_rows
                last_prefix = group[PREFIX][-1].as_py()
                group = next(rest, None)
        size_bytes = filesystem.get_file_info(path).size
    return WrittenFile(name, rows, size_bytes, first_prefix, last_prefix, time.time_ns() // 1_000_000)


def _parquet(sink: pa.NativeFile, fields: pa.Schema) -> pq.ParquetWriter:
    return pq.ParquetWriter(
        sink,
        fields,
        compression="zstd",
        write_page_index=True,
        max_rows_per_page=_PAGE_ROWS,
        # Arrow's types would carry the session's time zone; Parquet's own are what Spark reads.
        store_schema=False,
    )


def _filesystem(root: str) -> tuple[fs.FileSystem, str]:
    """Credentials of object stores come from the executor's environment."""
    if "://" in root:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(root)
        return found
    return fs.LocalFileSystem(), root


@contextmanager
def _removed_on_failure(filesystem: fs.FileSystem, path: str) -> Iterator[None]:
    def remove() -> None:
        if filesystem.get_file_info(path).type == fs.FileType.File:
            filesystem.delete_file(path)

    with ExitStack() as undo:
        undo.callback(remove)
        yield
        undo.pop_all()
