"""The log of a state table, which deltalake reads and writes.

Every commit that adds rows takes the next number (`_sequence`) as a transaction id of Delta's: of two that take one
number at once, one is refused and commits the same files again under the next. A commit that replaces files takes a
number of its own kind, since Delta lets two commits remove one file.
"""

import json
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
import stamina
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from deltalake.transaction import AddAction, RemoveAction

from dispatcher.table.errors import (
    AnotherCheckpoint,
    BadRetention,
    ConcurrentCommit,
    ForeignFile,
    NotAStateTable,
    NotCommitted,
    VersionGone,
)
from dispatcher.table.file import KIND, PREFIX, SEQUENCE, DataFile, Kind
from dispatcher.table.files import WrittenFile, existing_files, missing_files
from dispatcher.table.location import is_object_store

APP_ID_PREFIX: Final = "vnodemap."
_SEQUENCE_ID, _REPLACED_ID, _KEPT_ID = "vnodemap.sequence", "vnodemap.replaced", "vnodemap.kept"

_COMMIT: Final = "vnodemap.commit"
_AGAIN: Final = (
    "write it again (with the same app_id and batch_id: an object store may still do what it did not answer)"
)

_LOG_KEPT_HOURS: Final = 30 * 24
_CONFIGURATION: Final = {
    # Delta keeps statistics of the first 32 columns unless told which.
    "delta.dataSkippingStatsColumns": PREFIX,
    # Versions go by `vacuum` alone.
    "delta.enableExpiredLogCleanup": "false",
    "delta.logRetentionDuration": f"interval {_LOG_KEPT_HOURS} hours",
}
_MS_OF_HOUR: Final = 3_600_000
RETENTION_HOURS_MAX: Final = 100 * 366 * 24
_RACING_S: Final = 120.0
_BACKTRACE: Final = re.compile(" 0: [^ ]+ 1: [^ ]+ .*")
_PAINT: Final = re.compile("\x1b\\[[0-9;]*m|\u21b3")


@dataclass(frozen=True, slots=True)
class Batch:
    """`app_id` is one query's own; its batch ids grow."""

    app_id: str
    id: int

    def __str__(self) -> str:
        return f"batch {self.id} of {self.app_id}"


@dataclass(frozen=True, slots=True)
class Commit:
    """A batch in the table: `version` holds it, though a later version than its own may be named.

    `skipped` where it had been committed before, or there was nothing to do: then `rows` is 0.
    """

    version: int
    rows: int
    files: tuple[str, ...]
    skipped: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The files of a version; their paths are absolute."""

    version: int
    files: tuple[DataFile, ...]


class _Own:
    """A mark by which a commit is found again: one may land though an error says that it did not.

    So it is where the checkpoint after it fails, or the answer of a file system is lost and the call made again. Its
    files are no mark, since a compaction may have replaced them by then.
    """

    def __init__(self) -> None:
        self._id = uuid4().hex

    def properties(self, transactions: list[Transaction]) -> CommitProperties:
        return CommitProperties(custom_metadata={_COMMIT: self._id}, app_transactions=transactions)

    def landed(self, delta: DeltaTable, since: int) -> bool:
        """In a later version than `since`."""
        later = delta.version() - since
        return later > 0 and any(commit.get(_COMMIT) == self._id for commit in delta.history(later))


class _Overtaken(Exception):
    """The log went on meanwhile, so that the commit may land at the next try."""


@dataclass(frozen=True, slots=True)
class Log:
    uri: str
    storage_options: Mapping[str, str]

    def exists(self) -> bool:
        try:
            return DeltaTable.is_deltatable(self.uri, dict(self.storage_options))
        except (DeltaError, OSError) as error:
            raise NotAStateTable(self.uri, f"{_reason(error)}; use another path") from error

    def create(self, schema: Schema, configuration: Mapping[str, str]) -> None:
        """Unless there is a table by then."""
        try:
            DeltaTable.create(
                self.uri,
                schema,
                partition_by=[SEQUENCE, KIND],
                configuration={**_CONFIGURATION, **configuration},
                storage_options=dict(self.storage_options),
                # Retried, a create that lost the race would land as version 1, over the winner's metadata.
                commit_properties=CommitProperties(max_commit_retries=0),
                raise_if_key_not_exists=False,
            )
        except (DeltaError, OSError) as error:
            if not self.exists():
                raise NotAStateTable(self.uri, f"it cannot be created there: {_reason(error)}") from error

    def opened(self) -> DeltaTable:
        try:
            return DeltaTable(self.uri, storage_options=dict(self.storage_options))
        except TableNotFoundError:
            reason = "there is no Delta table; is this its path? (a program makes one by StateTable.create_or_open)"
            raise NotAStateTable(self.uri, reason) from None
        except (DeltaError, OSError) as error:
            advice = "restore it, or use another path"
            if is_object_store(self.uri):
                advice = "look at its address and the storage options, or restore it"
            raise NotAStateTable(self.uri, f"{_reason(error)}; {advice}") from error

    def snapshot(self, version: int | None = None) -> Snapshot:
        delta = self.opened()
        if version is not None:
            kept = _versions(delta)
            if version not in kept:
                raise VersionGone(self.uri, version, kept[0], kept[-1])
            try:
                delta.load_as_version(version)
            except DeltaError as error:
                # Another program has cleaned the log.
                oldest = min(commit["version"] for commit in self.opened().history())
                raise VersionGone(self.uri, version, oldest, kept[-1]) from error
        return Snapshot(delta.version(), _data_files(self.uri, delta))

    def versions(self) -> range:
        return _versions(self.opened())

    def begin(self, batch: Batch | None) -> int | None:
        """The batch id that `batch.app_id` committed last. Raises `AnotherCheckpoint` where `batch` is before it."""
        committed = None if batch is None else self.opened().transaction_version(batch.app_id)
        if batch is not None and committed is not None and committed > batch.id:
            raise AnotherCheckpoint(self.uri, batch.app_id, batch.id, committed)
        return committed

    def add(
        self, files: Sequence[WrittenFile], batch: Batch | None, begun: int | None, *, replacing: bool
    ) -> Commit:
        """Commit the files, in the place of all others if `replacing`, under the next sequence that is free.

        `begun` is what `begin` returned before they were written. Raises `ConcurrentCommit`, and `NotCommitted` where
        the log cannot be written.
        """
        since, own = self.opened().version(), _Own()
        self._require_there(files, str(batch or "a write"), "write it again")
        try:
            for attempt in stamina.retry_context(
                on=_Overtaken,
                attempts=None,
                timeout=_RACING_S,
                wait_initial=0.01,
                wait_max=0.5,
                wait_jitter=0.1,
            ):
                with attempt:
                    return self._add(files, batch, begun, since, own, replacing=replacing)
        except _Overtaken as error:
            raise ConcurrentCommit(self.uri, str(batch or "a write"), f"{error}; write it again") from error
        raise AssertionError("stamina returns or raises")

    def _add(
        self,
        files: Sequence[WrittenFile],
        batch: Batch | None,
        begun: int | None,
        since: int,
        own: _Own,
        *,
        replacing: bool,
    ) -> Commit:
        # What is committed between this state of the log and ours makes it fail, if it is of our app or takes a number.
        delta = self.opened()
        if own.landed(delta, since):
            return _committed(delta, files)
        if batch is not None and (committed := delta.transaction_version(batch.app_id)) != begun:
            if committed == batch.id:
                return Commit(delta.version(), 0, (), skipped=True)
            reason = f"{batch.app_id} has meanwhile committed batch {committed}; let one query write as it"
            raise ConcurrentCommit(self.uri, str(batch), reason)
        sequence = _next(delta, _SEQUENCE_ID)
        transactions = [Transaction(_SEQUENCE_ID, sequence)]
        if batch is not None:
            transactions.append(Transaction(batch.app_id, batch.id))
        if replacing:
            transactions.append(Transaction(_REPLACED_ID, _next(delta, _REPLACED_ID)))
        try:
            delta.create_write_transaction(
                [_added(file, sequence, data_change=True) for file in files],
                "overwrite" if replacing else "append",
                delta.schema(),
                partition_by=[SEQUENCE, KIND],
                commit_properties=own.properties(transactions),
            )
        except (DeltaError, OSError) as error:
            now = self.opened()
            if own.landed(now, since):
                return _committed(now, files)
            if now.version() > delta.version():
                raise _Overtaken(_reason(error)) from error
            raise NotCommitted(self.uri, str(batch or "a write"), _reason(error), _AGAIN) from error
        return _committed(delta, files)

    def replace(
        self, snapshot: Snapshot, gone: Sequence[DataFile], files: Sequence[tuple[WrittenFile, int]]
    ) -> Commit:
        """Put the files, each with its sequence, in the place of those `gone`, which hold the same rows.

        Commits since the snapshot that add rows do not matter. Raises `ConcurrentCommit` after one that replaced some,
        and `NotCommitted` where the log cannot be written.
        """
        delta = self.opened()
        delta.load_as_version(snapshot.version)
        actions: list[AddAction | RemoveAction] = [
            *(_removed(self.uri, file) for file in gone),
            *(_added(file, sequence, data_change=False) for file, sequence in files),
        ]
        written, own = [file for file, _ in files], _Own()
        self._require_there(written, "a compaction", "compact again")
        try:
            delta.create_write_transaction(
                actions,
                "append",
                delta.schema(),
                partition_by=[SEQUENCE, KIND],
                commit_properties=own.properties([Transaction(_REPLACED_ID, _next(delta, _REPLACED_ID))]),
            )
        except (DeltaError, OSError) as error:
            now = self.opened()
            if own.landed(now, snapshot.version):
                return _committed(now, written)
            if not isinstance(error, CommitFailedError):
                raise NotCommitted(self.uri, "a compaction", _reason(error), "compact again") from error
            came = f"another compaction or an overwrite came between ({_reason(error)})"
            reason = f"{came}; compact again if it is still needed"
            raise ConcurrentCommit(self.uri, "a compaction", reason) from error
        return _committed(delta, written)

    def _require_there(self, files: Sequence[WrittenFile], what: str, again: str) -> None:
        """To a vacuum, files that no version names yet look like those of a writer that died."""
        try:
            gone = missing_files(self.uri, (file.name for file in files), self.storage_options)
        except OSError as error:
            raise NotCommitted(self.uri, what, _reason(error), again) from error
        if gone:
            reason = (
                f"of its {len(files)} files {len(gone)} cannot be seen from here: a vacuum of fewer hours than it took"
                " has removed them, or executors and driver do not share the folder"
            )
            advice = f"{again}, and vacuum with a larger older_than_hours"
            raise ConcurrentCommit(self.uri, what, f"{reason}; {advice}")

    def vacuum(self, older_than_hours: int, *, dry_run: bool) -> tuple[str, ...]:
        """The names of the files that are removed, or would be. Raises `BadRetention`, `NotCommitted`."""
        if type(older_than_hours) is not int or not 0 <= older_than_hours <= RETENTION_HOURS_MAX:
            raise BadRetention(self.uri, older_than_hours, RETENTION_HOURS_MAX)
        try:
            return self._vacuum(older_than_hours, dry_run=dry_run)
        except (DeltaError, OSError) as error:
            raise NotCommitted(self.uri, "a vacuum", _reason(error), "vacuum again") from error

    def _vacuum(self, older_than_hours: int, *, dry_run: bool) -> tuple[str, ...]:
        delta = self.opened()
        now_ms = time.time_ns() // 1_000_000
        first, since_ms = _newest_at(delta, now_ms - older_than_hours * _MS_OF_HOUR)
        found = self._removed_by(delta, first, older_than_hours, dry_run=True)
        if dry_run or not (found or first > _versions(delta)[0]):
            return found
        if first > _versions(delta)[0]:
            # First of all, so that nobody begins to read what is about to go.
            self._keep_from(delta, first)
        self._removed_by(delta, first, older_than_hours, dry_run=False)
        delta.create_checkpoint()
        # Delta goes by the age of the log's files, which a version may need that nothing has followed for long.
        if since_ms > now_ms - _LOG_KEPT_HOURS * _MS_OF_HOUR:
            delta.cleanup_metadata()
        return found

    def _removed_by(
        self, delta: DeltaTable, first: int, older_than_hours: int, *, dry_run: bool
    ) -> tuple[str, ...]:
        names = delta.vacuum(
            retention_hours=older_than_hours,
            dry_run=dry_run,
            enforce_retention_duration=False,
            full=True,
            # All of them: for the oldest alone, Delta forgets in a week which files the others have.
            keep_versions=list(range(first, delta.version() + 1)),
        )
        # Delta names those again that an earlier vacuum removed.
        return existing_files(
            self.uri, {name.removeprefix(f"{self.uri}/") for name in names}, self.storage_options
        )

    def _keep_from(self, delta: DeltaTable, version: int) -> None:
        try:
            delta.create_write_transaction(
                [],
                "append",
                delta.schema(),
                partition_by=[SEQUENCE, KIND],
                commit_properties=CommitProperties(app_transactions=[Transaction(_KEPT_ID, version)]),
            )
        except CommitFailedError as error:
            reason = f"another vacuum came between ({_reason(error)}); that one does the work"
            raise ConcurrentCommit(self.uri, "a vacuum", reason) from error
        delta.update_incremental()


def _newest_at(delta: DeltaTable, at_ms: int) -> tuple[int, int]:
    """The version that was the newest then, or the oldest that is kept, and when it was committed.

    What was removed before it was is in no later version.
    """
    kept = _versions(delta)
    commits = [commit for commit in delta.history() if commit["version"] in kept]
    found = next((commit for commit in commits if commit["timestamp"] <= at_ms), commits[-1])
    return found["version"], found["timestamp"]


def _next(delta: DeltaTable, app_id: str) -> int:
    return (delta.transaction_version(app_id) or 0) + 1


def _versions(delta: DeltaTable) -> range:
    return range(delta.transaction_version(_KEPT_ID) or 0, delta.version() + 1)


def _reason(error: Exception) -> str:
    """On one line; deltalake paints it for a terminal, and may add where in its own code it was."""
    return _BACKTRACE.sub("", " ".join(_PAINT.sub("", str(error)).split()))


def _committed(delta: DeltaTable, files: Sequence[WrittenFile]) -> Commit:
    delta.update_incremental()
    names = tuple(file.name for file in files)
    return Commit(delta.version(), sum(file.rows for file in files), names, skipped=False)


def _added(file: WrittenFile, sequence: int, *, data_change: bool) -> AddAction:
    statistics = {
        "numRecords": file.rows,
        "minValues": {PREFIX: file.first_prefix},
        "maxValues": {PREFIX: file.last_prefix},
        "nullCount": {PREFIX: 0},
    }
    return AddAction(
        path=file.name,
        size=file.size_bytes,
        partition_values={SEQUENCE: str(sequence), KIND: str(file.kind)},
        modification_time=file.written_ms,
        data_change=data_change,
        stats=json.dumps(statistics),
    )


def _removed(uri: str, file: DataFile) -> RemoveAction:
    return RemoveAction(
        path=file.path.removeprefix(f"{uri}/"),
        data_change=False,
        deletion_timestamp=time.time_ns() // 1_000_000,
        size=file.size_bytes,
        partition_values={SEQUENCE: str(file.sequence), KIND: str(file.kind)},
    )


def _data_files(uri: str, delta: DeltaTable) -> tuple[DataFile, ...]:
    """In the order of their sequences. Raises `ForeignFile`."""
    actions = pa.table(delta.get_add_actions(flatten=True))
    names = (
        *("path", "num_records", "size_bytes", f"min.{PREFIX}", f"max.{PREFIX}"),
        *(f"partition.{SEQUENCE}", f"partition.{KIND}"),
    )
    columns = [
        actions[name].to_pylist() if name in actions.column_names else [None] * actions.num_rows
        for name in names
    ]
    found = []
    for file in zip(*columns, strict=True):
        path, rows, size_bytes, first, last, sequence, kind = file
        # Ours lie side by side; others put theirs in a folder for each value that a table is partitioned by.
        if "/" in path or None in file:
            raise ForeignFile(uri, path, delta.version())
        found.append(DataFile(f"{uri}/{path}", rows, size_bytes, first, last, sequence, Kind(kind)))
    return tuple(sorted(found, key=lambda file: (file.sequence, file.kind, file.first_prefix, file.path)))
