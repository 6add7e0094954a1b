"""State tables through Spark, checked against plain lists of rows and the files' own bytes."""

import datetime
import json
import random
import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal as Number
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from dispatcher.routing import ReservedColumns, dispatch
from dispatcher.scan.errors import (
    AnotherCheckpoint,
    ConcurrentCommit,
    NotAStateTable,
    TableError,
    TableMismatch,
    UnknownColumns,
)
from dispatcher.scan.reader import scan
from dispatcher.scan.table import Commit, StateTable
from dispatcher.scan.writer import write_files
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from storage_keys.column import Order
from storage_keys.errors import StorageKeyError, UnsupportedType
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.type_name import parse_type
from storage_keys.types import BIGINT, DATE, INT, STRING, TIMESTAMP
from storage_keys.vnode import prefix_of, vnode_of

LEGS = StructField("legs", ArrayType(StringType()))
COLUMNS = StructType().add("id", "long").add("tailnum", "string").add("day", "integer").add(LEGS)
KEY = KeySchema(
    7,
    (KeyColumn("tailnum", STRING), KeyColumn("day", INT, Order(descending=True)), KeyColumn("id", BIGINT)),
    ("tailnum",),
)
MAPPINGS = {
    "one vnode": VnodeMapping((4,)),
    "units with gaps": VnodeMapping.parse("0*85 2*85 5*86"),
    "12 vnodes": VnodeMapping.parse("5*3 0*2 5 9*3 2*3"),
    "scattered": VnodeMapping(tuple(random.Random(2).choices([1, 4, 6, 40], k=100))),
    "more units than rows have vnodes": VnodeMapping.parse(" ".join(f"{unit}*16" for unit in range(16))),
}


def flights(ids: Iterable[int]) -> list[tuple[int, str | None, int, list[str]]]:
    """Three hundred planes, some flights of none."""
    return [
        (number, None if number % 11 == 0 else f"N{number * 7 % 300}é", number % 5, [str(number)])
        for number in ids
    ]


def with_column(name: str, type_name: str) -> StructType:
    return StructType([*COLUMNS.fields, *StructType().add(name, type_name).fields])


def version_of(mapping: VnodeMapping, schema: KeySchema = KEY) -> MappingVersion:
    units = tuple(Unit(unit, "w") for unit in mapping.units)
    return MappingVersion("flights", 1, schema.hash_id, units, mapping)


def append(
    spark: SparkSession, table: StateTable, mapping: VnodeMapping, ids: range, batch: int, app: str = "q"
) -> Commit:
    rows = spark.createDataFrame(flights(ids), COLUMNS)
    return table.append(dispatch(rows, version_of(mapping), ["tailnum"]), app_id=app, batch_id=batch)


def prefix(tailnum: str | None) -> int:
    return prefix_of(hash_row([STRING], [tailnum]))


def read(df: DataFrame) -> list[Row]:
    return df.withColumn("partition", sf.spark_partition_id()).collect()


def check_scan(spark: SparkSession, table: StateTable, mapping: VnodeMapping, ids: Iterable[int]) -> None:
    found = scan(spark, table, mapping)
    assert found.rdd.getNumPartitions() == len(mapping.units)
    assert found.columns == COLUMNS.names
    rows = read(found)
    assert sorted(row[:-1] for row in rows) == sorted(flights(ids))
    for row in rows:
        vnode = vnode_of(prefix(row["tailnum"]), mapping.vnode_count)
        assert mapping.units[row["partition"]] == mapping.owners[vnode]


@pytest.fixture(scope="module")
def grown(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> StateTable:
    """Written under three mappings, with a batch that came twice and one that died before its commit."""
    # A folder whose name no part of the way may interpret.
    table = StateTable.create_or_open(tmp_path_factory.mktemp("a b[c]{d}#é"), KEY, COLUMNS)
    append(spark, table, MAPPINGS["units with gaps"], range(1000), 0)
    append(spark, table, MAPPINGS["12 vnodes"], range(1000, 2000), 1)
    append(spark, table, MAPPINGS["12 vnodes"], range(1000, 2000), 1)
    died = spark.createDataFrame(flights(range(9000, 9100)), COLUMNS)
    assert write_files(died, table.uri, KEY, "rows-2")
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


def test_each_unit_that_has_rows_writes_one_file(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    mapping = MAPPINGS["units with gaps"]
    commit = append(spark, table, mapping, range(200), 0)
    assert (commit.rows, len(commit.files), commit.skipped) == (200, 3, False)
    for file in table.snapshot().files:
        owners = {
            mapping.owners[vnode_of(prefix(row["tailnum"]), 256)]
            for row in pq.read_table(file.path).to_pylist()
        }
        assert len(owners) == 1
    only_nulls = append(spark, table, mapping, range(1), 1)
    assert (only_nulls.rows, len(only_nulls.files)) == (1, 1)


@pytest.mark.parametrize("tailnum", ["N7é", None, "nobody's"])
def test_an_equality_reads_one_vnode_and_leaves_the_other_partitions_empty(
    spark: SparkSession, grown: StateTable, tailnum: str | None
) -> None:
    mapping = MAPPINGS["units with gaps"]
    found = scan(spark, grown, mapping, equals={"tailnum": tailnum})
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
    found = scan(spark, table, VnodeMapping.parse("0*128 1*128"), equals={"k": 77})
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
    for equals in ({"at": fifth}, {"at": fifth, "day": day}):
        assert [row["s"] for row in scan(spark, table, mapping, equals=equals).collect()] == ["s5"]
    assert scan(spark, table, mapping, equals={"day": day}).count() == 20
    for equals in ({"at": "2013", "day": day}, {"at": "2013"}):
        with pytest.raises(StorageKeyError):
            scan(spark, table, mapping, equals=equals)


def test_a_scan_is_native_and_reads_only_the_columns_asked_for(
    spark: SparkSession, grown: StateTable
) -> None:
    found = scan(spark, grown, MAPPINGS["scattered"], columns=["day", "_storage_key"])
    assert found.columns == ["day", "_storage_key"]
    plan = found._jdf.queryExecution().executedPlan().toString()
    assert "Exchange" not in plan
    assert "Python" not in plan
    assert plan.count("FileScan parquet") == 4
    assert plan.count("ReadSchema: struct<day:int,_vnode_prefix:int,_storage_key:binary>") == 4
    assert scan(spark, grown, MAPPINGS["scattered"]).where("day = 3").count() == 402


def test_a_filter_of_the_users_leaves_every_partition_where_it_was(
    spark: SparkSession, grown: StateTable
) -> None:
    mapping = MAPPINGS["more units than rows have vnodes"]
    for equals in (None, {"tailnum": "N7é"}):
        found = scan(spark, grown, mapping, equals=equals).where("tailnum = 'N7é' and day = 1")
        assert found.rdd.getNumPartitions() == 16
        (slot,) = {row["partition"] for row in read(found)}
        assert slot == mapping.slot_owners[vnode_of(prefix("N7é"), 256)]


def test_a_batch_is_committed_once(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    mapping = MAPPINGS["12 vnodes"]
    first = append(spark, table, mapping, range(10), 5)
    again = append(spark, table, mapping, range(10), 5)
    assert again == Commit(first.version, 0, (), skipped=True)
    assert not append(spark, table, mapping, range(10, 20), 5, app="another query").skipped
    assert not append(spark, table, mapping, range(0), 6).skipped
    assert append(spark, table, mapping, range(20, 30), 6).skipped
    check_scan(spark, table, mapping, range(20))


@pytest.mark.parametrize("batch", [0, 4])
def test_a_new_checkpoint_under_an_old_app_id_is_refused_and_loses_no_rows_in_silence(
    spark: SparkSession, tmp_path: Path, batch: int
) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    mapping = MAPPINGS["12 vnodes"]
    append(spark, table, mapping, range(10), 5)
    with pytest.raises(AnotherCheckpoint, match=f"batch {batch} of q .* batch 5 .* new app_id") as refused:
        append(spark, table, mapping, range(10, 20), batch)
    assert (refused.value.batch_id, refused.value.committed) == (batch, 5)
    assert not append(spark, table, mapping, range(10, 20), batch, app="its own").skipped
    check_scan(spark, table, mapping, range(20))


def test_a_task_that_fails_halfway_removes_its_file(spark: SparkSession, tmp_path: Path) -> None:
    schema = KeySchema(3, (KeyColumn("k", BIGINT), KeyColumn("s", STRING)), ("k",))
    table = StateTable.create_or_open(tmp_path, schema, StructType().add("k", "long").add("s", "string"))
    # The last row in key order has a key that is too long: by then the first row group is in the file.
    last = sf.when(sf.col("id") == 7, sf.repeat(sf.lit("z"), 70_000)).otherwise("a")
    doomed = spark.range(0, 70_000, 1, 1).select(sf.lit(1).cast("bigint").alias("k"), last.alias("s"))
    with pytest.raises(PySparkException, match="the length of a storage key"):
        table.append(doomed, app_id="q", batch_id=0)
    assert list(tmp_path.glob("*.parquet")) == []
    assert scan(spark, table, MAPPINGS["12 vnodes"]).count() == 0
    commit = table.append(doomed.where("s = 'a'"), app_id="q", batch_id=0)
    assert (commit.rows, commit.skipped) == (69_999, False)


def test_of_a_job_that_fails_nothing_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    day = sf.when(sf.col("day") == 4, sf.raise_error(sf.lit("doom"))).otherwise(sf.col("day")).cast("int")
    rows = spark.createDataFrame(flights(range(10)), COLUMNS).repartitionByRange(3, "day")
    with pytest.raises(PySparkException, match="doom"):
        table.append(rows.withColumn("day", day), app_id="q", batch_id=0)
    check_scan(spark, table, MAPPINGS["12 vnodes"], range(0))
    assert not append(spark, table, MAPPINGS["12 vnodes"], range(5), 0).skipped
    check_scan(spark, table, MAPPINGS["12 vnodes"], range(5))


@pytest.mark.parametrize(
    ("slow", "fast", "outcome"),
    [
        (("q", 5), ("r", 5), "both land"),
        (("q", 5), ("q", 5), "skipped"),
        (("q", 5), ("q", 4), "refused"),
        (("q", 5), ("q", 6), "refused"),
    ],
)
def test_a_writer_that_is_overtaken(
    spark: SparkSession, tmp_path: Path, slow: tuple[str, int], fast: tuple[str, int], outcome: str
) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    results: list[Commit | TableError] = []

    def write_slowly(rows: DataFrame) -> None:
        try:
            results.append(table.append(rows, app_id=slow[0], batch_id=slow[1]))
        except TableError as error:
            results.append(error)

    with socket.create_server(("127.0.0.1", 0)) as gate:
        rows = spark.createDataFrame(flights(range(10)), COLUMNS).coalesce(1)
        held = rows.mapInArrow(held_at(gate.getsockname()[1]), COLUMNS)
        writer = threading.Thread(target=write_slowly, args=(held,))
        writer.start()
        # Its task runs, so the slow writer has read the log; now the fast one commits.
        gate.settimeout(60)
        with gate.accept()[0]:
            append(spark, table, MAPPINGS["one vnode"], range(10, 20), fast[1], app=fast[0])
        writer.join()

    (result,) = results
    if outcome == "both land":
        assert isinstance(result, Commit)
        assert not result.skipped
        check_scan(spark, table, MAPPINGS["12 vnodes"], range(20))
    else:
        if outcome == "skipped":
            assert isinstance(result, Commit)
            assert result.skipped
        else:
            assert isinstance(result, ConcurrentCommit)
            assert (result.app_id, result.batch_id) == slow
        check_scan(spark, table, MAPPINGS["12 vnodes"], range(10, 20))


def held_at(port: int) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def hold(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        with socket.create_connection(("127.0.0.1", port)) as gate:
            gate.recv(1)
        yield from batches

    return hold


def test_of_several_creators_one_creates(tmp_path: Path) -> None:
    for attempt in range(5):
        start = threading.Barrier(4)
        results: list[StateTable] = []

        def create(
            uri: Path = tmp_path / str(attempt),
            start: threading.Barrier = start,
            results: list[StateTable] = results,
        ) -> None:
            start.wait()
            results.append(StateTable.create_or_open(uri, KEY, COLUMNS))

        threads = [threading.Thread(target=create) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(results) == 4
        assert results[0].snapshot().version == 0
        assert len(set(map(repr, results))) == 1


def test_a_table_of_another_key_is_refused_with_both_keys_named(tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    assert StateTable.create_or_open(tmp_path, KEY, COLUMNS) == StateTable.open(tmp_path) == table
    other_id = KeySchema(8, KEY.columns, KEY.distribution)
    with pytest.raises(TableMismatch, match=r'"table_id": 8.*here.*"table_id": 7.*in the table'):
        StateTable.create_or_open(tmp_path, other_id, COLUMNS)
    other_hash = KeySchema(7, KEY.columns, ("id",))
    with pytest.raises(TableMismatch, match=r"xxh64-1:i64.*here.*xxh64-1:utf8.*in the table"):
        StateTable.create_or_open(tmp_path, other_hash, COLUMNS)
    with pytest.raises(TableMismatch, match=r"the columns: .*extra double here"):
        StateTable.create_or_open(tmp_path, KEY, with_column("extra", "double"))


def test_a_table_of_another_format_or_none_at_all_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStateTable, match="there is no Delta table"):
        StateTable.open(tmp_path / "nothing")
    DeltaTable.create(tmp_path / "plain", pa.schema([("k", pa.int64())]))
    with pytest.raises(NotAStateTable, match=r"vnodemap\.formatVersion"):
        StateTable.open(tmp_path / "plain")
    StateTable.create_or_open(tmp_path / "newer", KEY, COLUMNS)
    log = tmp_path / "newer" / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"vnodemap.formatVersion":"1"', '"vnodemap.formatVersion":"2"'))
    with pytest.raises(TableMismatch, match=r"its format version: 1 here, 2 in the table"):
        StateTable.open(tmp_path / "newer")


def test_a_path_that_deltalake_would_misread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStateTable, match="without '%'"):
        StateTable.create_or_open(tmp_path / "a%20b", KEY, COLUMNS)


def test_a_place_that_is_no_table_or_is_one_no_more_is_refused_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(NotAStateTable, match="use another path"):
        StateTable.create_or_open(tmp_path / "file", KEY, COLUMNS)
    table = StateTable.create_or_open(tmp_path / "t", KEY, COLUMNS)
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    log.write_text("{broken")
    with pytest.raises(NotAStateTable, match="restore"):
        StateTable.create_or_open(tmp_path / "t", KEY, COLUMNS)
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(NotAStateTable, match="no Delta table"):
        scan(spark, table, MAPPINGS["one vnode"])


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
        found = scan(spark, table, mapping, equals={"day": day}).collect()
        assert [row["number"] for row in found] == [number]


# As SQL writes them, the values that are equal to them, and those that differ.
ODD_VALUES = [
    ("double", ["-0.0d", "double('NaN')", "-1.5d"], [0.0, float("nan"), -1.5]),
    ("float", ["float('0.1')", "float('-0.0')"], [0.1, -0.0]),
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
        found = scan(spark, table, mapping, equals={"k": value}).collect()
        assert [row["number"] for row in found] == [number]


def test_intervals_are_refused_before_a_table_is_made_of_them(tmp_path: Path) -> None:
    for type_name, instead in (
        ("interval year to month", "int for months"),
        ("interval day to second", "bigint"),
    ):
        schema = KeySchema(1, (KeyColumn("i", parse_type(type_name)),), ("i",))
        with pytest.raises(UnsupportedType, match=f"^column 'i': .*{instead}"):
            StateTable.create_or_open(tmp_path / "t", schema, StructType().add("i", type_name))
        assert not (tmp_path / "t").exists()


def test_columns_that_do_not_fit_the_key_or_carry_our_names_are_refused(tmp_path: Path) -> None:
    wide_day = StructType().add("id", "long").add("tailnum", "string").add("day", "long").add(LEGS)
    with pytest.raises(TableMismatch, match="the type of key column day: bigint here, int in the table"):
        StateTable.create_or_open(tmp_path, KEY, wide_day)
    with pytest.raises(StorageKeyError, match="'tailnum'"):
        StateTable.create_or_open(tmp_path, KEY, StructType([COLUMNS["id"], COLUMNS["day"]]))
    for name in ("_vnode", "_unit", "_mapping_version", "_vnode_prefix", "_Storage_Key"):
        with pytest.raises(ReservedColumns, match=name):
            StateTable.create_or_open(tmp_path, KEY, with_column(name, "integer"))
    assert list(tmp_path.iterdir()) == []


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
    with pytest.raises(UnknownColumns, match="day cannot be distribution columns"):
        scan(spark, grown, MAPPINGS["one vnode"], equals={"day": 1})
    with pytest.raises(UnknownColumns, match="_vnode_prefix cannot be columns"):
        scan(spark, grown, MAPPINGS["one vnode"], columns=["_vnode_prefix"])
    with pytest.raises(StorageKeyError):
        scan(spark, grown, MAPPINGS["one vnode"], equals={"tailnum": 5})
    with pytest.raises(Malformed, match="vnode 0 has no owner"):
        scan(spark, grown, VnodeMapping.parse("- 1"))


def test_a_wide_table_keeps_the_statistics_of_its_prefixes(spark: SparkSession, tmp_path: Path) -> None:
    schema = KeySchema(1, (KeyColumn("c0", BIGINT),), ("c0",))
    wide = spark.range(3).select(*(sf.col("id").alias(f"c{number}") for number in range(40)))
    table = StateTable.create_or_open(tmp_path, schema, wide.schema)
    table.append(wide.coalesce(1), app_id="q", batch_id=0)
    (file,) = table.snapshot().files
    prefixes = [prefix_of(hash_row([BIGINT], [number])) for number in range(3)]
    assert (file.first_prefix, file.last_prefix) == (min(prefixes), max(prefixes))


def test_others_can_read_the_table(grown: StateTable) -> None:
    """Delta readers that know nothing of us see the same rows; the key schema is in the configuration."""
    delta = DeltaTable(grown.uri)
    rows = delta.to_pyarrow_table(columns=COLUMNS.names).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == sorted(flights(range(2010)))
    assert json.loads(delta.metadata().configuration["vnodemap.keySchema"]) == KEY.to_json()
