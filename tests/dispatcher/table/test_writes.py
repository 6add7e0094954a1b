"""Appends, upserts, deletes and overwrites, beside a list of rows to which the same is done."""

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dispatcher.routing import dispatch
from dispatcher.scan.reader import scan
from dispatcher.table.errors import (
    ForeignFile,
    MissingKeyColumns,
    NotCommitted,
    RepeatedKey,
    TableMismatch,
    UnknownColumns,
    UnusableBatch,
)
from dispatcher.table.file import Kind
from dispatcher.table.state_table import StateTable
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT
from tests.dispatcher.flights import version_of
from tests.dispatcher.table.story import COLUMNS, KEY, MAPPING, Story
from tests.dispatcher.table.visible import visible


def test_every_version_shows_what_was_done_up_to_it(spark: SparkSession, tmp_path: Path) -> None:
    story = Story(spark, StateTable.create_or_open(tmp_path, KEY, COLUMNS), seed=4)
    for what, row_count in zip(
        ["append", "upsert", "append", "delete", "upsert", "overwrite", "upsert"],
        [20, 15, 9, 5, 0, 15, 3],
        strict=True,
    ):
        story.write(what, row_count)
    story.check()
    assert list(story.table.versions()) == list(story.rows)
    sequences = [file.sequence for file in story.table.snapshot().files]
    assert sequences == sorted(sequences)


@pytest.mark.parametrize("what", ["append", "upsert", "delete", "overwrite"])
def test_a_batch_is_written_once(spark: SparkSession, tmp_path: Path, what: str) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    rows = spark.createDataFrame([("first", 1, "a")], COLUMNS)
    write = getattr(table, what)
    first = write(rows, app_id="q", batch_id=7)
    table.append(spark.createDataFrame([("second", 1, "a")], COLUMNS))
    before = visible(table)
    again = write(rows, app_id="q", batch_id=7)
    assert (first.skipped, again.skipped, again.rows) == (False, True, 0)
    assert visible(table) == before


@pytest.mark.parametrize("partitions", [1, 2])
def test_two_changes_of_a_key_in_a_commit_are_refused_by_name_and_leave_nothing(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    rows = spark.createDataFrame([("x", number, "a") for number in range(200)], COLUMNS)
    again = spark.createDataFrame([("y", 77, "a"), ("y", 777, "a")], COLUMNS)
    twice = rows.coalesce(1).union(again.coalesce(1)).coalesce(partitions)
    for write in (table.upsert, table.delete):
        with pytest.raises(RepeatedKey, match=r"k = 77, s = 'a'.*dropDuplicates") as refused:
            write(twice)
        assert refused.value.key == {"k": 77, "s": "a"}
        assert list(tmp_path.glob("*.parquet")) == []
    assert table.versions() == range(1)
    # One vnode prefix in two partitions is no reason.
    others = spark.createDataFrame([("y", 77, "b")], COLUMNS)
    assert table.upsert(rows.coalesce(1).union(others.coalesce(1))).rows == 201
    # Appended, any number of rows may have one key.
    assert table.append(twice).rows == 202


def test_a_delete_takes_keys_alone_and_stores_no_values(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    table.append(spark.createDataFrame([("x", 1, "a"), ("y", 1, "a"), ("z", 2, None)], COLUMNS))
    keys = spark.createDataFrame([("a", 1), ("b", 1)], StructType().add("s", "string").add("k", "long"))
    assert table.delete(keys).rows == 2
    assert visible(table) == [("z", 2, None)]
    with pytest.raises(MissingKeyColumns, match=r"have no column s, .* give it rows with k, s"):
        table.delete(keys.drop("s"))
    with pytest.raises(TableMismatch, match="the columns"):
        table.delete(keys.withColumn("k", sf.col("k").cast("int")))
    with pytest.raises(UnknownColumns, match="extra cannot be columns to delete by"):
        table.delete(keys.withColumn("extra", sf.lit(1)))


def test_a_disk_that_fills_while_files_are_written_is_told_and_has_none_of_them(
    spark: SparkSession, small_disk: Path
) -> None:
    """The first partition fits, the second does not."""
    table = StateTable.create_or_open(small_disk / "t", KEY, COLUMNS)
    small = spark.createDataFrame([("x", 1, "a")], COLUMNS).coalesce(1)
    table.append(small)
    before = [*Path(table.uri).glob("*.parquet")]
    text = sf.sha2(sf.col("id").cast("string"), 512)
    large = (
        spark.range(0, 40_000, 1, 2)
        .where("id = 0 or id >= 20000")
        .select(text.alias("v"), sf.col("id").alias("k"), text.alias("s"))
    )
    assert large.rdd.getNumPartitions() == 2
    with pytest.raises(NotCommitted, match=r"a write was not committed .*No space left.* do it again"):
        table.append(large, app_id="q", batch_id=0)
    assert [*Path(table.uri).glob("*.parquet")] == before
    assert visible(table) == [("x", 1, "a")]


def test_half_a_batch_and_the_tables_own_app_ids_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    rows = spark.createDataFrame([], COLUMNS)
    for app_id, batch_id in (("q", None), (None, 3), ("", 3), ("vnodemap.sequence", 3)):
        with pytest.raises(UnusableBatch):
            table.append(rows, app_id=app_id, batch_id=batch_id)


def test_a_large_key_has_files_of_its_own_and_the_others_share_theirs(
    spark: SparkSession, tmp_path: Path
) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS, target_bytes=100_000)
    hot = sf.when(sf.col("id") % 2 == 0, 5).otherwise(sf.col("id"))
    rows = spark.range(0, 20_000, 1, 2).select(sf.repeat(sf.lit("v"), 10).alias("v"), hot.alias("k"))
    rows = dispatch(rows.withColumn("s", sf.lit("s")), version_of(MAPPING, KEY), ["k"])
    assert table.append(rows).rows == 20_000
    assert len(visible(table)) == 20_000
    files = table.snapshot().files
    prefix = KEY.prefix({"k": 5, "s": None})
    own = [file for file in files if file.first_prefix == file.last_prefix == prefix]
    others = sum(KEY.prefix({"k": number, "s": None}) == prefix for number in range(1, 20_000, 2))
    assert sum(file.rows for file in own) == 10_000 + others
    assert len(own) >= 5
    assert 6 <= len(files) - len(own) <= 20
    assert {file.kind for file in files} == {Kind.ROWS}


def test_timestamps_and_nulls_inside_of_structs_outlive_a_compaction(
    spark: SparkSession, tmp_path: Path
) -> None:
    inner = StructType().add("a", "integer", nullable=False)
    columns = StructType().add("k", "long").add("at", "timestamp").add("inner", inner)
    key = KeySchema(3, (KeyColumn("k", BIGINT),), ("k",))
    table = StateTable.create_or_open(tmp_path, key, columns)
    for number in range(2):
        rows = spark.range(number, 3).select(
            sf.col("id").alias("k"),
            sf.lit("2013-01-31 12:00:00").cast("timestamp").alias("at"),
            sf.struct(sf.lit(None).cast("int").alias("a")).alias("inner"),
        )
        table.upsert(rows)
    before = sorted(scan(spark, table, MAPPING).collect())
    assert len(before) == 3
    table.compact(spark, force=True)
    assert sorted(scan(spark, table, MAPPING).collect()) == before


def test_what_another_program_wrote_is_refused_by_name(spark: SparkSession, tmp_path: Path) -> None:
    """Optimised, its rows would lie in another order; appended, they would have no keys."""
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    for number in range(2):
        table.append(spark.createDataFrame([("v", number, "a")], COLUMNS))
    foreign = pa.table({"v": ["theirs"], "_sequence": [1], "_kind": ["rows"]})
    write_deltalake(tmp_path, foreign, mode="append", schema_mode="merge")
    with pytest.raises(ForeignFile, match="written by another program") as refusal:
        table.snapshot()
    assert len(table.snapshot(refusal.value.version - 1).files) == 2
