"""State tables as they are made and written: by one, once, or refused by name."""

import shutil
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import (
    ArrayType,
    CalendarIntervalType,
    CharType,
    DataType,
    DayTimeIntervalType,
    LongType,
    MapType,
    NullType,
    StructType,
    TimestampNTZType,
    TimeType,
    VarcharType,
    YearMonthIntervalType,
)

from dispatcher.routing import ReservedColumns
from dispatcher.scan.reader import scan
from dispatcher.table.errors import (
    AnotherCheckpoint,
    ConcurrentCommit,
    NotAStateTable,
    TableError,
    TableMismatch,
)
from dispatcher.table.state_table import Commit, StateTable
from meta.mapping.mapping import VnodeMapping
from storage_keys.errors import StorageKeyError, UnsupportedType
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.type_name import parse_type
from storage_keys.types import BIGINT, STRING
from storage_keys.vnode import prefix_of, vnode_of
from tests.dispatcher.flights import (
    COLUMNS,
    KEY,
    LEGS,
    MAPPINGS,
    append,
    flights,
    prefix,
    with_column,
)
from tests.dispatcher.table.visible import visible


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


def test_a_batch_is_committed_once(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    mapping = MAPPINGS["12 vnodes"]
    first = append(spark, table, mapping, range(10), 5)
    again = append(spark, table, mapping, range(10), 5)
    assert again == Commit(first.version, 0, (), skipped=True)
    assert not append(spark, table, mapping, range(10, 20), 5, app="another query").skipped
    assert not append(spark, table, mapping, range(0), 6).skipped
    assert append(spark, table, mapping, range(20, 30), 6).skipped
    check_rows(table, range(20))


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
    check_rows(table, range(20))


def test_a_task_that_fails_halfway_removes_its_file(spark: SparkSession, tmp_path: Path) -> None:
    schema = KeySchema(3, (KeyColumn("k", BIGINT), KeyColumn("s", STRING)), ("k",))
    table = StateTable.create_or_open(tmp_path, schema, StructType().add("k", "long").add("s", "string"))
    # The last row in key order has a key that is too long: by then the first row group is in the file.
    last = sf.when(sf.col("id") == 7, sf.repeat(sf.lit("z"), 70_000)).otherwise("a")
    doomed = spark.range(0, 70_000, 1, 1).select(sf.lit(1).cast("bigint").alias("k"), last.alias("s"))
    with pytest.raises(PySparkException, match="the length of a storage key"):
        table.append(doomed, app_id="q", batch_id=0)
    assert list(tmp_path.glob("*.parquet")) == []
    assert visible(table) == []
    commit = table.append(doomed.where("s = 'a'"), app_id="q", batch_id=0)
    assert (commit.rows, commit.skipped) == (69_999, False)


def test_of_a_job_that_fails_nothing_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS)
    day = sf.when(sf.col("day") == 4, sf.raise_error(sf.lit("doom"))).otherwise(sf.col("day")).cast("int")
    rows = spark.createDataFrame(flights(range(10)), COLUMNS).repartitionByRange(3, "day")
    with pytest.raises(PySparkException, match="doom"):
        table.append(rows.withColumn("day", day), app_id="q", batch_id=0)
    assert visible(table) == []
    assert not append(spark, table, MAPPINGS["12 vnodes"], range(5), 0).skipped
    check_rows(table, range(5))


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
        check_rows(table, range(20))
    else:
        if outcome == "skipped":
            assert isinstance(result, Commit)
            assert result.skipped
        else:
            assert isinstance(result, ConcurrentCommit)
            assert result.what == f"batch {slow[1]} of {slow[0]}"
        check_rows(table, range(10, 20))
    files = {file.path for file in table.snapshot().files}
    assert {str(path) for path in tmp_path.glob("*.parquet")} == files


def check_rows(table: StateTable, ids: Iterable[int]) -> None:
    assert sorted(visible(table), key=repr) == sorted(flights(ids), key=repr)


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
    StateTable.create_or_open(tmp_path / "older", KEY, COLUMNS)
    log = tmp_path / "older" / "_delta_log" / f"{0:020d}.json"
    log.write_text(log.read_text().replace('"vnodemap.formatVersion":"2"', '"vnodemap.formatVersion":"1"'))
    with pytest.raises(TableMismatch, match=r"its format version: 2 here, 1 in the table; read it with the"):
        StateTable.open(tmp_path / "older")


def test_a_path_that_deltalake_would_misread_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotAStateTable, match="without '%'"):
        StateTable.create_or_open(tmp_path / "a%20b", KEY, COLUMNS)
    for name in ("a%20b", "a#b", "a?b"):
        with pytest.raises(NotAStateTable, match="have a meaning in URLs"):
            StateTable.create_or_open(f"file://{tmp_path}/{name}", KEY, COLUMNS)


def test_a_place_that_is_no_table_or_is_one_no_more_is_refused_by_name(
    spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(NotAStateTable, match=r"it is a file.*use another path"):
        StateTable.create_or_open(tmp_path / "file", KEY, COLUMNS)
    with pytest.raises(NotAStateTable, match="it is empty"):
        StateTable.open("")
    table = StateTable.create_or_open(tmp_path / "t", KEY, COLUMNS)
    (log,) = (tmp_path / "t" / "_delta_log").glob("*.json")
    log.write_text("broken")
    with pytest.raises(NotAStateTable, match="restore") as refused:
        StateTable.create_or_open(tmp_path / "t", KEY, COLUMNS)
    assert str(refused.value).isprintable()
    assert " 1: " not in str(refused.value), "where in Rust it was"
    shutil.rmtree(tmp_path / "t")
    with pytest.raises(NotAStateTable, match="no Delta table"):
        table.snapshot()


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
    for name in (
        "_vnode",
        "_unit",
        "_mapping_version",
        "_vnode_prefix",
        "_Storage_Key",
        "_deleted",
        "_kind",
        "_sequence",
    ):
        with pytest.raises(ReservedColumns, match=name):
            StateTable.create_or_open(tmp_path, KEY, with_column(name, "integer"))
    assert list(tmp_path.iterdir()) == []


def test_a_wide_table_keeps_the_statistics_of_its_prefixes(spark: SparkSession, tmp_path: Path) -> None:
    schema = KeySchema(1, (KeyColumn("c0", BIGINT),), ("c0",))
    wide = spark.range(3).select(*(sf.col("id").alias(f"c{number}") for number in range(40)))
    table = StateTable.create_or_open(tmp_path, schema, wide.schema)
    table.append(wide.coalesce(1), app_id="q", batch_id=0)
    (file,) = table.snapshot().files
    prefixes = [prefix_of(hash_row([BIGINT], [number])) for number in range(3)]
    assert (file.first_prefix, file.last_prefix) == (min(prefixes), max(prefixes))


@pytest.mark.parametrize(
    ("type_", "advice"),
    [
        (CharType(5), "use string"),
        (VarcharType(5), "use string"),
        (TimeType(), "bigint for microseconds"),
        (CalendarIntervalType(), "a struct of other types"),
        (YearMonthIntervalType(), "int for months"),
        (DayTimeIntervalType(0, 1), "use interval day to second"),
        (NullType(), "the type that its values will have"),
        (StructType(), "a struct of other types"),
    ],
    ids=str,
)
def test_a_type_that_delta_or_arrow_lacks_is_refused_by_the_name_of_its_column(
    tmp_path: Path, type_: DataType, advice: str
) -> None:
    inner = StructType().add("a", "long").add("b", type_)
    for path, column in {
        "c": type_,
        "c.element": ArrayType(type_),
        "c.element.b": ArrayType(inner),
        "c.key": MapType(type_, LongType()),
        "c.value.b": MapType(LongType(), inner),
    }.items():
        columns = StructType().add("k", "long").add("c", column)
        with pytest.raises(UnsupportedType, match=advice) as refused:
            StateTable.create_or_open(
                tmp_path / "t", KeySchema(3, (KeyColumn("k", BIGINT),), ("k",)), columns
            )
        assert (refused.value.column, refused.value.type_name) == (path, type_.simpleString())
    assert list(tmp_path.iterdir()) == []


def test_types_that_are_not_refused_can_be_written_and_read(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.sql(
        "select 1L k, true a, 1Y b, 1S c, 1 d, 1F e, 1D f, 1.5BD g, 'a' h, X'00' i, date'2013-01-01' j,"
        " timestamp_ntz'2013-01-01 00:00:00' l, interval '1 2:3:4' day to second m, parse_json('[1]') n,"
        " array(timestamp_ntz'2013-01-01 00:00:00') o, 'B' collate UTF8_LCASE p, map('a', named_struct('x', 1)) q"
    )
    table = StateTable.create_or_open(tmp_path, KeySchema(3, (KeyColumn("k", BIGINT),), ("k",)), rows.schema)
    table.append(rows)
    table.upsert(rows)
    table.compact(spark, force=True)
    (found,) = scan(spark, table, VnodeMapping((0,))).collect()
    (row,) = rows.collect()
    assert str(found) == str(row)
    columns = StructType().add("k", "long").add("c", MapType(LongType(), TimestampNTZType()))
    with pytest.raises(UnsupportedType, match="use timestamp"):
        StateTable.create_or_open(tmp_path / "ntz", table.schema, columns)
