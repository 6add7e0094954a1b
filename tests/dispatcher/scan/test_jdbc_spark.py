"""Tables in PostgreSQL, written and read by Spark over JDBC: partition i has the rows of group i."""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from deploy.postgres import PostgresProcess, jdbc_driver
from dispatcher.scan.jdbc import EVENLY, NOTHING, predicates
from dispatcher.scan.plan import ScanPlan, plan_scan
from dispatcher.table.file import DataFile, Kind
from meta.mapping.mapping import VnodeMapping
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import In
from storage_keys.pruning import prune
from storage_keys.spark import prefix_column
from storage_keys.types import BIGINT, STRING
from tests.dispatcher.scan.questions import prefix

pytestmark = pytest.mark.skipif(
    jdbc_driver() is None,
    reason="no JDBC driver of PostgreSQL: run deploy/setup.sh driver, or name its jar as VNODEMAP_POSTGRES_JAR",
)

PAGE = Path(__file__).parents[3] / "docs" / "scan.md"
COLUMN = 'Vnode "prefix"'
SCHEMA = KeySchema(1, (KeyColumn("k", BIGINT), KeyColumn("s", STRING)), ("k",))
HOT = 7
ROWS = [*((key, "a") for key in range(2000)), *((HOT, str(n)) for n in range(1000)), (None, None), (None, "")]
PREFIX_OF = {key: prefix(key) for key, _ in ROWS}

Row = tuple[int | None, str | None]


class Database:
    """One database of the run's PostgreSQL, as Spark names it."""

    def __init__(self, spark: SparkSession, postgres: PostgresProcess, name: str) -> None:
        self.spark = spark
        self.postgres = postgres
        self.name = name
        self.url = postgres.jdbc_url(name)
        self.login = {
            "user": postgres.user,
            "password": postgres.password,
            "driver": "org.postgresql.Driver",
        }

    def read(self, plan: ScanPlan) -> DataFrame:
        return self.spark.read.jdbc(
            self.url, "rows", predicates=predicates(plan, COLUMN), properties=self.login
        )


@pytest.fixture(scope="module")
def database(spark: SparkSession, postgres: PostgresProcess) -> Iterator[Database]:
    with postgres.database("scan_jdbc_spark"):
        found = Database(spark, postgres, "scan_jdbc_spark")
        rows = spark.createDataFrame(ROWS, "k bigint, s string")
        prefixed = rows.withColumn(COLUMN, prefix_column([BIGINT], [sf.col("k")]))
        prefixed.write.jdbc(found.url, "rows", properties=found.login)
        yield found


def scattered(vnode_count: int, units: int) -> VnodeMapping:
    dice = random.Random(vnode_count)
    return VnodeMapping(tuple(dice.randrange(units) for _ in range(vnode_count)))


def partitions(found: DataFrame) -> list[list[Row]]:
    rows: list[list[Row]] = [[] for _ in range(found.rdd.getNumPartitions())]
    for k, s, partition in found.select("k", "s", sf.spark_partition_id()).collect():
        rows[partition].append((k, s))
    return rows


def unit_of(mapping: VnodeMapping, row: Row) -> int | None:
    return mapping.owners[PREFIX_OF[row[0]] * mapping.vnode_count >> 16]


@pytest.mark.parametrize(
    ("mapping", "tasks"),
    [
        (scattered(1, 1), None),
        (scattered(1, 1), 7),
        (scattered(12, 3), 20),
        (scattered(256, 5), None),
        (scattered(256, 5), 16),
        (scattered(65_536, 3), None),
        (scattered(65_536, 3), 8),
    ],
    ids=lambda given: f"{given.vnode_count} vnodes" if isinstance(given, VnodeMapping) else f"{given} tasks",
)
def test_each_row_is_read_once_in_its_group(
    database: Database, mapping: VnodeMapping, tasks: int | None
) -> None:
    plan = plan_scan(mapping, [EVENLY], tasks=tasks)
    assert any(group.needs_lookup for group in plan.groups) == (mapping.vnode_count == 65_536)
    found = partitions(database.read(plan))
    assert len(found) == (tasks or len(mapping.units))
    assert Counter(row for rows in found for row in rows) == Counter(ROWS)
    for group, rows in zip(plan.groups, found, strict=True):
        if group.unit is not None:
            assert {unit_of(mapping, row) for row in rows} <= {group.unit}
        lookup = group.lookup
        assert all(lookup[PREFIX_OF[k]] for k, _ in rows)
    if tasks is None:
        assert [group.unit for group in plan.groups] == list(mapping.units)


def test_filters_open_fewer_prefixes_and_spark_pushes_its_own_down(database: Database) -> None:
    wanted = (3, HOT, 1500, -1)
    pruned = prune(SCHEMA, [In("k", wanted)])
    plan = plan_scan(scattered(256, 5), [EVENLY], tasks=8, pruned=pruned)
    unfiltered = database.read(plan)
    # No more than the prefixes of the keys: others of the same vnodes stay where they are.
    read = [row for rows in partitions(unfiltered) for row in rows]
    assert {PREFIX_OF[k] for k, _ in read} == {PREFIX_OF[k] for k in wanted if k in PREFIX_OF}
    found = unfiltered.where(sf.col("k").isin(*wanted) & (sf.col("s") != "5"))
    plan_text = found._jdf.queryExecution().executedPlan().toString()
    assert re.search(r"PushedFilters: \[.*In\(k", plan_text)
    assert Counter(row for rows in partitions(found) for row in rows) == Counter(
        (k, s) for k, s in ROWS if k in wanted and s != "5"
    )


def test_groups_that_nothing_is_left_for_are_empty_partitions(database: Database) -> None:
    plan = plan_scan(VnodeMapping.parse("0 1"), [EVENLY], tasks=6, pruned=prune(SCHEMA, [In("k", (HOT,))]))
    assert predicates(plan, COLUMN).count(NOTHING) == 5
    sizes = [len(rows) for rows in partitions(database.read(plan))]
    assert sorted(sizes) == [0, 0, 0, 0, 0, sum(PREFIX_OF[k] == PREFIX_OF[HOT] for k, _ in ROWS)]


def test_what_the_database_counts_balances_the_groups(database: Database) -> None:
    counted = database.postgres.execute(
        'SELECT "Vnode ""prefix""", count(*) FROM rows GROUP BY 1', database.name
    )
    files = [DataFile("", rows, rows, at, at, 0, Kind.ROWS) for at, rows in counted]
    plan = plan_scan(VnodeMapping.parse("0"), files, tasks=4)
    found = partitions(database.read(plan))
    assert Counter(row for rows in found for row in rows) == Counter(ROWS)
    # A prefix is one group's; whole prefixes cannot be spread more evenly than this.
    hot = sum(PREFIX_OF[k] == PREFIX_OF[HOT] for k, _ in ROWS)
    assert [len(rows) for rows in found] == [group.bytes_read for group in plan.groups]
    assert max(map(len, found)) == hot


def test_the_prefix_is_a_not_null_integer_as_spark_writes_it(database: Database) -> None:
    question = "SELECT data_type, is_nullable FROM information_schema.columns WHERE column_name LIKE 'Vnode%'"
    assert database.postgres.execute(question, database.name) == [("integer", "NO")]


def test_the_round_trip_of_the_page_runs(spark: SparkSession, postgres: PostgresProcess, name: str) -> None:
    (block,) = (
        block for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL) if "jdbc(" in block
    )
    with postgres.database(name):
        # The page has imported these by then.
        names: dict[str, Any] = {
            "spark": spark,
            "password": postgres.password,
            "EVENLY": EVENLY,
            "VnodeMapping": VnodeMapping,
            "plan_scan": plan_scan,
            "predicates": predicates,
        }
        here = block.replace("jdbc:postgresql://127.0.0.1:5432/shop", postgres.jdbc_url(name)).replace(
            '"shop"', repr(postgres.user)
        )
        exec(here, names)
        index: Sequence[str] = re.findall(r"^    (CREATE INDEX .*);", PAGE.read_text(), re.MULTILINE)
        postgres.execute(index[0], name)
        assert names["by_unit"].rdd.getNumPartitions() == 2
        assert sorted(map(tuple, names["by_unit"].collect())) == sorted(map(tuple, names["orders"].collect()))
        assert [row.item for row in names["of_42"].collect()] == ["tea"]
