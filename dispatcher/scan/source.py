"""`spark.read.format("vnode")`: the scan of `dispatcher.scan.reader` as a data source, all of it through Arrow.

For SQL and for programs that know DataFrames alone. `scan` is faster where rows need no merging, and reads only the
columns that are used; here those of `.schema(...)` are read, all by default.
"""

import datetime
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql import datasource as spark_source
from pyspark.sql.types import StructType

from dispatcher.errors import DispatcherError
from dispatcher.scan.filters import conditions
from dispatcher.scan.group_rows import Wanted, group_rows
from dispatcher.scan.plan import ScanGroup
from dispatcher.scan.reader import planned, require_columns
from dispatcher.service import newest_mapping
from dispatcher.table.columns import require_same_columns, stored
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from storage_keys.errors import StorageKeyError
from storage_keys.predicate import Predicate

_PUSH_DOWN: Final = "spark.sql.python.filterPushdown.enabled"

_OPERATORS: Final[Mapping[type[spark_source.Filter], str]] = {
    spark_source.EqualTo: "=",
    spark_source.EqualNullSafe: "<=>",
    spark_source.LessThan: "<",
    spark_source.LessThanOrEqual: "<=",
    spark_source.GreaterThan: ">",
    spark_source.GreaterThanOrEqual: ">=",
    spark_source.In: "in",
    spark_source.IsNull: "is null",
    spark_source.IsNotNull: "is not null",
}

_STORAGE: Final = "storage."
_OPTIONS: Final = ("table", "path", "mapping", "fragment", "service", "tasks", "version")

_EVEN_YEARS: Final = 1902
"""From then on every calendar and every zone's rules count alike."""


class UnusableOptions(DispatcherError):
    """The options of a `vnode` source do not say what to read."""

    def __init__(self, problem: str) -> None:
        self.problem = problem
        super().__init__(
            f'{problem}. The options are table (a path or URL), mapping ("0*128 1*128", or a JSON array of owners)'
            " or fragment and service (its URL), and optionally tasks, version, and of an object store what deltalake"
            " calls storage options, each by its name after storage. (storage.aws_region)"
        )


def register(spark: SparkSession) -> None:
    """Make `format("vnode")` known to the session, and let Spark hand filters to sources written in Python.

    Twice is as good as once.
    """
    spark.conf.set(_PUSH_DOWN, "true")
    spark.dataSource.register(VnodeSource)


class VnodeSource(spark_source.DataSource):
    """What is named by options is looked up whenever Spark plans a query."""

    @classmethod
    def name(cls) -> str:
        return "vnode"

    def schema(self) -> StructType:
        return self._table().columns

    def reader(self, schema: StructType) -> "VnodeReader":
        options = self.options
        return VnodeReader(
            self._table(), self._mapping(), schema, _number(options, "tasks"), _number(options, "version")
        )

    def _table(self) -> StateTable:
        _require_known(self.options)
        uri = self.options.get("table") or self.options.get("path")
        if not uri:
            raise UnusableOptions("there is no option table")
        return StateTable.open(uri, _storage_options(self.options))

    def _mapping(self) -> VnodeMapping:
        match self.options.get("mapping"), self.options.get("fragment"), self.options.get("service"):
            case str(written), None, None:
                return _parsed(written)
            case None, str(fragment), str(service):
                return newest_mapping(service, fragment).mapping
        raise UnusableOptions("there must be either a mapping, or a fragment and a service")


class VnodeReader(spark_source.DataSourceReader):
    """One partition for each group of the plan."""

    def __init__(
        self,
        table: StateTable,
        mapping: VnodeMapping,
        schema: StructType,
        tasks: int | None,
        version: int | None,
    ) -> None:
        require_columns(table, schema.names)
        # In another type a filter would mean other rows.
        require_same_columns(
            table.uri, schema, StructType([stored(table.columns)[name] for name in schema.names])
        )
        self._table = table
        self._mapping = mapping
        self._schema = schema
        self._tasks = tasks
        self._version = version
        self._asked = conditions(schema, [])

    def pushFilters(self, filters: list[spark_source.Filter]) -> Iterable[spark_source.Filter]:  # noqa: N802 - Spark's
        """All are left to Spark too: here they only spare rows."""
        found: list[Predicate] = []
        for one in filters:
            found += _predicates(self._schema, one)
        self._asked = conditions(self._schema, found)
        return filters

    def partitions(self) -> Sequence[spark_source.InputPartition]:
        plan = planned(self._table, self._mapping, self._asked, tasks=self._tasks, version=self._version)
        return [spark_source.InputPartition(group) for group in plan.groups]

    def read(self, partition: spark_source.InputPartition) -> Iterator[pa.RecordBatch]:
        group = partition.value
        assert isinstance(group, ScanGroup)
        return group_rows(group, Wanted.of(self._table, self._schema, self._asked))


def _predicates(columns: StructType, one: spark_source.Filter) -> tuple[Predicate, ...]:
    """The filter as predicates; none where it is of another kind, or its value is none that can be compared."""
    attribute: tuple[str, ...] = getattr(one, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in columns.names:
        return ()
    if isinstance(one, spark_source.StringStartsWith):
        return _understood(columns, (*attribute, "like", _escaped(one.value) + "%"))
    operator = _OPERATORS.get(type(one))
    values = [one.value] if hasattr(one, "value") else []
    if operator is None or any(_is_shifted(value) for value in values):
        return ()
    return _understood(columns, (*attribute, operator, *values))


def _is_shifted(value: object) -> bool:
    """Whether Spark, which hands dates and times down in Java's old calendar, may have made another one of it."""
    if isinstance(value, tuple | list):
        return any(map(_is_shifted, value))
    return isinstance(value, datetime.date) and value.year < _EVEN_YEARS


def _understood(columns: StructType, written: Sequence[object]) -> tuple[Predicate, ...]:
    try:
        return conditions(columns, [written]).predicates
    except StorageKeyError:
        return ()


def _escaped(text: str) -> str:
    return "".join(f"\\{char}" if char in "%_\\" else char for char in text)


def _require_known(options: Mapping[str, str]) -> None:
    """A misspelt one would be left out without a word."""
    strange = sorted(name for name in options if name not in _OPTIONS and not name.startswith(_STORAGE))
    if strange:
        raise UnusableOptions(f"there is no option {', '.join(strange)}")


def _storage_options(options: Mapping[str, str]) -> dict[str, str]:
    """In lower case, as Spark hands names down: deltalake takes either."""
    found = {
        name.removeprefix(_STORAGE): value for name, value in options.items() if name.startswith(_STORAGE)
    }
    if "" in found:
        raise UnusableOptions("the option storage. names no storage option")
    return found


def _number(options: Mapping[str, str], name: str) -> int | None:
    written = options.get(name)
    if written is None:
        return None
    if not written.isdecimal():
        raise UnusableOptions(f"{name} is a number, not {written!r}")
    return int(written)


def _parsed(written: str) -> VnodeMapping:
    if not written.lstrip().startswith("["):
        return VnodeMapping.parse(written)
    try:
        return VnodeMapping(tuple(json.loads(written)))
    except json.JSONDecodeError as error:
        raise UnusableOptions(f"the mapping is no JSON: {error}") from error
