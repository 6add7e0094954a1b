"""Scans of a state table beside Spark's own reader on the same files, and what a scan opens, all in one run.

1. A full scan and `spark.read.parquet` over the same files; a look-up of one key and the same filter on all files, with
   the bytes that Spark's tasks read; `groupBy` of the distribution key in each group and after the scan.
2. A key that only grows, filtered to its newest tenth: rows a task by vnode groups, and by ranges of the key.
3. After a walk of 30 rescales, the ranges that a full scan opens: ours, a hash ring's mapping, one for each vnode.
4. Planning, by files, vnodes and tasks.

Times are of the clock, medians of runs by turns after one to warm up. A figure that has a goal says whether it is
met; the last line is one JSON document.

    python -m benchmarks.scan --rows 20000000 --repeats 5
    python -m benchmarks.scan --no-spark
"""

import argparse
import json
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import mean, median

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from benchmarks.figure import Figure
from benchmarks.session import session
from benchmarks.walk import FIRST, WALK, Place, ours, ring
from dispatcher.routing import dispatch
from dispatcher.scan.plan import plan_scan
from dispatcher.scan.reader import scan
from dispatcher.table.file import DataFile, Kind
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import first_mapping
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT
from storage_keys.vnode import PREFIX_COUNT

SEED = 20261122
VNODE_COUNT, UNIT_COUNT = 256, 8
UNITS = tuple(Unit(number, "w1") for number in range(UNIT_COUNT))
MAPPING = first_mapping(VNODE_COUNT, UNITS)
KEY = KeySchema(7, (KeyColumn("k", BIGINT),), ("k",))
ROWS_OF_KEY = 4  # so that there is something to group
RECENT = 0.1
_VECTORED = "parquet.hadoop.vectored.io.enabled"

SCAN_GOAL, LOOK_UP_GOAL, BYTES_GOAL = 0.8, 5.0, 0.01
WALKED = (256, 2048)
FILES = (10, 100, 1000, 10_000)
MORE_VNODES = (4096, 65_536)


def main() -> None:
    asked = _arguments()
    load, _, _ = os.getloadavg()
    figures = []
    for figure in _figures(asked):
        print(figure, flush=True)
        figures.append(figure.document())
    settings = {"seed": SEED, **vars(asked), "load_average": round(load, 2)}
    print(json.dumps({"benchmark": "scan", **settings, "figures": figures}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def _figures(asked: argparse.Namespace) -> Iterator[Figure]:
    for vnode_count in WALKED:
        yield _ranges_after_walk(vnode_count)
    for file_count in FILES:
        yield _planned(file_count, VNODE_COUNT, asked.repeats)
    for vnode_count in MORE_VNODES:
        yield _planned(FILES[-1], vnode_count, asked.repeats)
    if asked.spark:
        with session("scan") as (spark, folder):
            yield from _of_table(spark, folder, asked.rows, asked.repeats)
            yield _of_growing_key(spark, folder, asked.rows // 10)


def _of_table(spark: SparkSession, folder: Path, rows: int, repeats: int) -> Iterator[Figure]:
    columns = {
        "k": sf.col("id") % (rows // ROWS_OF_KEY),
        "g": sf.col("id") % 1000,
        "s": sf.concat(sf.lit("user-"), sf.col("id") % 100_000),
        "v": sf.col("id") * 0.5,
    }
    made = spark.range(rows).select(*(column.alias(name) for name, column in columns.items()))
    table = StateTable.create_or_open(folder / "table", KEY, made.schema)
    dispatched = dispatch(made, MappingVersion("benchmark", 1, KEY.hash_id, UNITS, MAPPING), ["k"])
    yield _written(dispatched, table, folder / "plain")
    files = [file.path for file in table.snapshot().files]
    # Of the same files, Spark's reader with what it is told of them.
    plain = spark.read.schema(spark.read.parquet(files[0]).schema).parquet(*files).select(*columns)
    yield _full(spark, table, plain, repeats)
    yield _looked_up(spark, table, plain, rows, repeats)
    yield _grouped(spark, table, repeats)


def _written(rows: DataFrame, table: StateTable, plain: Path) -> Figure:
    """Once each: it is long."""
    seconds = [
        _seconds(lambda: table.append(rows)),
        _seconds(lambda: rows.drop("_vnode", "_unit", "_mapping_version").write.parquet(str(plain))),
    ]
    sizes = [sum(file.size_bytes for file in table.snapshot().files), _bytes_under(plain)]
    values = {
        "append, s": round(seconds[0], 1),
        "dispatch and write.parquet, s": round(seconds[1], 1),
        "MB": round(sizes[0] / 1e6),
        "plain MB": round(sizes[1] / 1e6),
        "files": len(table.snapshot().files),
    }
    return Figure("write", values, {})


def _bytes_under(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.glob("*.parquet"))


def _full(spark: SparkSession, table: StateTable, plain: DataFrame, repeats: int) -> Figure:
    native, ours_ = _by_turns(
        repeats, lambda: _read_all(plain), lambda: _read_all(scan(spark, table, MAPPING))
    )
    by_tasks, _ = _by_turns(repeats, lambda: _read_all(scan(spark, table, MAPPING, tasks=2)), lambda: None)
    ratio = median(native) / median(ours_)
    values = {
        "scan, s": round(median(ours_), 2),
        "2 tasks, s": round(median(by_tasks), 2),
        "spark.read.parquet, s": round(median(native), 2),
        "ratio": round(ratio, 2),
    }
    return Figure("full scan", values, {"ratio": ratio >= SCAN_GOAL})


def _looked_up(spark: SparkSession, table: StateTable, plain: DataFrame, rows: int, repeats: int) -> Figure:
    key = rows // ROWS_OF_KEY // 3

    def by_scan() -> list[Row]:
        return scan(spark, table, MAPPING, tasks=1, filters=[("k", "=", key)]).collect()

    def by_filter() -> list[Row]:
        return plain.where(sf.col("k") == key).collect()

    assert sorted(by_scan()) == sorted(by_filter())
    native, ours_ = _by_turns(repeats, by_filter, by_scan)
    bytes_ = [_bytes_read(spark, by_scan), _bytes_read(spark, by_filter)]
    times, part = median(native) / median(ours_), bytes_[0] / bytes_[1]
    values = {
        "scan, ms": round(median(ours_) * 1e3),
        "spark.read.parquet, ms": round(median(native) * 1e3),
        "times": round(times, 1),
        "kB": round(bytes_[0] / 1e3),
        "all kB": round(bytes_[1] / 1e3),
        "part": round(part, 5),
    }
    return Figure("look-up of a key", values, {"times": times >= LOOK_UP_GOAL, "part": part <= BYTES_GOAL})


def _grouped(spark: SparkSession, table: StateTable, repeats: int) -> Figure:
    def sums(rows: DataFrame) -> DataFrame:
        return rows.groupBy("k").agg(sf.sum("v"))

    def in_groups() -> DataFrame:
        return scan(spark, table, MAPPING, each_group=sums)

    def after() -> DataFrame:
        return sums(scan(spark, table, MAPPING))

    assert in_groups().count() == after().count()
    inside, outside = _by_turns(repeats, lambda: _read_all(in_groups()), lambda: _read_all(after()))
    values = {
        "in each group, s": round(median(inside), 2),
        "after the scan, s": round(median(outside), 2),
        "exchanges": _exchanges(in_groups()),
        "exchanges after": _exchanges(after()),
    }
    return Figure("groupBy of the distribution key", values, {"exchanges": _exchanges(in_groups()) == 0})


def _exchanges(df: DataFrame) -> int:
    plan: str = df._jdf.queryExecution().executedPlan().toString()
    return plan.count("Exchange")


def _of_growing_key(spark: SparkSession, folder: Path, rows: int) -> Figure:
    """Both by UNIT_COUNT tasks: groups of vnodes, and ranges of the key with the same number of rows each."""
    made = spark.range(rows).select(sf.col("id").alias("k"), (sf.col("id") * 0.5).alias("v"))
    table = StateTable.create_or_open(folder / "growing", KEY, made.schema)
    table.append(dispatch(made, MappingVersion("benchmark", 1, KEY.hash_id, UNITS, MAPPING), ["k"]))
    ranges = folder / "ranges"
    made.repartitionByRange(UNIT_COUNT, "k").write.parquet(str(ranges))
    since = int(rows * (1 - RECENT))
    by_vnodes = scan(spark, table, MAPPING, filters=[("k", ">=", since)])
    # A task for each range, as it was written.
    by_ranges = [
        spark.read.parquet(str(path)).where(sf.col("k") >= since).count()
        for path in sorted(ranges.glob("part-*.parquet"))
    ]
    counted = by_vnodes.groupBy(sf.spark_partition_id()).count().collect()
    of_vnodes = [row["count"] for row in counted] + [0] * (UNIT_COUNT - len(counted))
    assert sum(of_vnodes) == sum(by_ranges) == rows - since
    values = {
        "vnode groups": round(_skew(of_vnodes), 3),
        "range partitions": round(_skew(by_ranges), 3),
        "idle of vnode groups": of_vnodes.count(0),
        "idle of range partitions": by_ranges.count(0),
    }
    return Figure("newest tenth of a growing key, max/mean rows a task", values, {})


def _skew(counts: Sequence[int]) -> float:
    return max(counts) / mean(counts)


def _ranges_after_walk(vnode_count: int) -> Figure:
    values: dict[str, float] = {
        "ours": _ranges(_walked(ours(vnode_count), vnode_count)),
        "uhashring": _ranges(_walked(ring(vnode_count, {}), vnode_count)),
        "a range for each vnode": vnode_count,
    }
    return Figure(f"ranges of a full scan after 30 rescales, {vnode_count} vnodes", values, {})


def _walked(place: Place, vnode_count: int) -> VnodeMapping:
    owners = place(FIRST)
    for units in WALK:
        owners = place(units)
    assert len(owners) == vnode_count
    return VnodeMapping.from_array(owners)


def _ranges(mapping: VnodeMapping) -> int:
    return plan_scan(mapping, []).ranges_opened


def _planned(file_count: int, vnode_count: int, repeats: int) -> Figure:
    """By units and by 64 tasks: files of dispatched commits, each of a run of prefixes."""
    dice = random.Random(SEED)
    starts = [dice.randrange(PREFIX_COUNT) for _ in range(file_count)]
    files = [
        DataFile(f"{at}.parquet", 1000, 1 << 20, start, min(start + 8191, PREFIX_COUNT - 1), at, Kind.ROWS)
        for at, start in enumerate(starts)
    ]
    mapping = first_mapping(vnode_count, [Unit(number, "w1") for number in range(64)])
    by_unit, by_tasks = _by_turns(
        repeats, lambda: plan_scan(mapping, files), lambda: plan_scan(mapping, files, tasks=64)
    )
    values = {
        "by unit, ms": round(median(by_unit) * 1e3, 1),
        "64 tasks, ms": round(median(by_tasks) * 1e3, 1),
    }
    return Figure(f"planning, {file_count} files, {vnode_count} vnodes", values, {})


def _by_turns(repeats: int, *works: Callable[[], object]) -> list[list[float]]:
    """Seconds of each, after one of each to warm up."""
    seconds: list[list[float]] = [[] for _ in works]
    for turn in range(repeats + 1):
        for found, work in zip(seconds, works, strict=True):
            taken = _seconds(work)
            if turn:
                found.append(taken)
    return seconds


def _seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _read_all(df: DataFrame) -> None:
    df.write.format("noop").mode("overwrite").save()


def _bytes_read(spark: SparkSession, work: Callable[[], object]) -> int:
    """What the tasks of its jobs read of files, footers included.

    Without vectored reads, which Hadoop does not count; so of each small read a whole buffer is counted.
    """
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    settings.set(_VECTORED, "false")
    try:
        before = _input_bytes(spark)
        work()
        return _input_bytes(spark) - before
    finally:
        settings.unset(_VECTORED)


def _input_bytes(spark: SparkSession) -> int:
    """Of all stages so far; Spark's own page of stages shows the same."""
    gateway, context = spark.sparkContext._gateway, spark.sparkContext._jsc.sc()
    assert gateway is not None
    context.listenerBus().waitUntilEmpty()
    nothing = gateway.jvm.java.util.ArrayList()
    quantiles = gateway.new_array(gateway.jvm.double, 0)
    stages = context.statusStore().stageList(nothing, False, False, quantiles, nothing)  # noqa: FBT003
    return sum(stages.apply(at).inputBytes() for at in range(stages.size()))


if __name__ == "__main__":
    main()
