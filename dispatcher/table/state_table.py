"""A state table: a Delta table of Parquet files sorted by storage key.

Rows keep the user's columns, and carry their vnode prefix and their storage key. Neither depends on a vnode
count or a mapping, so a rescale rewrites nothing. What a reader must know to agree on the keys is in the
table's configuration, under `vnodemap.*`.

A reader of a version sees of each key, s being the greatest sequence among its changes, the row of that change unless
it deletes, and all appended rows with a greater sequence.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Self

import pyarrow as pa
from deltalake import Schema
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dispatcher.table.columns import (
    in_arrow,
    logged,
    nullable,
    require_creatable,
    require_keys,
    require_rows,
    require_same_columns,
    require_same_key,
    stored,
    users,
)
from dispatcher.table.compaction import (
    FAN_IN,
    Compaction,
    Merge,
    parts,
    plan_compaction,
    prefix_groups,
    remaining,
    write_compacted,
)
from dispatcher.table.errors import (
    ConcurrentCommit,
    NotAStateTable,
    NotCommitted,
    RepeatedKey,
    TableMismatch,
    UnusableBatch,
)
from dispatcher.table.file import DELETED, Kind
from dispatcher.table.files import TARGET_BYTES, WrittenFile, remove_files
from dispatcher.table.location import is_object_store, location_of
from dispatcher.table.log import APP_ID_PREFIX, Batch, Commit, Log, Snapshot
from dispatcher.table.sorted_file import ALL_PREFIXES, Selection, overlap
from dispatcher.table.writing import repeated_key, write_files
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from storage_keys.key import KeySchema
from storage_keys.spark import quoted

FORMAT_VERSION: Final = 2

_FORMAT, _KEY_SCHEMA = "vnodemap.formatVersion", "vnodemap.keySchema"


@dataclass(frozen=True, slots=True)
class StateTable:
    """`columns` are the user's, in the table's order; all may be NULL.

    `uri` is a path or an object store's URL. `storage_options` are deltalake's, for the driver and the tasks; what they
    do not say comes from the environment of each. A handle is a plain value: every call reads the table's log anew.
    Files end at about `target_bytes` of Arrow.

    All writes take a DataFrame, best a dispatched one, whose partitions become files; columns of `route` are left
    out. With an `app_id` and a `batch_id` a write is committed once: it is skipped while that batch is the last of
    the app id, which is one query's own and lasts as long as its checkpoint. Two writers at once both land, one after
    the other. Raised are `TableMismatch`, `UnknownColumns`, `UnusableBatch`; `AnotherCheckpoint` where the batch ids
    went back; `ConcurrentCommit` where another query wrote as the same app meanwhile; `NotCommitted` where the disk
    is full or the log cannot be written.
    """

    uri: str
    schema: KeySchema
    columns: StructType
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    target_bytes: int = TARGET_BYTES

    @classmethod
    def create_or_open(
        cls,
        uri: str | Path,
        schema: KeySchema,
        columns: StructType | pa.Schema,
        storage_options: Mapping[str, str] | None = None,
        target_bytes: int = TARGET_BYTES,
    ) -> Self:
        """The table at `uri`, created if there is none; when several create it at once, one does.

        Raises `TableMismatch` where the table there has other columns or another key, `ReservedColumns`, and
        `StorageKeyError` where the columns do not have the key's.
        """
        struct = columns if isinstance(columns, StructType) else from_arrow_schema(columns)
        struct = nullable(struct)
        location = location_of(uri)
        require_creatable(location, schema, struct)
        log = Log(location, dict(storage_options or {}))
        if not log.exists():
            document = json.dumps(schema.to_json(), sort_keys=True)
            configuration = {_FORMAT: str(FORMAT_VERSION), _KEY_SCHEMA: document}
            log.create(Schema.from_json(logged(struct).json()), configuration)
        found = cls.open(location, storage_options, target_bytes)
        require_same_key(location, schema, found.schema)
        require_same_columns(location, struct, found.columns)
        return found

    @classmethod
    def open(
        cls,
        uri: str | Path,
        storage_options: Mapping[str, str] | None = None,
        target_bytes: int = TARGET_BYTES,
    ) -> Self:
        """The table that is at `uri`. Raises `NotAStateTable`, or `TableMismatch` for another format."""
        location = location_of(uri)
        options = dict(storage_options or {})
        delta = Log(location, options).opened()
        schema = _key_schema(location, delta.metadata().configuration)
        struct = StructType.fromJson(json.loads(delta.schema().to_json()))
        return cls(location, schema, users(struct), options, target_bytes)

    def append(self, rows: DataFrame, *, app_id: str | None = None, batch_id: int | None = None) -> Commit:
        """Add the rows, whatever rows their keys have already."""
        batch = _batch(self.uri, app_id, batch_id)
        require_rows(self.uri, self.columns, rows.schema)
        return self._write(self._own(rows), Kind.ROWS, batch)

    def overwrite(self, rows: DataFrame, *, app_id: str | None = None, batch_id: int | None = None) -> Commit:
        """Put the rows in the place of all that the table has at the time of the commit."""
        batch = _batch(self.uri, app_id, batch_id)
        require_rows(self.uri, self.columns, rows.schema)
        return self._write(self._own(rows), Kind.ROWS, batch, replacing=True)

    def upsert(self, rows: DataFrame, *, app_id: str | None = None, batch_id: int | None = None) -> Commit:
        """Put each row in the place of all rows of its storage key. Raises `RepeatedKey`."""
        batch = _batch(self.uri, app_id, batch_id)
        require_rows(self.uri, self.columns, rows.schema)
        return self._write(self._own(rows).withColumn(DELETED, sf.lit(False)), Kind.CHANGES, batch)  # noqa: FBT003

    def delete(self, keys: DataFrame, *, app_id: str | None = None, batch_id: int | None = None) -> Commit:
        """Remove all rows of the storage keys. Other columns of the table are ignored.

        Raises `RepeatedKey`, `MissingKeyColumns`.
        """
        batch = _batch(self.uri, app_id, batch_id)
        require_keys(self.uri, self.columns, keys.schema, self.schema)
        of_key = {column.name for column in self.schema.columns}
        rows = keys.select(
            *(
                quoted(column.name)
                if column.name in of_key
                else sf.lit(None).cast(column.dataType).alias(column.name)
                for column in self.columns
            )
        )
        return self._write(rows.withColumn(DELETED, sf.lit(True)), Kind.CHANGES, batch)  # noqa: FBT003

    def snapshot(self, version: int | None = None) -> Snapshot:
        """The files of a version, the newest by default. Raises `VersionGone`."""
        return self._log.snapshot(version)

    def versions(self) -> range:
        """The versions that are kept. Before any vacuum the first is 0, the table as it was made: empty."""
        return self._log.versions()

    def compact(
        self,
        spark: SparkSession,
        mapping: VnodeMapping | None = None,
        *,
        groups: int | None = None,
        force: bool = False,
        fan_in: int = FAN_IN,
        told: Callable[[Sequence[Compaction]], None] = lambda _: None,
    ) -> Commit:
        """Merge the files of small commits into larger ones, where that pays; with `force`, those of all commits.

        One Spark task for each unit of the mapping, or for each of as many groups of vnodes. Where more than `fan_in`
        files overlap, parts of them are merged first, each round a commit; before each, `told` is called with what it
        merges. Readers see the same rows, and plain Delta readers see them too after a forced one. Writers go on
        meanwhile. Raises `ConcurrentCommit` where another compaction or an overwrite came between, and `Malformed`
        for an unowned vnode.
        """
        if fan_in < 2:
            raise Malformed(f"fan_in is the number of files to merge at once, 2 or more, not {fan_in}")
        snapshot = self.snapshot()
        commit = Commit(snapshot.version, 0, (), skipped=True)
        planned = plan_compaction(snapshot.files, force=force)
        schema = in_arrow(stored(self.columns))
        everything = Selection(self.schema.table_id, schema, ALL_PREFIXES, self.storage_options)
        while planned is not None:
            round_ = parts(planned, fan_in) or (planned,)
            told(round_)
            merges = [
                Merge(part, prefixes)
                for part in round_
                for prefixes in (
                    prefix_groups(part, mapping, groups) if part is planned else prefix_groups(part)
                )
            ]
            written = write_compacted(spark, merges, self.uri, everything, self.target_bytes)
            gone = [file for part in round_ for file in part.files]
            with self._removed_in_vain([file for file, _ in written]):
                commit = self._log.replace(snapshot, gone, written)
            if planned in round_:
                break
            # Not a later one: what others have compacted since is not to be written once more, but to be told.
            snapshot = self.snapshot(commit.version)
            before, planned = planned, remaining(planned, snapshot.files)
            if planned is not None and overlap(planned.files) >= overlap(before.files):
                # No more is won by parts, as where one prefix fills many files.
                fan_in = overlap(planned.files)
        return commit

    def vacuum(self, *, older_than_hours: int = 168, dry_run: bool = False) -> tuple[str, ...]:
        """Remove the files that no version of the last so many hours has, and those versions; their names.

        These are also the files of writers that died. No writer, reader or compaction may be at work for longer than
        the hours: what it has written would be removed before its commit, and what it reads meanwhile.
        """
        return self._log.vacuum(older_than_hours, dry_run=dry_run)

    @property
    def _log(self) -> Log:
        return Log(self.uri, self.storage_options)

    def _own(self, rows: DataFrame) -> DataFrame:
        return rows.select(*(quoted(name) for name in self.columns.names))

    def _write(self, rows: DataFrame, kind: Kind, batch: Batch | None, *, replacing: bool = False) -> Commit:
        begun = self._log.begin(batch)
        if batch is not None and begun == batch.id:
            return Commit(self._log.opened().version(), 0, (), skipped=True)
        name = str(kind) if batch is None else f"{kind}-{batch.id}"
        written = write_files(
            rows, self.uri, self.schema, name, kind, self.target_bytes, self.storage_options
        )
        files = [file for one in written for file in one.files]
        repeated = repeated_key(rows.sparkSession, self.uri, written, self.storage_options)
        if repeated is not None:
            remove_files(self.uri, (file.name for file in files), self.storage_options)
            raise RepeatedKey(self.uri, dict(self.schema.decode(repeated).row))
        with self._removed_in_vain(files):
            commit = self._log.add(files, batch, begun, replacing=replacing)
        if commit.skipped:
            self._remove_in_vain(files)
        return commit

    @contextmanager
    def _removed_in_vain(self, files: Sequence[WrittenFile]) -> Iterator[None]:
        """Where a commit is refused."""
        try:
            yield
        except (ConcurrentCommit, NotCommitted):
            self._remove_in_vain(files)
            raise

    def _remove_in_vain(self, files: Sequence[WrittenFile]) -> None:
        """In an object store, where a commit may land late, they wait for a vacuum."""
        if not is_object_store(self.uri):
            remove_files(self.uri, (file.name for file in files), self.storage_options)


def _batch(uri: str, app_id: str | None, batch_id: int | None) -> Batch | None:
    if app_id is None and batch_id is None:
        return None
    if app_id is None or batch_id is None:
        raise UnusableBatch(uri, app_id, batch_id, "give both, or neither for a write that is not idempotent")
    if not app_id or app_id.startswith(APP_ID_PREFIX):
        raise UnusableBatch(
            uri, app_id, batch_id, f"ids from {APP_ID_PREFIX!r} on are the table's; use another"
        )
    return Batch(app_id, batch_id)


def _key_schema(uri: str, configuration: Mapping[str, str]) -> KeySchema:
    try:
        version, document = (configuration[name] for name in (_FORMAT, _KEY_SCHEMA))
    except KeyError as error:
        raise NotAStateTable(uri, f"its configuration has no {error.args[0]}; use another path") from None
    if version != str(FORMAT_VERSION):
        raise TableMismatch(
            uri,
            "its format version",
            ours=str(FORMAT_VERSION),
            theirs=version,
            advice="read it with the vnodemap that wrote it, and write the rows to a new table with this one",
        )
    try:
        return KeySchema.from_json(json.loads(document))
    except ValueError as error:
        raise NotAStateTable(uri, f"its key schema cannot be used: {error}") from error
