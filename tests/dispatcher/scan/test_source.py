"""`spark.read.format("vnode")` gives what `scan` gives."""

import json
import random
from collections import Counter
from pathlib import Path

import httpx
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from deploy.process import ServiceProcess
from dispatcher.scan.reader import scan
from dispatcher.scan.source import UnusableOptions, VnodeSource, register
from dispatcher.service import newest_mapping
from dispatcher.subscription import Subscription
from dispatcher.table.state_table import StateTable
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import DATE
from tests.dispatcher.scan.questions import Question, prefix
from tests.dispatcher.table.story import COLUMNS, KEY, MAPPING, Story
from tests.dispatcher.table.visible import visible


@pytest.fixture(scope="module", autouse=True)
def registered(spark: SparkSession) -> None:
    """Twice, as where a notebook is run again."""
    register(spark)
    register(spark)


def source(spark: SparkSession, story: Story, **options: object) -> DataFrame:
    given = {"table": story.table.uri, **{name: str(value) for name, value in options.items()}}
    return spark.read.format("vnode").options(**given).load()


SQL = {
    "=": "{0} = {1}", "<=>": "{0} <=> {1}", "<": "{0} < {1}", ">": "{0} > {1}", ">=": "{0} >= {1}",
    "in": "{0} IN {1}", "between": "{0} BETWEEN {1} AND {2}", "is null": "{0} IS NULL", "like": "{0} LIKE {1}",
}  # fmt: skip


def written(filters: tuple[object, ...]) -> str:
    """As SQL, which Spark makes its own filters of."""
    found = ["true"]
    for column, operator, *values in filters:  # type: ignore[misc]
        found.append(SQL[operator].format(column, *map(literal, values)))
    return " AND ".join(found)


def literal(value: object) -> str:
    if isinstance(value, list):
        return "(" + ", ".join(map(literal, value)) + ")"
    return "NULL" if value is None else repr(value)


@pytest.mark.parametrize(
    "seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(4, 60))]
)
def test_a_source_gives_each_row_once_in_its_group(spark: SparkSession, told: Story, seed: int) -> None:
    asked = Question.at_random(told, random.Random(100 + seed))
    options = {"tasks": asked.tasks, "version": asked.version}
    found = source(
        spark,
        told,
        mapping=asked.mapping,
        **{name: value for name, value in options.items() if value is not None},
    )
    assert found.rdd.getNumPartitions() == asked.partitions
    rows = found.where(written(asked.filters)).withColumn("partition", sf.spark_partition_id()).collect()
    assert Counter(tuple(row[:-1]) for row in rows) == Counter(asked.rows)
    if asked.tasks is None:
        for row in rows:
            vnode = prefix(row["k"]) * asked.mapping.vnode_count >> 16
            assert asked.mapping.units[row["partition"]] == asked.mapping.owners[vnode]


def test_filters_are_handed_down_and_still_evaluated_by_spark(spark: SparkSession, told: Story) -> None:
    mapping = json.dumps(MAPPING.owners)
    found = source(spark, told, mapping=mapping).where("k = 5 and s like 'a%' and v > '4'")
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Filter" in plan
    rows = [row for row in visible(told.table) if row[1] == 5 and row[2] == "a" and row[0] > "4"]
    assert sorted(map(tuple, found.collect())) == sorted(rows)


def test_filters_on_every_type_lose_no_row(spark: SparkSession, tmp_path: Path) -> None:
    values = [
        "date'1582-10-10', timestamp'1500-01-01', timestamp_ntz'2013-01-01 00:00:01', 1.50bd, -0.0d, true, X'FF'",
        "date'2013-01-31', timestamp'2013-01-31', timestamp_ntz'1969-01-01', 2.50bd, double('NaN'), false, X''",
        "NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    ]
    rows = spark.sql(
        f"SELECT * FROM VALUES ({'), ('.join(values)}) AS t(day, at, wall, amount, x, flag, bytes)"
    )
    schema = KeySchema(1, (KeyColumn("day", DATE),), ("day",))
    table = StateTable.create_or_open(tmp_path / "t", schema, rows.schema)
    table.append(rows)
    found = spark.read.format("vnode").options(table=table.uri, mapping="0*2 1*2").load()
    for written in values[:2]:
        # NaN is equal to itself in SQL.
        same = [f"{name} = {value}" for name, value in zip(rows.columns, written.split(", "), strict=True)]
        assert [row.day for row in found.where(" AND ".join(same)).collect()] == [
            spark.sql(f"SELECT {written}").first()[0]
        ]
    nulls = " AND ".join(f"{name} <=> NULL" for name in rows.columns)
    assert [row.x for row in found.where(nulls).collect()] == [None]


def test_a_schema_given_is_all_that_is_read(spark: SparkSession, told: Story) -> None:
    reader = spark.read.format("vnode").schema("s string").options(mapping=str(MAPPING), tasks="2")
    found = reader.load(told.table.uri)
    assert found.columns == ["s"]
    assert sorted(map(repr, (row.s for row in found.collect()))) == sorted(
        repr(row[2]) for row in visible(told.table)
    )


def test_the_mapping_may_be_a_fragments(
    spark: SparkSession, told: Story, shared_service: ServiceProcess, name: str
) -> None:
    with httpx.Client(base_url=shared_service.url, trust_env=False) as http:
        http.put("/v1/workers/w1", json={"parallelism": 4}).raise_for_status()
        key = [{"name": "k", "type": "bigint"}]
        document = {"name": name, "vnode_count": 8, "distribution_key": key, "parallelism": 3}
        http.post("/v1/fragments", json=document).raise_for_status()
    with Subscription(shared_service.url, name, name="scans", role="reader") as subscription:
        for found in (
            source(spark, told, fragment=name, service=shared_service.url),
            scan(spark, told.table, newest_mapping(shared_service.url, name)),
            scan(spark, told.table, subscription),
        ):
            assert found.rdd.getNumPartitions() == 3
            assert Counter(map(tuple, found.collect())) == Counter(visible(told.table))


def test_options_that_do_not_say_what_to_read_are_refused(spark: SparkSession, told: Story) -> None:
    unusable = [
        {},
        {"mapping": "0*4", "tasks": "many"},
        {"mapping": "0", "fragment": "f", "service": "s"},
        {"mapping": "[0"},
        {"mapping": "0", "storage.": "x"},
    ]
    for options in unusable:
        with pytest.raises(PySparkException, match="The options are table"):
            source(spark, told, **options).collect()
    with pytest.raises(PySparkException, match="no option table"):
        spark.read.format("vnode").load()


def test_an_option_that_is_not_known_is_refused_by_its_name(tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    given = {"table": table.uri, "mapping": "0", "tasks": "3", "version": "0", "storage.timeout": "30s"}
    assert VnodeSource(given).schema() == table.columns
    with pytest.raises(UnusableOptions, match=r"there is no option task\. The options are"):
        VnodeSource(given | {"task": "3"}).schema()


def test_it_may_be_a_view_of_sql(spark: SparkSession, told: Story) -> None:
    options = f"(table '{told.table.uri}', mapping '0*2 1*2', Tasks '3')"
    spark.sql(f"CREATE TEMPORARY VIEW told USING vnode OPTIONS {options}")
    assert spark.table("told").count() == len(visible(told.table))
    spark.catalog.dropTempView("told")


def test_storage_options_are_handed_on_and_shown_nowhere(spark: SparkSession, told: Story) -> None:
    found = source(
        spark, told, mapping=MAPPING, **{"storage.AWS_SECRET_ACCESS_KEY": "hidden", "storage.timeout": "30s"}
    ).where("k > 3")
    shown = found._jdf.queryExecution().toString() + repr(found)
    assert "vnode" in shown
    assert "hidden" not in shown
    assert found.count() == sum((row[1] or 0) > 3 for row in visible(told.table))


def test_storage_options_decide_how_a_store_is_asked(spark: SparkSession) -> None:
    # Nothing but the options says to ask this machine, where nobody answers.
    given = {"endpoint": "http://127.0.0.1:9", "allow_http": "true", "region": "eu-west-1"}
    login = {"access_key_id": "shown", "secret_access_key": "hidden"}
    options = {f"storage.aws_{name}": value for name, value in (given | login).items()}
    options["storage.max_retries"] = "0"
    with pytest.raises(PySparkException, match=r"127\.0\.0\.1:9") as refused:
        spark.read.format("vnode").options(table="s3://bucket/table", mapping="0", **options).load()
    assert "hidden" not in str(refused.value)


def test_a_column_in_another_type_is_refused(spark: SparkSession, told: Story) -> None:
    found = spark.read.format("vnode").schema("k string").option("table", told.table.uri)
    with pytest.raises(PySparkException, match="differs in the columns"):
        found.option("mapping", str(MAPPING)).load().collect()
