"""Scans of a table whose files hide rows of each other, against a reading of every file by the rule."""

import random
from collections import Counter

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatcher.scan.filters import conditions
from dispatcher.scan.plan import ScanPlan
from dispatcher.scan.reader import planned, scan
from meta.mapping.mapping import VnodeMapping
from tests.dispatcher.flights import version_of
from tests.dispatcher.scan.questions import Question, mapping, prefix
from tests.dispatcher.table.story import KEY, MAPPING, Story
from tests.dispatcher.table.visible import visible


def check(story: Story, found: DataFrame, asked: Question) -> None:
    """The rows, and each of them in the partition of its group."""
    rows = found.withColumn("partition", sf.spark_partition_id()).collect()
    assert Counter(tuple(row[:-1]) for row in rows) == Counter(asked.rows)
    assert found.rdd.getNumPartitions() == asked.partitions
    lookups = [group.lookup for group in plan_of(story, asked).groups]
    assert all(lookups[row["partition"]][prefix(row["k"])] for row in rows)


def plan_of(story: Story, asked: Question) -> ScanPlan:
    filters = conditions(story.table.columns, asked.filters)
    return planned(story.table, asked.mapping, filters, tasks=asked.tasks, version=asked.version)


@pytest.mark.parametrize(
    "seed", [*range(6), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(6, 100))]
)
def test_a_scan_gives_each_row_once_in_its_group(spark: SparkSession, told: Story, seed: int) -> None:
    asked = Question.at_random(told, random.Random(seed))
    found = scan(
        spark, told.table, asked.mapping, tasks=asked.tasks, filters=asked.filters, version=asked.version
    )
    check(told, found, asked)


def test_a_table_that_merges_in_some_groups_alone_is_read_natively_in_the_others(
    spark: SparkSession, told: Story
) -> None:
    asked = Question(MAPPING, 16, None, (), visible(told.table))
    merging = [group.merges for group in plan_of(told, asked).groups if group.files]
    assert True in merging
    assert False in merging
    found = scan(spark, told.table, MAPPING, tasks=16)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert plan.count("FileScan parquet") == merging.count(False)
    assert plan.count("MapInArrow") == merging.count(True)


def test_deletions_that_hide_nothing_are_no_rows(spark: SparkSession, told: Story) -> None:
    """Version 1 has nothing else. So nothing merges, and the native reader reads it."""
    asked = Question(MAPPING, None, 1, (), [])
    groups = plan_of(told, asked).groups
    assert any(group.files for group in groups)
    assert not any(group.merges for group in groups)
    check(told, scan(spark, told.table, MAPPING, version=1), asked)


def test_a_row_that_does_not_pass_still_hides_one_that_would(spark: SparkSession, told: Story) -> None:
    for v, k, s in visible(told.table)[:3]:
        rows = [row for row in visible(told.table) if row[0] == v]
        found = scan(spark, told.table, MAPPING, filters=[("v", "=", v)], columns=["k", "s"])
        assert [(k, s)] == [(row[1], row[2]) for row in rows] == [tuple(row) for row in found.collect()]


def test_many_runs_of_prefixes_are_looked_up(spark: SparkSession, told: Story) -> None:
    scattered = VnodeMapping(tuple(random.Random(1).choices([1, 4, 6], k=65_536)))
    asked = Question(scattered, None, None, (), visible(told.table))
    assert all(len(group.prefixes) > 1024 for group in plan_of(told, asked).groups)
    check(told, scan(spark, told.table, scattered), asked)


def test_what_has_a_mapping_will_do(spark: SparkSession, told: Story) -> None:
    version = version_of(mapping(random.Random(8)), KEY)
    assert scan(spark, told.table, version).count() == len(visible(told.table))
    assert scan(spark, told.table, version, columns=[]).count() == len(visible(told.table))
    keys = scan(spark, told.table, version, columns=["_storage_key"]).collect()
    assert sorted(row[0] for row in keys) == sorted(
        KEY.storage_key({"k": k, "s": s}) for _, k, s in visible(told.table)
    )
