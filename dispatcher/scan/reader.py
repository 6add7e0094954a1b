"""A state table as a DataFrame of one partition for each group of a scan plan.

Rows that no other file can hide are read by Spark's native Parquet reader where that knows the kind of URL, the others
in Arrow.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import and_, or_
from typing import Final, Protocol

import numpy as np
import pyarrow as pa
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dispatcher.errors import DispatcherError
from dispatcher.scan.filters import Conditions, conditions, joined
from dispatcher.scan.group_rows import Wanted, group_rows
from dispatcher.scan.plan import ScanGroup, ScanPlan, plan_scan
from dispatcher.table.columns import logged
from dispatcher.table.errors import UnknownColumns
from dispatcher.table.file import DELETED, PREFIX, STORAGE_KEY, Kind
from dispatcher.table.location import is_object_store, literal_path
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from storage_keys.errors import shown
from storage_keys.predicate import Predicate
from storage_keys.pruning import Pruned, prune
from storage_keys.spark import quoted

_COMPARED_RUNS_MAX: Final = 16
"""So many runs of prefixes are compared one by one. More are looked up, which costs a row the same for any number."""


_UNION_CODE: Final = "spark.sql.codegen.wholeStage.union.enabled"


class UnusableArgument(DispatcherError):
    """What `scan` was given as `name`, or was answered by it, is of another kind than it takes."""

    def __init__(self, name: str, given: object, wanted: str) -> None:
        self.name = name
        self.given = given
        super().__init__(f"{name} is {wanted}, not {shown(given)}")


class Mapped(Protocol):
    """What has a mapping, at once or further inside: a mapping version, or a subscription."""

    @property
    def mapping(self) -> "VnodeMapping | Mapped": ...


def scan(  # noqa: PLR0913 - what a scan is asked for, all by name
    spark: SparkSession,
    table: StateTable,
    mapping: VnodeMapping | Mapped,
    *,
    tasks: int | None = None,
    columns: Sequence[str] | None = None,
    filters: Iterable[Predicate | Sequence[object]] = (),
    version: int | None = None,
    each_group: Callable[[DataFrame], DataFrame] | None = None,
) -> DataFrame:
    """The rows of a snapshot (the newest by default), each once; partition i holds those of group i of the plan.

    Without `tasks`, group i is `mapping.units[i]`. `columns` are the user's (all by default), and `_storage_key`.
    `filters` are those of `dispatcher.scan.filters.conditions`, and all of them must pass; what they say of the key
    decides which files are opened.

    `each_group` is applied to the rows of every group by themselves, which are one partition for Spark: so a `groupBy`
    of the distribution key's columns (and others) in it is right, and shuffles nothing. It must give one partition. It
    is applied to empty groups, too.

    For the session, `spark.sql.codegen.wholeStage.union.enabled` is switched off unless it is set.

    Raises `UnusableArgument`, `UnknownColumns`, `StorageKeyError` for a filter that cannot be used, `Malformed` for an
    unowned vnode.
    """
    _require_table(table)
    names = list(table.columns.names if columns is None else columns)
    require_columns(table, names)
    asked = conditions(table.columns, filters)
    whole_keys = each_group is not None
    plan = planned(table, mapping, asked, tasks=tasks, version=version, whole_prefixes=whole_keys)
    # In the code of a union's stage each row is copied, which takes half as long as reading it.
    spark.conf.set(_UNION_CODE, spark.conf.get(_UNION_CODE, "false") or "false")
    read = _Read(spark, table, names, asked)
    groups = [read.rows_of(group) for group in plan.groups]
    if each_group is None:
        return _union([*groups, read.nothing])
    made = [_made(each_group, rows) for rows in groups]
    return _union([*made, _nothing(spark, made[0].schema)])


def planned(
    table: StateTable,
    mapping: VnodeMapping | Mapped,
    asked: Conditions,
    *,
    tasks: int | None = None,
    version: int | None = None,
    whole_prefixes: bool = False,
) -> ScanPlan:
    """The groups of a scan. What cannot be, no group has."""
    owners = _mapping_of(mapping)
    pruned = Pruned((), (), (), ("no row can pass",))
    if not asked.are_never_met:
        pruned = prune(table.schema, asked.predicates)
    files = table.snapshot(version).files
    return plan_scan(owners, files, tasks=tasks, pruned=pruned, whole_prefixes=whole_prefixes)


def _mapping_of(given: object) -> VnodeMapping:
    found = given
    while not isinstance(found, VnodeMapping):
        found = getattr(found, "mapping", None)
        if found is None:
            wanted = "a VnodeMapping (VnodeMapping.parse reads text), a mapping version or a subscription"
            raise UnusableArgument("mapping", given, wanted)
    return found


def _require_table(given: object) -> None:
    if not isinstance(given, StateTable):
        raise UnusableArgument("table", given, "a StateTable, which StateTable.open gives for a path")


def _made(each_group: Callable[[DataFrame], object], rows: DataFrame) -> DataFrame:
    found = each_group(rows)
    if not isinstance(found, DataFrame):
        raise UnusableArgument("each_group's answer", found, "the DataFrame that it makes of rows")
    return found


def require_columns(table: StateTable, names: Sequence[str]) -> None:
    """Refuse what is no column of the user's, nor `_storage_key`, by `UnknownColumns`."""
    known = (*table.columns.names, STORAGE_KEY)
    strange = tuple(name for name in names if name not in known)
    if strange:
        raise UnknownColumns(table.uri, "columns", strange, known)


class _Read:
    """What is the same for all groups of a scan."""

    def __init__(
        self, spark: SparkSession, table: StateTable, names: Sequence[str], asked: Conditions
    ) -> None:
        self._spark = spark
        self._names = list(names)
        # Where nothing can pass no group has files, and the condition would show Spark that all are empty.
        condition = None if asked.are_never_met else asked.as_column()
        self._asked = [] if condition is None else [condition]
        self._columns = logged(table.columns)
        self._given = self._schema(dict.fromkeys([*names, *asked.columns]) or [STORAGE_KEY])
        # Spark's reader would not take the table's own credentials.
        self._is_native = _spark_knows(spark, table.uri) and not (
            table.storage_options and is_object_store(table.uri)
        )
        self._wanted = Wanted.of(table, self._given, asked)
        self.nothing = _nothing(spark, self._schema(names))
        self._no_rows = self.nothing.coalesce(1)

    def rows_of(self, group: ScanGroup) -> DataFrame:
        """The group's rows that pass, in one partition."""
        if not group.files:
            return self._no_rows
        if group.merges or not self._is_native:
            rows = self._spark.range(0, 1, 1, 1).mapInArrow(_reading(group, self._wanted), self._given)
            return self._passing(rows, self._given, self._asked)
        conditions = _conditions(group)
        columns = self._columns if conditions else self._given
        # Spark reads a column that a file lacks as NULL. A file that is gone is no empty one.
        reader = self._spark.read.schema(columns).option("ignoreMissingFiles", "false")
        # Folders named a=b are no columns.
        rows = reader.parquet(*(literal_path(file.path) for file in group.files), recursiveFileLookup=True)
        return self._passing(rows, columns, [*conditions, *self._asked]).coalesce(1)

    def _passing(self, rows: DataFrame, columns: StructType, conditions: list[Column]) -> DataFrame:
        condition = joined(and_, conditions)
        found = rows if condition is None else rows.where(condition)
        # Each step that is not taken spares Spark some milliseconds a group.
        return found if columns.names == self._names else found.select(*map(quoted, self._names))

    def _schema(self, names: Iterable[str]) -> StructType:
        return StructType([self._columns[name] for name in names])


def _nothing(spark: SparkSession, columns: StructType) -> DataFrame:
    """No rows in no partitions, and Spark's optimizer does not know it.

    As the last child of a union it keeps the others apart: since 4.1 Spark zips children that are all of a single
    partition into one (spark.sql.unionOutputPartitioning). As an empty group it stays where it is: the optimizer drops
    a child that it can prove empty (a filter over NULL literals is enough), and all partitions after that one would be
    another group's.
    """
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), columns)


def _conditions(group: ScanGroup) -> list[Column]:
    """What tells the group's rows from others of its files."""
    within = [] if _all_within(group) else [_within(group)]
    changes = any(file.kind is Kind.CHANGES for file in group.files)
    return [*within, quoted(DELETED).isNull() | ~quoted(DELETED)] if changes else within


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
    """Built as a shallow tree: a chain of hundreds takes Spark seconds to analyse. Unions of the same are one."""
    found = joined(cache(DataFrame.union), parts)
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
