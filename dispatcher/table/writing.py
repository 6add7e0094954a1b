"""A DataFrame into files of a state table: one Spark job, whose tasks sort and write their partitions.

A task that Spark runs twice writes files of different names twice; only the names that its last run returned count.
"""

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema

from dispatcher.table.errors import NotCommitted
from dispatcher.table.file import PREFIX, STORAGE_KEY, Kind
from dispatcher.table.files import WrittenFile, in_row_groups, open_file, remove_files, write_sorted
from storage_keys.arrow import storage_keys
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.spark import prefix_column, quoted
from storage_keys.vnode import PREFIX_COUNT

_FILE: Final = pa.struct(
    [
        ("name", pa.string()),
        ("kind", pa.string()),
        ("rows", pa.int64()),
        ("size_bytes", pa.int64()),
        ("first_prefix", pa.int32()),
        ("last_prefix", pa.int32()),
        ("written_ms", pa.int64()),
    ]
)
_OUTCOME: Final = pa.schema(
    [
        ("files", pa.list_(_FILE)),
        ("repeated", pa.binary()),
        ("prefixes", pa.binary()),
        ("failed", pa.string()),
    ]
)
_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EPERM, errno.EROFS)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one partition wrote: nothing where two of its changes have one key, which is `repeated` then.

    `prefixes` has a bit for each prefix that it wrote changes of. `failed` says that the disk is full, or not
    to be written to: nothing was written then either.
    """

    files: tuple[WrittenFile, ...]
    repeated: bytes | None = None
    prefixes: bytes = b""
    failed: str | None = None


class _Repeated(Exception):
    def __init__(self, key: bytes) -> None:
        self.key = key
        super().__init__(key)


def write_files(
    rows: DataFrame,
    root: str,
    schema: KeySchema,
    name: str,
    kind: Kind,
    target_bytes: int,
    storage_options: Mapping[str, str],
) -> tuple[Outcome, ...]:
    """Write each partition that has rows, in order of storage keys, as files under the URL or path `root`.

    `rows` has the columns of the files but `_vnode_prefix` and `_storage_key`; `name` starts the names of the files.
    Nothing is committed. Raises `NotCommitted` where the disk is full or not to be written to.
    """
    prefix = prefix_column(schema.distribution_types, [quoted(name) for name in schema.distribution])
    in_key_order = rows.withColumn(PREFIX, prefix).sortWithinPartitions(
        quoted(PREFIX), *(_ordered(column) for column in schema.columns)
    )

    def write(batches: Iterable[pa.RecordBatch]) -> Outcome:
        prefixes = np.zeros(PREFIX_COUNT, dtype=bool)
        keyed = _keyed(batches, schema)
        if kind is Kind.ROWS:
            return Outcome(write_sorted(keyed, root, name, kind, target_bytes, storage_options))
        try:
            files = write_sorted(_marked(keyed, prefixes), root, name, kind, target_bytes, storage_options)
        except _Repeated as error:
            return Outcome((), repeated=error.key)
        return Outcome(files, prefixes=np.packbits(prefixes).tobytes())

    return run(in_key_order, write, root, "a write", storage_options)


def run(
    rows: DataFrame,
    write: Callable[[Iterable[pa.RecordBatch]], Outcome],
    root: str,
    what: str,
    storage_options: Mapping[str, str],
) -> tuple[Outcome, ...]:
    """What `write` returns in each partition that has rows, in their order.

    Where it cannot write at `root`, the files of all partitions go, and `NotCommitted` is raised.
    """

    def task(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is not None:
            outcome = _unless_unwritable(write, _chained(first, filled))
            yield pa.RecordBatch.from_pylist([asdict(outcome)], _OUTCOME)

    found = rows.mapInArrow(task, from_arrow_schema(_OUTCOME)).collect()
    outcomes = tuple(_outcome_of(row) for row in found)
    failed = next((one.failed for one in outcomes if one.failed is not None), None)
    if failed is not None:
        remove_files(root, (file.name for one in outcomes for file in one.files), storage_options)
        raise NotCommitted(root, what, failed, "do it again")
    return outcomes


def _unless_unwritable(
    write: Callable[[Iterable[pa.RecordBatch]], Outcome], batches: Iterable[pa.RecordBatch]
) -> Outcome:
    """Raised, it would fail the job, and nobody would know the files of the other tasks."""
    try:
        return write(batches)
    except OSError as error:
        if error.errno not in _UNWRITABLE:
            raise
        return Outcome((), failed=str(error))


def repeated_key(
    spark: SparkSession, root: str, outcomes: tuple[Outcome, ...], storage_options: Mapping[str, str]
) -> bytes | None:
    """A storage key that two of the changes have, whichever partitions they were in."""
    found = next((one.repeated for one in outcomes if one.repeated is not None), None)
    suspects = _with_common_prefixes(outcomes)
    if found is not None or not suspects:
        return found
    # Partitions were not cut by prefix, so one key may be in two: they are compared as they were written.
    # Not by Spark's reader, which knows no object store unless it is given its jars.
    paths = [(f"{root}/{file.name}",) for one in suspects for file in one.files]
    keys = spark.createDataFrame(paths, "path string").mapInArrow(
        _keys_of(storage_options), f"{STORAGE_KEY} binary"
    )
    keys = keys.groupBy(STORAGE_KEY).count()
    twice = keys.where(sf.col("count") > 1).select(sf.min(STORAGE_KEY)).collect()[0][0]
    return None if twice is None else bytes(twice)


def _keys_of(
    storage_options: Mapping[str, str],
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(files: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for path in (path for batch in files for path in batch["path"].to_pylist()):
            with open_file(path, storage_options) as opened, pq.ParquetFile(opened) as parquet:
                yield from parquet.iter_batches(columns=[STORAGE_KEY])

    return read


def _with_common_prefixes(outcomes: tuple[Outcome, ...]) -> tuple[Outcome, ...]:
    times = np.zeros(PREFIX_COUNT, dtype=np.int32)
    for one in outcomes:
        times += _bits(one)
    return tuple(one for one in outcomes if (times[_bits(one)] > 1).any())


def _bits(outcome: Outcome) -> npt.NDArray[np.bool_]:
    bytes_ = np.frombuffer(outcome.prefixes.ljust(PREFIX_COUNT // 8, b"\0"), dtype=np.uint8)
    return np.unpackbits(bytes_).astype(bool)


def _keyed(batches: Iterable[pa.RecordBatch], schema: KeySchema) -> Iterator[pa.Table]:
    """The rows in row groups, with their storage keys. Their order is checked: all that reads files relies on it."""
    field = pa.field(STORAGE_KEY, pa.binary())
    last: pa.Array | None = None
    for group in in_row_groups(batches):
        keys = storage_keys(schema, group)
        before = keys.slice(0, len(keys) - 1)
        assert pc.all(pc.less_equal(before, keys.slice(1))).as_py() is not False, (
            "Spark's order is not the keys'"
        )
        assert last is None or last.as_py() <= keys[0].as_py(), "Spark's order is not the keys'"
        last = keys[-1]
        yield group.append_column(field, keys)


def _marked(tables: Iterable[pa.Table], prefixes: npt.NDArray[np.bool_]) -> Iterator[pa.Table]:
    """The rows, each prefix of theirs set in `prefixes`. Raises `_Repeated` at a key that comes again."""
    last: object = None
    for table in tables:
        keys = table[STORAGE_KEY].combine_chunks()
        again = pc.equal(keys.slice(0, len(keys) - 1), keys.slice(1)).index(value=True).as_py()
        if keys[0].as_py() == last or again >= 0:
            raise _Repeated(keys[max(again, 0)].as_py())
        last = keys[-1].as_py()
        prefixes[table[PREFIX].to_numpy()] = True
        yield table


def _chained(first: pa.RecordBatch, rest: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield first
    yield from rest


def _ordered(column: KeyColumn) -> Column:
    """The column in the order of its key bytes."""
    key, first = quoted(column.name), column.order.nulls == "first"
    if column.order.descending:
        return key.desc_nulls_first() if first else key.desc_nulls_last()
    return key.asc_nulls_first() if first else key.asc_nulls_last()


def _outcome_of(row: Row) -> Outcome:
    files = tuple(WrittenFile(**{**file.asDict(), "kind": Kind(file["kind"])}) for file in row["files"])
    repeated = row["repeated"]
    return Outcome(
        files, None if repeated is None else bytes(repeated), bytes(row["prefixes"]), row["failed"]
    )
