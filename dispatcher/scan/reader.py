"""A state table as a DataFrame of one partition for each unit, read by Spark's native Parquet reader."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dispatcher.scan.errors import UnknownColumns
from dispatcher.scan.plan import Interval, ScanGroup, plan_scan
from dispatcher.scan.table import StateTable, stored_columns
from dispatcher.scan.writer import PREFIX, STORAGE_KEY
from meta.mapping.mapping import VnodeMapping
from storage_keys.hash import hash_row
from storage_keys.spark import quoted, signed_column
from storage_keys.types import Date, Floating, KeyType, Timestamp, TimestampNtz
from storage_keys.value import canonical
from storage_keys.vnode import PREFIX_COUNT, prefix_of

_EVERYTHING: Final = (Interval(0, PREFIX_COUNT - 1),)


def scan(
    spark: SparkSession,
    table: StateTable,
    mapping: VnodeMapping,
    *,
    equals: Mapping[str, object] | None = None,
    columns: Sequence[str] | None = None,
) -> DataFrame:
    """The rows of the newest snapshot, each once; partition i holds those of `mapping.units[i]`, and no other exists.

    `columns` are the user's (all by default), and `_storage_key`. `equals` gives distribution columns a value
    (a `storage_keys.value.Value`, None for NULL); once it names all of them, one vnode's files are opened.
    Raises `UnknownColumns`, `StorageKeyError` for a value that does not fit, `Malformed` for an unowned vnode.
    """
    wanted = dict(equals or {})
    names = list(table.columns.names if columns is None else columns)
    _require_known(table, "distribution columns", wanted, table.schema.distribution)
    _require_known(table, "columns", names, (*table.columns.names, STORAGE_KEY))
    groups = plan_scan(mapping, table.snapshot().files, prefix_of_equality(table, wanted))
    nothing = _nothing(spark, stored_columns(table))
    # Since 4.1 Spark zips the children of a union that are all of a single partition, into one partition
    # (spark.sql.unionOutputPartitioning). `nothing` has no partition, so it is not of a single one.
    found = _union([*(_rows_of(spark, table, group, nothing) for group in groups), nothing])
    types = dict(zip(table.schema.distribution, table.schema.distribution_types, strict=True))
    for name, value in wanted.items():
        # Other keys have this prefix too.
        found = found.where(_equals(types[name], quoted(name), value))
    return found.select(*(quoted(name) for name in names))


def prefix_of_equality(table: StateTable, equals: Mapping[str, object]) -> int | None:
    """The prefix that the rows must have; None while a distribution column is free."""
    schema = table.schema
    if not schema.distribution or not set(schema.distribution) <= set(equals):
        return None
    return prefix_of(hash_row(schema.distribution_types, [equals[name] for name in schema.distribution]))


def _nothing(spark: SparkSession, columns: StructType) -> DataFrame:
    """No rows in no partitions, and Spark's optimizer does not know it.

    It drops a child that it can prove empty out of a union (a filter over NULL literals is enough), and all
    partitions after that one would be another slot's.
    """
    return spark.createDataFrame(spark.sparkContext.emptyRDD(), columns)


def _rows_of(spark: SparkSession, table: StateTable, group: ScanGroup, nothing: DataFrame) -> DataFrame:
    """The group's rows in one partition."""
    if not group.files:
        return nothing.coalesce(1)
    paths = [_literal_path(file.path) for file in group.files]
    rows = spark.read.schema(stored_columns(table)).parquet(*paths)
    if group.prefixes != _EVERYTHING:
        rows = rows.where(_any_of([_between(run) for run in group.prefixes]))
    return rows.coalesce(1)


def _union(parts: list[DataFrame]) -> DataFrame:
    """Built as a shallow tree: a chain of hundreds takes Spark seconds to analyse."""
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    return _union(parts[:middle]).union(_union(parts[middle:]))


def _between(run: Interval) -> Column:
    prefix = sf.col(PREFIX)
    return prefix == run.first if run.first == run.last else prefix.between(run.first, run.last)


def _any_of(conditions: list[Column]) -> Column:
    """A shallow tree again: a chain of a thousand ORs overflows Spark's stack."""
    if len(conditions) == 1:
        return conditions[0]
    middle = len(conditions) // 2
    return _any_of(conditions[:middle]) | _any_of(conditions[middle:])


def _equals(type_: KeyType, column: Column, value: object) -> Column:
    """Whether the column has the value, NULL being equal to NULL. Refuses a value of another type."""
    if value is None:
        return column.isNull()
    number = canonical(type_, value)
    match type_:
        # As numbers: a filter on dates that Spark hands to the Parquet reader goes through Java's old calendar,
        # which lacks ten days of 1582, and would skip the rows of those days.
        case Date() | Timestamp() | TimestampNtz():
            return signed_column(type_, column).eqNullSafe(sf.lit(number))
        # A filter on the column itself goes to the Parquet reader, to whose dictionaries -0.0 is not 0.0.
        case Floating():
            return (column.cast("double") + 0.0).eqNullSafe(sf.lit(number))
        case _:
            return column.eqNullSafe(sf.lit(value).cast(type_.sql_name))


def _literal_path(path: str) -> str:
    """As Spark's reader takes it, which expands patterns and looks for bare paths in the default file system."""
    escaped = "".join(f"\\{char}" if char in "*?[]{}\\" else char for char in path)
    return escaped if "://" in path else f"file:{escaped}"


def _require_known(table: StateTable, what: str, names: Iterable[str], known: Sequence[str]) -> None:
    strange = tuple(name for name in names if name not in known)
    if strange:
        raise UnknownColumns(table.uri, what, strange, tuple(known))
