"""Compactions: which commits they take, and that no reader sees that they were there."""

import json
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction, RemoveAction
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from dispatcher.table import state_table
from dispatcher.table.compaction import Compaction, parts, plan_compaction, remaining
from dispatcher.table.errors import ConcurrentCommit
from dispatcher.table.file import DataFile, Kind
from dispatcher.table.files import write_sorted
from dispatcher.table.log import Commit, Log
from dispatcher.table.sorted_file import overlap
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


@given(
    st.lists(st.tuples(st.integers(1, 12), st.integers(0, 40), st.integers(0, 9)), min_size=1, max_size=60),
    st.integers(4, 9),
)
def test_the_parts_of_a_compaction_are_ranges_of_their_own_in_which_few_files_overlap(
    found: list[tuple[int, int, int]], fan_in: int
) -> None:
    files = [
        replace(file(sequence, 9, at), first_prefix=first, last_prefix=first + more)
        for at, (sequence, first, more) in enumerate(found)
    ]
    planned = plan_compaction(files, force=True)
    assert planned is not None
    cut = parts(planned, fan_in)
    if overlap(files) <= fan_in:
        assert cut == (planned,)
        return
    assert cut
    for part in cut:
        assert overlap(part.files) <= fan_in
        assert not part.whole
        within = range(part.changes_sequence, part.rows_sequence + 1)
        if len(within) > 1:
            assert Counter(part.files) == Counter(file for file in files if file.sequence in within)
    taken = Counter(file for part in cut for file in part.files)
    assert set(taken.values()) == {1}
    again = remaining(planned, files)
    assert again is not None
    assert Counter(again.files) == Counter(planned.files)


def test_many_overlapping_commits_are_merged_a_few_at_a_time(spark: SparkSession, tmp_path: Path) -> None:
    """With a writer between two rounds; the large first commit is written once."""
    story = Story(spark, StateTable.create_or_open(tmp_path, KEY, COLUMNS), seed=12)
    commit_many(story, 30, first_rows=300)
    (first, *_) = (file.path for file in story.table.snapshot().files)
    rounds: list[Sequence[Compaction]] = []

    def told(round_: Sequence[Compaction]) -> None:
        if len(rounds) == 1:
            story.write("upsert", 20)
        rounds.append(round_)

    commit = story.table.compact(spark, force=True, fan_in=6, told=told)
    story.rows[commit.version] = story.newest
    assert len(rounds) > 1
    assert all(overlap(part.files) <= 6 for round_ in rounds for part in round_)
    assert [len(round_) for round_ in rounds][-1] == 1
    assert sum(first in {file.path for file in part.files} for round_ in rounds for part in round_) == 1
    story.check()
    assert {file.kind for file in story.table.snapshot().files if file.sequence <= 30} == {Kind.ROWS}
    assert len(story.table.snapshot().files) <= 4


def test_what_others_compact_between_two_rounds_is_not_compacted_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(spark, StateTable.create_or_open(tmp_path, KEY, COLUMNS), seed=14)
    commit_many(story, 12, first_rows=10)
    replacing = Log.replace

    def with_another_behind(self: Log, *args: Any) -> Commit:
        monkeypatch.setattr(Log, "replace", replacing)
        commit, now = replacing(self, *args), self.snapshot()
        replacing(self, now, now.files, [])
        return commit

    monkeypatch.setattr(Log, "replace", with_another_behind)
    monkeypatch.setattr(state_table, "write_compacted", lambda *_: ())
    with pytest.raises(ConcurrentCommit, match="compact again"):
        story.table.compact(spark, force=True, fan_in=4)


@pytest.mark.slow
def test_two_thousand_commits_are_merged_with_few_files_open(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(spark, StateTable.create_or_open(tmp_path, KEY, COLUMNS), seed=13)
    commit_many(story, 2000, first_rows=100)
    rounds: list[Sequence[Compaction]] = []
    commit = story.table.compact(spark, force=True, told=rounds.append)
    story.rows[commit.version] = story.newest
    assert len(rounds) <= 3
    assert all(overlap(part.files) <= 128 for round_ in rounds for part in round_)
    story.check()
    assert_plain(story.table)


def commit_many(story: Story, commits: int, first_rows: int) -> None:
    """What so many writes leave, in one version of the log: without Spark, since each would take a while."""
    table, dice = story.table, story.dice
    actions: list[AddAction | RemoveAction] = []
    for sequence in range(1, commits + 1):
        kind = Kind.ROWS if sequence == 1 else dice.choice(list(Kind))
        keys = [(dice.randrange(40), dice.choice([None, "", "a"])) for _ in range(dice.randint(1, 6))]
        if sequence == 1:
            keys = [(dice.randrange(40), "a") for _ in range(first_rows)]
        if kind is Kind.CHANGES:
            keys = list(dict.fromkeys(keys))
        changes = [
            {
                "v": f"{sequence}.{at}",
                "k": k,
                "s": s,
                "_deleted": kind is Kind.CHANGES and dice.random() < 0.3,
            }
            for at, (k, s) in enumerate(keys)
        ]
        before = [] if sequence == 1 else story.newest
        if kind is Kind.CHANGES:
            before = [row for row in before if (row[1], row[2]) not in keys]
        story.rows = {1: before + [(row["v"], row["k"], row["s"]) for row in changes if not row["_deleted"]]}
        (written,) = write_sorted([_keyed(changes, kind)], table.uri, str(kind), kind, 1 << 27)
        statistics = {
            "numRecords": written.rows,
            "minValues": {"_vnode_prefix": written.first_prefix},
            "maxValues": {"_vnode_prefix": written.last_prefix},
        }
        actions.append(
            AddAction(
                written.name,
                written.size_bytes,
                {"_sequence": str(sequence), "_kind": str(kind)},
                written.written_ms,
                data_change=True,
                stats=json.dumps(statistics),
            )
        )
    delta = DeltaTable(table.uri)
    delta.create_write_transaction(
        actions,
        "append",
        delta.schema(),
        partition_by=["_sequence", "_kind"],
        commit_properties=CommitProperties(app_transactions=[Transaction("vnodemap.sequence", commits)]),
    )


def _keyed(changes: list[dict[str, Any]], kind: Kind) -> pa.Table:
    rows = sorted(
        ({**row, "_vnode_prefix": KEY.prefix(row), "_storage_key": KEY.storage_key(row)} for row in changes),
        key=lambda row: row["_storage_key"],
    )
    columns = [("v", pa.string()), ("k", pa.int64()), ("s", pa.string()), ("_deleted", pa.bool_())]
    columns += [("_vnode_prefix", pa.int32()), ("_storage_key", pa.binary())]
    found = pa.Table.from_pylist(rows, pa.schema(columns))
    return found if kind is Kind.CHANGES else found.drop_columns("_deleted")


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
    replacing = Log.replace
    between: list[Callable[[], Commit]] = [lambda: table.upsert(first), lambda: table.append(second)]

    def late(self: Log, *args: Any) -> Commit:
        while between:
            between.pop(0)()
        return replacing(self, *args)

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
