"""Compactions: which commits they take, and that no reader sees that they were there."""

import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dispatcher.table.compaction import plan_compaction
from dispatcher.table.errors import ConcurrentCommit
from dispatcher.table.file import DataFile, Kind
from dispatcher.table.log import Commit, Log
from dispatcher.table.state_table import StateTable
from storage_keys.vnode import vnode_of
from tests.dispatcher.table.story import COLUMNS, KEY, MAPPING, Story
from tests.dispatcher.table.visible import visible


def file(sequence: int, size_bytes: int, number: int = 0) -> DataFile:
    return DataFile(f"{sequence}-{number}", 1, size_bytes, 0, 65_535, sequence, Kind.CHANGES)


@given(st.lists(st.tuples(st.integers(1, 12), st.integers(1, 1000)), max_size=20))
def test_a_compaction_takes_the_newest_sequences_with_all_their_files(sizes: list[tuple[int, int]]) -> None:
    files = [file(*size, at) for at, size in enumerate(sizes)]
    assert plan_compaction(files, force=True) == plan_compaction(files[::-1], force=True)
    found = plan_compaction(files)
    sequences = sorted({file.sequence for file in files}, reverse=True)
    if found is None:
        # The commits before the newest three are each larger than all after them.
        of_sequence = [sum(file.size_bytes for file in files if file.sequence == one) for one in sequences]
        assert all(of_sequence[at] > sum(of_sequence[:at]) for at in range(3, len(of_sequence)))
        return
    taken = sorted({file.sequence for file in found.files}, reverse=True)
    assert taken == sequences[: len(taken)]
    assert len(taken) >= 4
    assert Counter(found.files) == Counter(file for file in files if file.sequence in taken)
    assert found.whole == (len(taken) == len(sequences))
    assert (found.changes_sequence, found.rows_sequence) == (taken[-1], taken[0])


def test_compacted_after_each_commit_a_table_stays_readable_and_is_rewritten_rarely() -> None:
    files: list[DataFile] = []
    rewritten = 0
    for sequence in range(1, 1001):
        files.append(file(sequence, 10))
        found = plan_compaction(files)
        if found is not None:
            size_bytes = sum(file.size_bytes for file in found.files)
            rewritten += size_bytes
            files = [file for file in files if file not in found.files]
            files.append(file(found.rows_sequence, size_bytes))
        assert len(files) <= 4 + math.log2(sequence)
    assert rewritten <= 1000 * 10 * math.log2(1000)


def test_compactions_of_all_kinds_change_no_row_of_any_version(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(spark, StateTable.create_or_open(tmp_path, KEY, COLUMNS, target_bytes=500), seed=9)
    story.write("append", 1000)
    for what in ("append", "upsert", "delete", "append"):
        story.write(what, 12)
    # The first commit is large, so it stays, and so do the changes that hide rows of it.
    story.compact()
    kept = {(file.sequence, file.kind) for file in story.table.snapshot().files}
    assert kept == {(1, Kind.ROWS), (2, Kind.CHANGES), (5, Kind.ROWS)}
    for what in ("upsert", "append"):
        story.write(what, 12)
    story.compact(force=True, mapping=MAPPING)
    story.check()
    assert_plain(story.table)
    for found in story.table.snapshot().files:
        ends = (found.first_prefix, found.last_prefix)
        assert len({MAPPING.owners[vnode_of(prefix, 256)] for prefix in ends}) == 1


def test_a_compaction_of_everything_deleted_leaves_no_file(spark: SparkSession, tmp_path: Path) -> None:
    """By URL, as in an object store."""
    table = StateTable.create_or_open(f"file://{tmp_path}", KEY, COLUMNS)
    assert table.compact(spark, force=True).skipped
    rows = spark.createDataFrame([("x", 1, "a"), ("y", 2, None)], COLUMNS)
    table.append(rows)
    assert table.compact(spark).skipped
    table.delete(rows)
    assert not table.compact(spark, force=True).skipped
    assert table.snapshot().files == ()
    table.append(rows)
    assert [file.sequence for file in table.snapshot().files] == [3, 3]
    assert len(visible(table)) == 2
    assert len(table.vacuum(older_than_hours=0)) == 4
    assert len(list(tmp_path.glob("*.parquet"))) == 2
    assert len(visible(table)) == 2


def test_compactions_at_once_and_appends_beside_them(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other writers come when the first compaction has written its files and not committed them."""
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    first = spark.createDataFrame([("x", 1, "a"), ("y", 2, None)], COLUMNS).coalesce(1)
    second = spark.createDataFrame([("z", 1, "a")], COLUMNS)
    table.append(first)
    table.upsert(second)
    replace = Log.replace
    between: list[Callable[[], Commit]] = [lambda: table.upsert(first), lambda: table.append(second)]

    def late(self: Log, *args: Any) -> Commit:
        while between:
            between.pop(0)()
        return replace(self, *args)

    monkeypatch.setattr(Log, "replace", late)
    table.compact(spark, force=True, groups=2)
    assert visible(table) == [("x", 1, "a"), ("z", 1, "a"), ("y", 2, None)]
    assert sorted({file.sequence for file in table.snapshot().files}) == [2, 3, 4]
    between.append(lambda: table.compact(spark, force=True, groups=1))
    with pytest.raises(ConcurrentCommit, match="compact again"):
        table.compact(spark, force=True, groups=2)
    assert visible(table) == [("x", 1, "a"), ("z", 1, "a"), ("y", 2, None)]
    assert_plain(table)
    # The files that were written in vain go.
    assert len(list(tmp_path.glob("*.parquet"))) > 1
    table.vacuum(older_than_hours=0)
    assert [str(path) for path in tmp_path.glob("*.parquet")] == [
        file.path for file in table.snapshot().files
    ]


def assert_plain(table: StateTable) -> None:
    """Of changes nothing is left, so that all that reads Delta tables sees the same rows."""
    files = table.snapshot().files
    assert {file.kind for file in files} == {Kind.ROWS}
    rows = DeltaTable(table.uri).to_pyarrow_table(columns=table.columns.names).to_pylist()
    assert Counter(tuple(row.values()) for row in rows) == Counter(visible(table))
