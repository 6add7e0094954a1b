"""The log of a state table: commits that race, versions that are kept, files that are removed. No Spark."""

import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable, Schema
from deltalake.exceptions import CommitFailedError
from pyspark.sql.types import StructType

from dispatcher.table.columns import logged
from dispatcher.table.errors import BadRetention, ConcurrentCommit, NotCommitted, VersionGone
from dispatcher.table.file import Kind
from dispatcher.table.files import WrittenFile
from dispatcher.table.log import Batch, Log


@pytest.fixture
def log(tmp_path: Path) -> Log:
    log = Log(str(tmp_path / "t"), {})
    log.create(Schema.from_json(logged(StructType().add("k", "long")).json()), {})
    return log


def written(log: Log, name: str, kind: Kind = Kind.ROWS) -> WrittenFile:
    Path(log.uri, name).write_text("its bytes")
    return WrittenFile(name, kind, 5, 9, 3, 8, time.time_ns() // 1_000_000)


def add(log: Log, name: str, *, replacing: bool = False) -> int:
    return log.add([written(log, name)], None, None, replacing=replacing).version


def names(log: Log, version: int | None = None) -> dict[str, int]:
    return {Path(file.path).name: file.sequence for file in log.snapshot(version).files}


def test_writers_that_race_all_land_each_with_a_sequence_of_its_own(log: Log) -> None:
    start = threading.Barrier(3)
    failed: list[Exception] = []

    def write(app: str) -> None:
        start.wait()
        try:
            for number in range(4):
                batch = Batch(app, number)
                file = written(log, f"{app}{number}")
                assert not log.add([file], batch, log.begin(batch), replacing=False).skipped
        except Exception as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(app,)) for app in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    found = names(log)
    assert sorted(found.values()) == list(range(1, 13))
    for app in "abc":
        # Each writer's own batches are in their order.
        assert [name for name in found if name[0] == app] == [f"{app}{number}" for number in range(4)]


def test_a_compaction_and_the_commits_beside_it_all_land(log: Log) -> None:
    for name in "abc":
        add(log, name)
    before = log.snapshot()
    add(log, "d")
    log.replace(before, before.files, [(written(log, "abc"), 3)])
    assert names(log) == {"abc": 3, "d": 4}
    add(log, "e")
    assert names(log) == {"abc": 3, "d": 4, "e": 5}
    assert names(log, before.version) == {"a": 1, "b": 2, "c": 3}


def test_of_two_that_replace_files_one_is_told(log: Log) -> None:
    add(log, "a")
    add(log, "b")
    before = log.snapshot()
    log.replace(before, before.files, [(written(log, "ab"), 2)])
    with pytest.raises(ConcurrentCommit, match="compact again") as refused:
        log.replace(before, before.files[1:], [(written(log, "late"), 2)])
    assert refused.value.what == "a compaction"
    assert names(log) == {"ab": 2}
    before = log.snapshot()
    add(log, "new", replacing=True)
    with pytest.raises(ConcurrentCommit):
        log.replace(before, before.files, [(written(log, "late"), 2)])
    assert names(log) == {"new": 3}


def test_an_overwrite_replaces_what_is_there_when_it_lands(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever comes between its look at the log and its commit: here a compaction, then an append."""
    add(log, "a")
    before = log.snapshot()
    between = [
        lambda: log.replace(before, before.files, [(written(log, "compacted"), 1)]),
        lambda: add(log, "b"),
    ]
    commit = DeltaTable.create_write_transaction

    def late(self: DeltaTable, actions: object, mode: str, *args: object, **kwargs: object) -> None:
        if mode == "overwrite" and between:
            between.pop(0)()
        commit(self, actions, mode, *args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(DeltaTable, "create_write_transaction", late)
    add(log, "new", replacing=True)
    assert between == []
    assert list(names(log)) == ["new"]


def test_a_vacuum_removes_what_no_kept_version_names_and_those_versions(log: Log) -> None:
    for name in "abc":
        add(log, name)
    before = log.snapshot()
    log.replace(before, before.files[:2], [(written(log, "ab"), 2)])
    written(log, "of a writer that was killed")
    newest = log.versions()[-1]

    # All of it is younger than a week.
    assert log.vacuum(168, dry_run=False) == ()
    assert names(log, 1) == {"a": 1}
    gone = ("a", "b", "of a writer that was killed")
    assert log.vacuum(0, dry_run=True) == gone
    assert Path(log.uri, "a").exists()
    assert names(log, 1) == {"a": 1}
    assert log.vacuum(0, dry_run=False) == gone
    assert not any(Path(log.uri, name).exists() for name in gone)
    assert log.versions()[0] >= newest
    assert names(log) == {"ab": 2, "c": 3}
    assert names(log, log.versions()[0]) == {"ab": 2, "c": 3}
    # What has gone is not named again.
    assert log.vacuum(0, dry_run=True) == ()
    for hours in (-1, 0.5, 10**15):
        kept = log.versions()
        with pytest.raises(BadRetention, match=f"from 0 to 878400, not {hours}"):
            log.vacuum(hours, dry_run=False)  # type: ignore[arg-type]
        assert log.versions() == kept
    with pytest.raises(VersionGone, match="leave the version out for the newest") as refused:
        log.snapshot(-1)
    assert "older_than_hours" not in str(refused.value)
    for version in (1, log.versions()[0] - 1, log.versions()[-1] + 1, -1):
        with pytest.raises(VersionGone, match=f"no version {version} .*are kept") as refused:
            log.snapshot(version)
        assert (refused.value.first, refused.value.last) == (log.versions()[0], log.versions()[-1])
    # Delta remembers for a week what has gone.
    assert set(log.vacuum(0, dry_run=False)) <= set(gone)
    assert names(log) == {"ab": 2, "c": 3}


@pytest.mark.parametrize("what", ["an append", "an overwrite", "a compaction"])
def test_what_a_vacuum_took_before_its_commit_is_not_committed(log: Log, what: str) -> None:
    add(log, "a")
    before, files = log.snapshot(), [written(log, "b"), written(log, "c")]
    Path(log.uri, "c").unlink()
    commit = {
        "an append": lambda: log.add(files, None, None, replacing=False),
        "an overwrite": lambda: log.add(files, None, None, replacing=True),
        "a compaction": lambda: log.replace(before, before.files, [(file, 1) for file in files]),
    }[what]
    with pytest.raises(
        ConcurrentCommit, match=r"of its 2 files 1 cannot be seen.* again, and vacuum with a larger"
    ):
        commit()
    assert names(log) == {"a": 1}


def test_sequences_and_batches_outlive_the_log_files_that_they_were_in(log: Log) -> None:
    """Once there is a checkpoint, older files of the log may go."""
    batch = Batch("q", 8)
    log.add([written(log, "a")], batch, None, replacing=False)
    add(log, "b")
    DeltaTable(log.uri).create_checkpoint()
    for version in (0, 1):
        Path(log.uri, "_delta_log", f"{version:020d}.json").unlink()
    assert log.begin(batch) == 8
    add(log, "c")
    assert names(log) == {"a": 1, "b": 2, "c": 3}
    with pytest.raises(VersionGone):
        log.snapshot(1)
    assert log.vacuum(0, dry_run=False) == ()
    assert names(log) == {"a": 1, "b": 2, "c": 3}


def fill(file: Path) -> None:
    with suppress(OSError), file.open("wb", buffering=0) as opened:
        while True:
            opened.write(bytes(1024))


def test_a_full_disk_is_told_at_once_and_the_table_stays_as_it_was(small_disk: Path) -> None:
    log = Log(str(small_disk / "t"), {})
    log.create(Schema.from_json(logged(StructType().add("k", "long")).json()), {})
    add(log, "a")
    files, before = [written(log, "b")], log.snapshot()
    fill(small_disk / "others")
    begun = time.monotonic()
    with pytest.raises(NotCommitted, match=r"No space left.*space, then write it again") as refused:
        log.add(files, Batch("q", 3), None, replacing=False)
    assert "\n" not in str(refused.value)
    with pytest.raises(NotCommitted, match="a compaction"):
        log.replace(before, before.files, [(files[0], 1)])
    assert time.monotonic() - begun < 10
    assert names(log) == {"a": 1}
    (small_disk / "others").unlink()
    assert not log.add(files, Batch("q", 3), None, replacing=False).skipped
    assert names(log) == {"a": 1, "b": 2}


@pytest.mark.parametrize("error", [OSError("no space for a checkpoint"), CommitFailedError("it is there")])
def test_a_commit_that_landed_before_it_failed_has_landed(
    log: Log, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    """As where a full disk has no room for the checkpoint after it, or a file system repeats a call on its own."""
    commit = DeltaTable.create_write_transaction

    def failing(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        commit(self, *args, **kwargs)
        raise error

    monkeypatch.setattr(DeltaTable, "create_write_transaction", failing)
    assert add(log, "a") == 1
    before = log.snapshot()
    assert log.replace(before, before.files, [(written(log, "b"), 1)]).version == 2
    assert names(log) == {"b": 1}
    # Of a table that is empty now, there are no files to know it by.
    before = log.snapshot()
    assert log.replace(before, before.files, []).version == 3
    assert log.add([], None, None, replacing=True).version == 4
    assert log.versions() == range(5)


def test_a_commit_that_landed_and_was_compacted_is_not_made_again(
    log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = DeltaTable.create_write_transaction

    def compacted_meanwhile(self: DeltaTable, *args: Any, **kwargs: Any) -> None:
        monkeypatch.undo()
        commit(self, *args, **kwargs)
        before = log.snapshot()
        log.replace(before, before.files, [(written(log, "compacted"), 1)])
        raise CommitFailedError("it is there")

    monkeypatch.setattr(DeltaTable, "create_write_transaction", compacted_meanwhile)
    add(log, "a")
    assert names(log) == {"compacted": 1}
