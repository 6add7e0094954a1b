"""A state table as a DataFrame of one partition for each group of a scan plan.

Rows that no other file can hide are read by Spark's native Parquet reader where that knows the kind of URL, the others
in Arrow.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from operator import or_
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dispatcher.scan.filters import Conditions, conditions, joined
from dispatcher.scan.group_rows import Wanted, group_rows
from dispatcher.scan.plan import ScanGroup, ScanPlan, plan_scan
from dispatcher.table.columns import logged
from dispatcher.table.errors import UnknownColumns
from dispatcher.table.file import DELETED, PREFIX, STORAGE_KEY, Kind
from dispatcher.table.location import literal_path
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from storage_keys.predicate import Predicate
from storage_keys.pruning import Pruned, prune
from storage_keys.spark import quoted

_COMPARED_RUNS_MAX: Final = 16
"""So many runs of prefixes are compared one by one. More are looked up, which costs a row the same for any number."""


class Mapped(Protocol):
    """What has a mapping, at once or further inside: a mapping version, or a subscription's latest."""

    @property
    def mapping(self) -> "VnodeMapping | Mapped": ...


def scan(
    spark: SparkSession,
    table: StateTable,
    mapping: VnodeMapping | Mapped,
    *,
    tasks: int | None = None,
    columns: Sequence[str] | None = None,
    filters: Iterable[Predicate | Sequence[object]] = (),
    version: int | None = None,
) -> DataFrame:
    """The rows of a snapshot (the newest by default), each once; partition i holds those of group i of the plan.

    Without `tasks`, group i is `mapping.units[i]`. `columns` are the user's (all by default), and `_storage_key`.
    `filters` are those of `dispatcher.scan.filters.conditions`, and all of them must pass; what they say of the key
    decides which files are opened. Raises `UnknownColumns`, `StorageKeyError` for a filter that cannot be used,
    `Malformed` for an unowned vnode.
    """
    names = list(table.columns.names if columns is None else columns)
    require_columns(table, names)
    asked = conditions(table.columns, filters)
    plan = planned(table, mapping, asked, tasks=tasks, version=version)
    read = _Read(spark, table, tuple(dict.fromkeys([*names, *asked.columns])) or (STORAGE_KEY,), asked)
    # Since 4.1 Spark zips the children of a union that are all of a single partition, into one partition
    # (spark.sql.unionOutputPartitioning). `nothing` has no partition, so it is not of a single one.
    found = _union([*(read.rows_of(group) for group in plan.groups), read.nothing])
    # Where nothing can pass no group has files, and the condition would show Spark that all are empty.
    condition = None if asked.are_never_met else asked.as_column()
    return (found if condition is None else found.where(condition)).select(*(quoted(name) for name in names))


def planned(
    table: StateTable,
    mapping: VnodeMapping | Mapped,
    asked: Conditions,
    *,
    tasks: int | None = None,
    version: int | None = None,
) -> ScanPlan:
    """The groups of a scan. What cannot be, no group has."""
    while not isinstance(mapping, VnodeMapping):
        mapping = mapping.mapping
    pruned = Pruned((), (), (), ("no row can pass",))
    if not asked.are_never_met:
        pruned = prune(table.schema, asked.predicates)
    return plan_scan(mapping, table.snapshot(version).files, tasks=tasks, pruned=pruned)


def require_columns(table: StateTable, names: Sequence[str]) -> None:
    """Refuse what is no column of the user's, nor `_storage_key`, by `UnknownColumns`."""
    known = (*table.columns.names, STORAGE_KEY)
    strange = tuple(name for name in names if name not in known)
    if strange:
        raise UnknownColumns(table.uri, "columns", strange, known)


class _Read:
    """What is the same for all groups of a scan."""

    def __init__(
        self, spark: SparkSession, table: StateTable, names: tuple[str, ...], asked: Conditions
    ) -> None:
        self._spark = spark
        self._names = names
        # Spark reads a column that a file lacks as NULL.
        self._stored = logged(table.columns)
        self._given = StructType([self._stored[name] for name in names])
        self._is_native = _spark_knows(spark, table.uri)
        self._wanted = Wanted.of(table, self._given, asked)
        self.nothing = spark.createDataFrame(spark.sparkContext.emptyRDD(), self._given)
        """No rows in no partitions, and Spark's optimizer does not know it.

        It drops a child that it can prove empty out of a union (a filter over NULL literals is enough), and all
        partitions after that one would be another group's.
        """

    def rows_of(self, group: ScanGroup) -> DataFrame:
        """The group's rows in one partition."""
        if not group.files:
            return self.nothing.coalesce(1)
        return self._native(group) if self._is_native and not group.merges else self._in_arrow(group)

    def _native(self, group: ScanGroup) -> DataFrame:
        paths = [literal_path(file.path) for file in group.files]
        # Folders named a=b are no columns, and a file that is gone is no empty one.
        reader = self._spark.read.schema(self._stored).option("ignoreMissingFiles", "false")
        rows = reader.parquet(*paths, recursiveFileLookup=True)
        if not _all_within(group):
            rows = rows.where(_within(group))
        if any(file.kind is Kind.CHANGES for file in group.files):
            rows = rows.where(quoted(DELETED).isNull() | ~quoted(DELETED))
        return rows.select(*(quoted(name) for name in self._names)).coalesce(1)

    def _in_arrow(self, group: ScanGroup) -> DataFrame:
        return self._spark.range(0, 1, 1, 1).mapInArrow(_reading(group, self._wanted), self._given)


def _reading(
    group: ScanGroup, wanted: Wanted
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def read(one_row: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in one_row:
            yield from group_rows(group, wanted)

    return read


def _spark_knows(spark: SparkSession, uri: str) -> bool:
    """Whether Spark's own readers open such URLs: those of object stores with jars of Hadoop's alone."""
    scheme, separator, _ = uri.partition("://")
    if not separator:
        return True
    assert spark._jvm is not None
    try:
        spark._jvm.org.apache.hadoop.fs.FileSystem.getFileSystemClass(
            scheme, spark._jsc.hadoopConfiguration()
        )
    except Py4JJavaError:
        return False
    return True


def _union(parts: list[DataFrame]) -> DataFrame:
    """Built as a shallow tree: a chain of hundreds takes Spark seconds to analyse."""
    found = joined(DataFrame.union, parts)
    assert found is not None
    return found


def _all_within(group: ScanGroup) -> bool:
    """Whether all rows of the group's files are the group's."""
    runs = group.prefixes
    for file in group.files:
        at = bisect_left(runs, file.last_prefix, key=lambda run: run.last)
        if at == len(runs) or runs[at].first > file.first_prefix:
            return False
    return True


def _within(group: ScanGroup) -> Column:
    """Whether a row's prefix is one of the group's."""
    runs = group.prefixes
    if len(runs) <= _COMPARED_RUNS_MAX:
        found = joined(or_, [_between(run.first, run.last) for run in runs])
        assert found is not None
        return found
    # The first is what the Parquet reader can skip by.
    return _between(runs[0].first, runs[-1].last) & _looked_up(group.lookup)


def _between(first: int, last: int) -> Column:
    prefix = sf.col(PREFIX)
    return prefix == first if first == last else prefix.between(first, last)


def _looked_up(lookup: bytes) -> Column:
    """A bit for each prefix, in one literal that Spark splits once, in planning (see `dispatcher.routing`)."""
    words = np.packbits(np.frombuffer(lookup, np.uint8), bitorder="little").view("<i8")
    array = sf.split(sf.lit(",".join(map(str, words))), ",").cast("array<bigint>")
    prefix = sf.col(PREFIX)
    word = sf.element_at(array, sf.shiftright(prefix, 6) + 1)
    return sf.call_function("shiftright", word, prefix.bitwiseAND(63)).bitwiseAND(1) == 1
