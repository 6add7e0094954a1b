"""State tables through Spark, checked against plain lists of rows and the files' own bytes."""

import datetime
import json
import shutil
from decimal import Decimal as Number
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from dispatcher.routing import dispatch
from dispatcher.scan.reader import UnusableArgument, scan
from dispatcher.table.errors import TableMismatch, UnknownColumns
from dispatcher.table.state_table import StateTable
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from storage_keys.errors import StorageKeyError
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import IsNull
from storage_keys.type_name import parse_type
from storage_keys.types import BIGINT, DATE, STRING, TIMESTAMP
from storage_keys.vnode import vnode_of
from tests.dispatcher.flights import (
    COLUMNS,
    KEY,
    MAPPINGS,
    append,
    check_scan,
    flights,
    prefix,
    read,
    version_of,
)


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StateTable:
    """Written under three mappings, with a batch that came twice and one that died before its commit."""
    # A folder whose name no part of the way may interpret.
    table = StateTable.create_or_open(tmp_path_factory.mktemp("a b[c]{d}#é"), KEY, COLUMNS)
    append(spark, table, MAPPINGS["units with gaps"], range(1000), 0)
    append(spark, table, MAPPINGS["12 vnodes"], range(1000, 2000), 1)
    append(spark, table, MAPPINGS["12 vnodes"], range(1000, 2000), 1)
    shutil.copy(table.snapshot().files[0].path, f"{table.uri}/rows-2-of-a-task-that-died.parquet")
    append(spark, table, MAPPINGS["one vnode"], range(2000, 2010), 2)
    return table


@pytest.mark.parametrize("name", MAPPINGS)
def test_every_row_comes_once_in_the_partition_of_its_slot(
    spark: SparkSession, grown: StateTable, name: str
) -> None:
    check_scan(spark, grown, MAPPINGS[name], range(2010))


def test_an_empty_table_is_empty_partitions(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    for name in ("one vnode", "scattered"):
        check_scan(spark, table, MAPPINGS[name], range(0))


def test_the_files_are_sorted_by_the_storage_keys_of_their_rows(
    spark: SparkSession, grown: StateTable
) -> None:
    for file in grown.snapshot().files:
        rows = pq.read_table(file.path).to_pylist()
        keys = [row["_storage_key"] for row in rows]
        assert keys == sorted(KEY.storage_key(row) for row in rows)
        prefixes = [row["_vnode_prefix"] for row in rows]
        assert prefixes == [prefix(row["tailnum"]) for row in rows]
        assert (file.first_prefix, file.last_prefix) == (prefixes[0], prefixes[-1])


@pytest.mark.parametrize("tailnum", ["N7é", None, "nobody's"])
def test_an_equality_reads_one_vnode_and_leaves_the_other_partitions_empty(
    spark: SparkSession, grown: StateTable, tailnum: str | None
) -> None:
    mapping = MAPPINGS["units with gaps"]
    found = scan(spark, grown, mapping, filters=[("tailnum", "<=>", tailnum)])
    rows = read(found)
    expected = [flight for flight in flights(range(2010)) if flight[1] == tailnum]
    assert sorted(row[:-1] for row in rows) == sorted(expected)
    assert found.rdd.getNumPartitions() == 3
    slot = mapping.slot_owners[vnode_of(prefix(tailnum), 256)]
    assert {row["partition"] for row in rows} <= {slot}
    may_have_it = [f for f in grown.snapshot().files if f.first_prefix <= prefix(tailnum) <= f.last_prefix]
    assert len(found.inputFiles()) == len(may_have_it) < len(grown.snapshot().files)


def test_an_equality_skips_row_groups_and_pages_of_other_vnodes(spark: SparkSession, tmp_path: Path) -> None:
    schema = KeySchema(1, (KeyColumn("k", BIGINT),), ("k",))
    table = StateTable.create_or_open(tmp_path, schema, StructType().add("k", "long"))
    rows = 200_000
    table.append(spark.range(0, rows, 1, 1).toDF("k"), app_id="q", batch_id=0)
    found = scan(spark, table, VnodeMapping.parse("0*128 1*128"), filters=[("k", "=", 77)])
    assert found.collect() == [Row(k=77)]
    assert rows_read(found) <= 2 * 4096 < rows / 20


def rows_read(df: DataFrame) -> int:
    """What the Parquet reader gave on, in the run that was, after it skipped groups and pages by their statistics."""
    leaves = df._jdf.queryExecution().executedPlan().collectLeaves()
    scans = [leaves.apply(at) for at in range(leaves.size())]
    return sum(
        leaf.metrics().apply("numOutputRows").value() for leaf in scans if "FileScan" in leaf.toString()
    )


def test_a_part_of_the_distribution_key_is_a_filter_alone(spark: SparkSession, tmp_path: Path) -> None:
    schema = KeySchema(
        2, (KeyColumn("at", TIMESTAMP), KeyColumn("day", DATE), KeyColumn("s", STRING)), ("at", "day")
    )
    columns = pa.schema([("s", pa.string()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
    table = StateTable.create_or_open(tmp_path, schema, columns)
    day = datetime.date(2013, 1, 1)
    instants = [datetime.datetime(2013, 1, 1, hour, tzinfo=datetime.UTC) for hour in range(20)]
    values = [(f"s{number}", instant, day) for number, instant in enumerate(instants)]
    table.append(spark.createDataFrame(values, table.columns), app_id="q", batch_id=0)
    mapping = MAPPINGS["scattered"]
    fifth = int(instants[5].timestamp()) * 1_000_000
    for value in (fifth, instants[5]):
        for filters in ([("at", "=", value)], [("at", "=", value), ("day", "=", day)]):
            assert [row["s"] for row in scan(spark, table, mapping, filters=filters).collect()] == ["s5"]
    assert scan(spark, table, mapping, filters=[("day", "=", "2013-01-01")]).count() == 20
    with pytest.raises(StorageKeyError):
        scan(spark, table, mapping, filters=[("at", "=", "2013")])


def test_a_scan_is_native_and_reads_only_the_columns_asked_for(
    spark: SparkSession, grown: StateTable
) -> None:
    found = scan(spark, grown, MAPPINGS["scattered"], columns=["day", "_storage_key"])
    assert found.columns == ["day", "_storage_key"]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "Python" not in plan
    assert plan.count("FileScan parquet") == 4
    # The stage of a union that Spark writes code for copies every row.
    assert ") Union" not in plan
    assert plan.count("ReadSchema: struct<_vnode_prefix:int,_storage_key:binary,day:int>") == 4
    assert scan(spark, grown, MAPPINGS["scattered"]).where("day = 3").count() == 402


def test_a_filter_of_the_users_leaves_every_partition_where_it_was(
    spark: SparkSession, grown: StateTable
) -> None:
    mapping = MAPPINGS["more units than rows have vnodes"]
    for filters in ([], [("tailnum", "=", "N7é")]):
        found = scan(spark, grown, mapping, filters=filters).where("tailnum = 'N7é' and day = 1")
        assert found.rdd.getNumPartitions() == 16
        (slot,) = {row["partition"] for row in read(found)}
        assert slot == mapping.slot_owners[vnode_of(prefix("N7é"), 256)]


def test_an_equality_finds_dates_of_every_calendar(spark: SparkSession, tmp_path: Path) -> None:
    days = [
        datetime.date(1, 1, 1),
        datetime.date(1582, 10, 10),
        datetime.date(1969, 12, 31),
        datetime.date(9999, 12, 31),
    ]
    schema = KeySchema(1, (KeyColumn("day", DATE),), ("day",))
    rows = spark.createDataFrame(list(enumerate(days)), "number bigint, day date").select("day", "number")
    table = StateTable.create_or_open(tmp_path / "t", schema, rows.schema)
    mapping = VnodeMapping.parse("0*128 1*128")
    table.append(dispatch(rows, version_of(mapping, schema), ["day"]), app_id="q", batch_id=0)
    for number, day in enumerate(days):
        found = scan(spark, table, mapping, filters=[("day", "=", day)]).collect()
        assert [row["number"] for row in found] == [number]


# As SQL writes them, the values that are equal to them, and those that differ.
ODD_VALUES = [
    ("double", ["-0.0d", "double('NaN')", "-1.5d"], [0.0, float("nan"), -1.5]),
    ("float", ["float('0.1')", "float('-0.0')"], [0.10000000149011612, -0.0]),
    (
        "timestamp_ntz",
        ["timestamp_ntz'1582-10-10 00:00:01'", "timestamp_ntz'2013-01-31'"],
        [-12219724799000000, 1359590400000000],
    ),
    ("decimal(38,10)", ["-0.0000000002bd", "1e20bd"], [Number("-2e-10"), Number("1e20")]),
]


@pytest.mark.parametrize(("type_name", "written", "values"), ODD_VALUES, ids=[odd[0] for odd in ODD_VALUES])
def test_an_equality_finds_values_that_are_stored_otherwise_than_they_compare(
    spark: SparkSession, tmp_path: Path, type_name: str, written: list[str], values: list[object]
) -> None:
    schema = KeySchema(1, (KeyColumn("k", parse_type(type_name)),), ("k",))
    cells = ", ".join(f"({number}, cast({cell} AS {type_name}))" for number, cell in enumerate(written))
    rows = spark.sql(f"SELECT * FROM VALUES {cells} AS t(number, k)")
    table = StateTable.create_or_open(tmp_path / "t", schema, rows.schema)
    mapping = VnodeMapping.parse("0*128 1*128")
    table.append(dispatch(rows, version_of(mapping, schema), ["k"]), app_id="q", batch_id=0)
    for number, value in enumerate(values):
        found = scan(spark, table, mapping, filters=[("k", "=", value)]).collect()
        assert [row["number"] for row in found] == [number]


def test_rows_that_would_lose_a_column_or_change_a_type_are_refused(
    spark: SparkSession, grown: StateTable
) -> None:
    rows = spark.createDataFrame(flights(range(3)), COLUMNS)
    with pytest.raises(UnknownColumns, match="extra"):
        grown.append(rows.withColumn("extra", sf.lit(1)), app_id="q", batch_id=99)
    for unfit in (rows.drop("legs"), rows.withColumn("day", sf.col("day").cast("bigint"))):
        with pytest.raises(TableMismatch, match="the columns"):
            grown.append(unfit, app_id="q", batch_id=99)


def test_a_scan_refuses_what_it_cannot_answer(spark: SparkSession, grown: StateTable) -> None:
    with pytest.raises(
        StorageKeyError, match="no column is named 'dya'; the columns are id, tailnum, day, legs"
    ):
        scan(spark, grown, MAPPINGS["one vnode"], filters=[("dya", "=", 1)])
    with pytest.raises(UnknownColumns, match="_vnode_prefix cannot be columns"):
        scan(spark, grown, MAPPINGS["one vnode"], columns=["_vnode_prefix"])
    with pytest.raises(StorageKeyError):
        scan(spark, grown, MAPPINGS["one vnode"], filters=[("tailnum", "=", 5)])
    with pytest.raises(Malformed, match="vnode 0 has no owner"):
        scan(spark, grown, VnodeMapping.parse("- 1"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"table": "/tmp/t"}, "table is a StateTable, which StateTable.open gives for a path, not '/tmp/t'"),
        ({"mapping": "0*128 1*128"}, r"VnodeMapping.parse reads text.* not '0\*128 1\*128'"),
        ({"filters": ("id", "=", 1)}, r"a list of filters, as \[.*, not \('id', '=', 1\)"),
        ({"filters": IsNull("id")}, "a list of filters, as"),
        ({"filters": [5]}, "a list of filters, as"),
        (
            {"each_group": lambda _: None},
            "each_group's answer is the DataFrame that it makes of rows, not None",
        ),
    ],
    ids=["table", "mapping", "filter", "predicate", "number", "each_group"],
)
def test_what_is_of_another_kind_is_refused_by_the_arguments_name(
    spark: SparkSession, grown: StateTable, arguments: dict[str, Any], words: str
) -> None:
    with pytest.raises((UnusableArgument, StorageKeyError), match=words):
        scan(spark, **{"table": grown, "mapping": MAPPINGS["one vnode"], **arguments})


def test_others_can_read_the_table(grown: StateTable) -> None:
    """Delta readers that know nothing of us see the same rows; the key schema is in the configuration."""
    delta = DeltaTable(grown.uri)
    rows = delta.to_pyarrow_table(columns=COLUMNS.names).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(flights(range(2010)))
    assert json.loads(delta.metadata().configuration["vnodemap.keySchema"]) == KEY.to_json()
