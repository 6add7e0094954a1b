"""What is made of each group's rows by themselves: aggregations by key that shuffle nothing."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from dispatcher.scan.plan import plan_scan
from dispatcher.scan.reader import scan
from dispatcher.table.state_table import StateTable
from storage_keys.vnode import vnode_of
from tests.dispatcher.flights import COLUMNS, KEY, MAPPINGS, append, flights, prefix


@pytest.fixture(scope="module")
def flown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StateTable:
    """All groups of which merge where a plane has lost a flight."""
    table = StateTable.create_or_open(tmp_path_factory.mktemp("flown"), KEY, COLUMNS)
    append(spark, table, MAPPINGS["units with gaps"], range(300), 0)
    append(spark, table, MAPPINGS["12 vnodes"], range(300, 500), 1)
    table.delete(spark.createDataFrame(flights(range(40, 43)), COLUMNS))
    return table


def per_plane(rows: DataFrame) -> DataFrame:
    return rows.groupBy("tailnum").agg(sf.count("*").alias("flights"))


@pytest.mark.parametrize(("name", "tasks"), [("units with gaps", None), ("scattered", 7), ("12 vnodes", 1)])
def test_planes_are_counted_without_a_shuffle(
    spark: SparkSession, flown: StateTable, name: str, tasks: int | None
) -> None:
    mapping = MAPPINGS[name]
    found = scan(spark, flown, mapping, tasks=tasks, each_group=per_plane)
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert found.rdd.getNumPartitions() == (tasks or len(mapping.units))
    rows = found.withColumn("partition", sf.spark_partition_id()).collect()
    left = [flight for flight in flights(range(500)) if flight[0] not in range(40, 43)]
    assert {row["tailnum"]: row["flights"] for row in rows} == Counter(flight[1] for flight in left)
    assert len({row["tailnum"] for row in rows}) == len(rows)
    if tasks is None:
        for row in rows:
            assert row["partition"] == mapping.slot_owners[vnode_of(prefix(row["tailnum"]), 256)]


def test_filters_come_first_and_empty_groups_stay_empty(spark: SparkSession, flown: StateTable) -> None:
    mapping = MAPPINGS["more units than rows have vnodes"]
    found = scan(spark, flown, mapping, filters=[("tailnum", "=", "N7é")], each_group=per_plane)
    assert found.collect() == [("N7é", sum(flight[1] == "N7é" for flight in flights(range(500))))]
    assert found.rdd.getNumPartitions() == 16


def test_a_key_with_most_of_the_bytes_stays_in_one_group(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path / "t", KEY, COLUMNS)
    hot = [flight for flight in flights(range(3000)) if flight[1] is None]
    for start in (0, 90, 180):
        table.append(spark.createDataFrame(hot[start : start + 90], COLUMNS))
    mapping = MAPPINGS["one vnode"]
    files = table.snapshot().files
    assert any(group.shares_prefix for group in plan_scan(mapping, files, tasks=3).groups)
    plan = plan_scan(mapping, files, tasks=3, whole_prefixes=True)
    assert not any(group.shares_prefix for group in plan.groups)
    assert plan.why[-2:] == (
        f"prefix {files[0].first_prefix} has 100 % of the bytes and stays whole, as was asked for",
        "2 groups with nothing to read",
    )
    assert scan(spark, table, mapping, tasks=3).groupBy(sf.spark_partition_id()).count().count() == 3
    assert scan(spark, table, mapping, tasks=3, each_group=per_plane).collect() == [(None, 270)]
