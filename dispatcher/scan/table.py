"""A state table: a Delta table of Parquet files sorted by storage key.

Rows keep the user's columns, and carry their vnode prefix and their storage key. Neither depends on a vnode
count or a mapping, so a rescale rewrites nothing. What a reader must know to agree on the keys is in the
table's configuration, under `vnodemap.*`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import BinaryType, IntegerType, StructField, StructType

from dispatcher.routing import ROUTING_COLUMNS, refuse_reserved
from dispatcher.scan.errors import (
    AnotherCheckpoint,
    ConcurrentCommit,
    NotAStateTable,
    TableMismatch,
    UnknownColumns,
)
from dispatcher.scan.plan import DataFile
from dispatcher.scan.writer import PREFIX, STORAGE_KEY, WrittenFile, write_files
from storage_keys.errors import StorageKeyError, UnsupportedType
from storage_keys.key import KeySchema
from storage_keys.spark import quoted, types_of
from storage_keys.types import DayTimeInterval, YearMonthInterval
from storage_keys.vnode import PREFIX_COUNT

FORMAT_VERSION: Final = 1
_TABLE_COLUMNS: Final = (PREFIX, STORAGE_KEY)

_FORMAT, _KEY_SCHEMA = "vnodemap.formatVersion", "vnodemap.keySchema"
# Delta keeps statistics of the first 32 columns unless told which.
_STATISTICS: Final = {"delta.dataSkippingStatsColumns": PREFIX}


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch in the table: `version` holds it, though a later version than its own may be named.

    `skipped` where it had been committed before: then nothing was written, and `rows` is 0.
    """

    version: int
    rows: int
    files: tuple[str, ...]
    skipped: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of the version that was the newest; their paths are absolute."""

    version: int
    files: tuple[DataFile, ...]


@dataclass(frozen=True, slots=True)
class StateTable:
    """`columns` are the user's, in the table's order; all may be NULL.

    `uri` is a path or an object store's URL. `storage_options` are deltalake's, for the driver; tasks take
    theirs from the executor's environment. A handle is a plain value: every call reads the table's log anew.
    """

    uri: str
    schema: KeySchema
    columns: StructType
    storage_options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def create_or_open(
        cls,
        uri: str | Path,
        schema: KeySchema,
        columns: StructType | pa.Schema,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """The table at `uri`, created if there is none; when several create it at once, one does.

        Raises `TableMismatch` where the table there has other columns or another key, `ReservedColumns`, and
        `StorageKeyError` where the columns do not have the key's.
        """
        struct = columns if isinstance(columns, StructType) else from_arrow_schema(columns)
        wanted = cls(_location(uri), schema, _nullable(struct), dict(storage_options or {}))
        refuse_reserved(wanted.columns.names, (*ROUTING_COLUMNS, *_TABLE_COLUMNS))
        _require_key_columns(wanted)
        if not _exists(wanted):
            _create(wanted)
        found = cls.open(wanted.uri, storage_options)
        _require_same(wanted, found)
        return found

    @classmethod
    def open(cls, uri: str | Path, storage_options: Mapping[str, str] | None = None) -> Self:
        """The table that is at `uri`. Raises `NotAStateTable`, or `TableMismatch` for another format."""
        location = _location(uri)
        delta = _opened(location, storage_options or {})
        schema = _key_schema(location, delta.metadata().configuration)
        struct = StructType.fromJson(json.loads(delta.schema().to_json()))
        columns = StructType([column for column in struct.fields if column.name not in _TABLE_COLUMNS])
        return cls(location, schema, columns, dict(storage_options or {}))

    def append(self, rows: DataFrame, *, app_id: str, batch_id: int) -> Commit:
        """Add the rows in one commit, unless this `batch_id` is the last that `app_id` committed.

        `rows` is best dispatched: each partition becomes one file. It has the table's columns, in any order;
        those of `route` are left out. `app_id` is one query's own and lasts as long as its checkpoint; its batch
        ids grow. Raises `AnotherCheckpoint` where they went back, `TableMismatch`, `UnknownColumns`,
        `ConcurrentCommit`.
        """
        _require_rows(self, rows)
        # The transaction is based on this state of the log, so a writer that comes between makes it fail.
        delta = self._delta()
        committed = delta.transaction_version(app_id)
        if committed == batch_id:
            return Commit(delta.version(), 0, (), skipped=True)
        if committed is not None and committed > batch_id:
            raise AnotherCheckpoint(self.uri, app_id, batch_id, committed)
        own = rows.select(*(quoted(name) for name in self.columns.names))
        written = write_files(own, self.uri, self.schema, f"rows-{batch_id}")
        try:
            _commit(delta, written, app_id, batch_id)
        except CommitFailedError as error:
            now = self._delta()
            if now.transaction_version(app_id) != batch_id:
                raise ConcurrentCommit(self.uri, app_id, batch_id, str(error)) from error
            return Commit(now.version(), 0, (), skipped=True)
        names = tuple(file.name for file in written)
        return Commit(self._delta().version(), sum(file.rows for file in written), names, skipped=False)

    def snapshot(self) -> Snapshot:
        delta = self._delta()
        actions = pa.table(delta.get_add_actions(flatten=True)).to_pylist()
        return Snapshot(delta.version(), tuple(_data_file(self.uri, action) for action in actions))

    def _delta(self) -> DeltaTable:
        return _opened(self.uri, self.storage_options)


def stored_columns(table: StateTable) -> StructType:
    """The columns in the files."""
    return StructType(
        [*table.columns.fields, StructField(PREFIX, IntegerType()), StructField(STORAGE_KEY, BinaryType())]
    )


def _opened(uri: str, storage_options: Mapping[str, str]) -> DeltaTable:
    try:
        return DeltaTable(uri, storage_options=dict(storage_options))
    except TableNotFoundError:
        raise NotAStateTable(uri, "there is no Delta table; create it by create_or_open") from None
    except (DeltaError, OSError) as error:
        raise NotAStateTable(uri, f"{error}; restore it, or use another path") from error


def _location(uri: str | Path) -> str:
    """Paths made absolute: an executor has another working folder."""
    if isinstance(uri, str) and "://" in uri:
        return uri
    path = str(Path(uri).absolute())
    if "%" in path:
        raise NotAStateTable(path, "deltalake takes '%' for an escape; use a path without '%'")
    return path


def _nullable(struct: StructType) -> StructType:
    return StructType([StructField(column.name, column.dataType) for column in struct.fields])


def _exists(table: StateTable) -> bool:
    try:
        return DeltaTable.is_deltatable(table.uri, dict(table.storage_options))
    except (DeltaError, OSError) as error:
        raise NotAStateTable(table.uri, f"{error}; use another path") from error


def _create(table: StateTable) -> None:
    configuration = {
        **_STATISTICS,
        _FORMAT: str(FORMAT_VERSION),
        _KEY_SCHEMA: json.dumps(table.schema.to_json(), sort_keys=True),
    }
    try:
        DeltaTable.create(
            table.uri,
            Schema.from_json(stored_columns(table).json()),
            configuration=configuration,
            storage_options=dict(table.storage_options),
            # Retried, a create that lost the race would land as version 1, over the winner's metadata.
            commit_properties=CommitProperties(max_commit_retries=0),
            raise_if_key_not_exists=False,
        )
    except (DeltaError, OSError) as error:
        if not _exists(table):
            raise NotAStateTable(table.uri, f"it cannot be created there: {error}") from error


def _key_schema(uri: str, configuration: Mapping[str, str]) -> KeySchema:
    try:
        version, document = (configuration[name] for name in (_FORMAT, _KEY_SCHEMA))
    except KeyError as error:
        raise NotAStateTable(uri, f"its configuration has no {error.args[0]}; use another path") from None
    if version != str(FORMAT_VERSION):
        raise TableMismatch(uri, "its format version", ours=str(FORMAT_VERSION), theirs=version)
    try:
        return KeySchema.from_json(json.loads(document))
    except ValueError as error:
        raise NotAStateTable(uri, f"its key schema cannot be used: {error}") from error


def _require_key_columns(table: StateTable) -> None:
    names = [column.name for column in table.schema.columns]
    for column, found in zip(table.schema.columns, types_of(table.columns, names), strict=True):
        if column.type != found:
            raise TableMismatch(
                table.uri,
                f"the type of key column {column.name}",
                ours=found.sql_name,
                theirs=column.type.sql_name,
            )
        if isinstance(found, YearMonthInterval | DayTimeInterval):
            accepted = ("int for months", "bigint for microseconds")
            raise UnsupportedType(found.sql_name, accepted, "a key column of a Delta table").in_column(
                column.name
            )


def _require_same(wanted: StateTable, found: StateTable) -> None:
    try:
        wanted.schema.require_same(found.schema)
    except StorageKeyError as error:
        ours, theirs = (json.dumps(table.schema.to_json(), sort_keys=True) for table in (wanted, found))
        raise TableMismatch(wanted.uri, "the key schema", ours=ours, theirs=theirs) from error
    ours, theirs = _described(wanted.columns), _described(found.columns)
    if ours != theirs:
        raise TableMismatch(wanted.uri, "the columns", ours=ours, theirs=theirs)


def _require_rows(table: StateTable, rows: DataFrame) -> None:
    """Refuse rows that would lose a column or change a type on their way into the table."""
    own = [column for column in rows.schema.fields if column.name not in ROUTING_COLUMNS]
    known = tuple(table.columns.names)
    strange = tuple(column.name for column in own if column.name not in known)
    if strange:
        raise UnknownColumns(table.uri, "columns to append", strange, known)
    by_name = {column.name: column for column in own}
    ours = StructType([by_name[name] for name in known if name in by_name])
    if _described(ours) != _described(table.columns):
        raise TableMismatch(table.uri, "the columns", ours=_described(ours), theirs=_described(table.columns))


def _described(struct: StructType) -> str:
    # Without nullability, which Spark drops and adds on the way.
    return ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in struct.fields)


def _commit(delta: DeltaTable, written: tuple[WrittenFile, ...], app_id: str, batch_id: int) -> None:
    delta.create_write_transaction(
        [_add_action(file) for file in written],
        "append",
        delta.schema(),
        commit_properties=CommitProperties(app_transactions=[Transaction(app_id, batch_id)]),
    )


def _add_action(file: WrittenFile) -> AddAction:
    statistics = {
        "numRecords": file.rows,
        "minValues": {PREFIX: file.first_prefix},
        "maxValues": {PREFIX: file.last_prefix},
        "nullCount": {PREFIX: 0},
    }
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values={},
        modification_time=file.written_ms,
        data_change=True,
        stats=json.dumps(statistics),
    )


def _data_file(uri: str, action: Mapping[str, Any]) -> DataFile:
    """A file without statistics, of another program's, may hold any prefix."""
    first, last = action.get(f"min.{PREFIX}"), action.get(f"max.{PREFIX}")
    return DataFile(
        path=f"{uri}/{action['path']}",
        first_prefix=0 if first is None else first,
        last_prefix=PREFIX_COUNT - 1 if last is None else last,
    )
