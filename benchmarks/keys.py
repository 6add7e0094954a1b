"""Storage keys at speed, each figure beside what it is compared with in the same run.

On one core: whole Arrow columns to keys, to vnodes and back, beside `fdb.tuple` (of the package `foundationdb`; it does
not hash, and knows no decimals) and a loop over our own codec of one row. On two cores: Spark's native key column
beside the same keys from a vectorised Arrow UDF. Rates are medians, in millions of rows a second: of processor time on
one core, where other work on the machine does not count, and of the clock with Spark. The last line is one JSON
document; a figure that has a goal says whether it is met.

    python benchmarks/keys.py --rows 2000000 --spark-rows 8000000 --repeats 5
    python benchmarks/keys.py --no-spark
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import fdb.tuple
import numpy as np
import pyarrow as pa
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as sf

from benchmarks.session import session
from storage_keys import arrow
from storage_keys import spark as native
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT, STRING, Decimal, KeyType
from storage_keys.vnode import prefix_of, vnode_of

SEED = 20261121
TABLE_ID = 7
VNODE_COUNT = 256
LOOP_ROWS = 20_000
UDF_TIMES = 5.0
TYPES: dict[str, KeyType] = {"k": BIGINT, "s": STRING, "d": Decimal(18, 2), "e": Decimal(38, 10)}


@dataclass(frozen=True, slots=True)
class Run:
    name: str
    work: Callable[[], object]
    rows: int


@dataclass(frozen=True, slots=True)
class Figure:
    """Millions of rows a second, `ours` and those of what it is compared with; and what ours is to reach."""

    name: str
    rates: dict[str, float]
    goal: float | None = None
    times_goal: float = 1.0

    @property
    def met(self) -> bool | None:
        if self.goal is None:
            return None
        others = max(rate for name, rate in self.rates.items() if name != "ours")
        return self.rates["ours"] >= max(self.goal, self.times_goal * others)

    def document(self) -> dict[str, object]:
        rates = {name: round(rate, 3) for name, rate in self.rates.items()}
        return {"name": self.name, **rates, "goal": self.goal, "met": self.met}

    def __str__(self) -> str:
        ours = self.rates["ours"]
        beside = ", ".join(
            f"{name} {rate:.3f} ({ours / rate:.1f}x)" for name, rate in self.rates.items() if name != "ours"
        )
        return f"{self.name:40} {ours:6.2f} M/s; {beside}{self._goal()}"

    def _goal(self) -> str:
        if self.goal is None:
            return ""
        times = "" if self.times_goal == 1 else f" and {self.times_goal:g}x"
        return f"; goal {self.goal:g}{times} {'met' if self.met else 'MISSED'}"


def main() -> None:
    asked = _arguments()
    load, _, _ = os.getloadavg()
    figures = []
    for figure in _figures(asked):
        print(figure, flush=True)
        figures.append(figure.document())
    # What else the machine did at the start: Spark's figures are of the clock.
    settings = {"unit": "M rows/s", "seed": SEED, **vars(asked), "load_average": round(load, 2)}
    print(json.dumps({"benchmark": "keys", **settings, "figures": figures}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--spark-rows", type=int, default=8_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--spark", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def _figures(asked: argparse.Namespace) -> Iterator[Figure]:
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    pa.set_cpu_count(1)
    yield from _of_one_core(asked.rows, asked.repeats)
    # The JVM takes over what it may use.
    os.sched_setaffinity(0, cores)
    if asked.spark:
        yield from _of_spark(asked.spark_rows, asked.repeats)


def _measured(clock: Callable[[], float], repeats: int, ours: Run, beside: list[Run]) -> dict[str, float]:
    """Millions of rows a second of each. Each goes once to warm up, then they take turns."""
    runs = (ours, *beside)
    seconds: dict[str, list[float]] = {run.name: [] for run in runs}
    for repeat in range(repeats + 1):
        for run in runs:
            started = clock()
            run.work()
            if repeat:
                seconds[run.name].append(clock() - started)
    return {run.name: run.rows / median(seconds[run.name]) / 1e6 for run in runs}


def _schema(names: list[str]) -> KeySchema:
    return KeySchema(TABLE_ID, tuple(KeyColumn(name, TYPES[name]) for name in names), (names[0],))


def _of_one_core(rows: int, repeats: int) -> Iterator[Figure]:
    columns = _columns(rows)
    yield _vnodes(columns["k"], repeats)
    yield from _there_and_back(_schema(["k"]), columns.select(["k"]), repeats, 20.0)
    few = columns.slice(0, rows // 4)
    for names, goal in ((["k", "s"], 1.0), (["s"], None), (["d"], None), (["e"], None)):
        yield from _there_and_back(_schema(names), few.select(names), repeats, goal)


def _vnodes(column: pa.ChunkedArray, repeats: int) -> Figure:
    ours = Run("ours", lambda: arrow.vnodes([BIGINT], [column], VNODE_COUNT), len(column))
    values = column.slice(0, LOOP_ROWS).to_pylist()

    def naive() -> list[int]:
        return [vnode_of(prefix_of(hash_row([BIGINT], [value])), VNODE_COUNT) for value in values]

    rates = _measured(time.process_time, repeats, ours, [Run("naive", naive, LOOP_ROWS)])
    return Figure("vnodes of (bigint)", rates, 60.0)


def _there_and_back(schema: KeySchema, table: pa.Table, repeats: int, goal: float | None) -> Iterator[Figure]:
    """Keys of the rows, then the rows of the keys. `fdb.tuple` packs the table's id and the row, without a hash."""
    keys = arrow.storage_keys(schema, table)
    rows = table.slice(0, LOOP_ROWS).to_pylist()
    stored = keys.slice(0, LOOP_ROWS).to_pylist()
    encode = [Run("naive", lambda: [schema.storage_key(row) for row in rows], LOOP_ROWS)]
    decode = [Run("naive", lambda: [schema.decode(key) for key in stored], LOOP_ROWS)]
    if not any(isinstance(column.type, Decimal) for column in schema.columns):
        tuples = [(TABLE_ID, *row.values()) for row in rows]
        packed = [fdb.tuple.pack(row) for row in tuples]
        encode.append(Run("fdb.tuple", lambda: [fdb.tuple.pack(row) for row in tuples], LOOP_ROWS))
        decode.append(Run("fdb.tuple", lambda: [fdb.tuple.unpack(key) for key in packed], LOOP_ROWS))
    shown = ", ".join(column.type.sql_name for column in schema.columns)
    ours = Run("ours", lambda: arrow.storage_keys(schema, table), table.num_rows)
    yield Figure(f"keys of ({shown})", _measured(time.process_time, repeats, ours, encode), goal)
    back = Run("ours", lambda: arrow.decode_keys(schema, keys), table.num_rows)
    yield Figure(f"rows of ({shown})", _measured(time.process_time, repeats, back, decode))


def _columns(rows: int) -> pa.Table:
    """Integers of 64 bits, strings of 5 to 16 bytes, decimals of up to 18 and up to 38 digits, of both signs."""
    source = np.random.default_rng(SEED)
    letters = "".join(map(chr, source.integers(ord("a"), ord("z") + 1, 4096)))
    starts = source.integers(0, 4080, rows).tolist()
    high = np.arange(rows) % 2 - 1
    low = source.integers(0, 10**17, rows)
    wide = source.integers(-(10**18), 10**18, rows)
    return pa.table(
        {
            "k": source.integers(-(2**63), 2**63 - 1, rows),
            "s": [letters[start : start + 5 + start % 12] for start in starts],
            "d": _decimals(pa.decimal128(18, 2), low * (2 * high + 1), high),
            "e": _decimals(pa.decimal128(38, 10), low, wide),
        }
    )


def _decimals(type_: pa.DataType, low: Any, high: Any) -> pa.Array:
    halves = np.stack([low, high], axis=1).astype("<i8")
    return pa.Array.from_buffers(type_, len(halves), [None, pa.py_buffer(halves.tobytes())])


def _of_spark(rows: int, repeats: int) -> Iterator[Figure]:
    with session("keys") as (spark, _):
        for names, goal in ((["k"], 5.0), (["s"], 1.5), (["k", "s"], None)):
            yield _native(spark, _schema(names), rows, repeats, goal)


def _native(spark: SparkSession, schema: KeySchema, rows: int, repeats: int, goal: float | None) -> Figure:
    """Both sides make the keys of the same rows, for a sum of their lengths.

    The columns are made by the same stage and the keys end in it, so that neither a source nor a sink is measured:
    Spark's cache and its noop sink took longer than the key of a bigint.
    """
    names = [column.name for column in schema.columns]

    @sf.arrow_udf("binary")  # type: ignore[attr-defined, untyped-decorator]
    def udf(*arrays: pa.Array) -> pa.Array:
        return arrow.storage_keys(schema, pa.table(dict(zip(names, arrays, strict=True))))

    frame = spark.range(0, rows, 1, 2).select(*(_drawn(name).alias(name) for name in names))
    native_key = native.storage_key_column(schema, frame.schema)
    lengths: set[int] = set()

    def summed(key: Column) -> None:
        lengths.add(frame.agg(sf.sum(sf.octet_length(key))).collect()[0][0])

    ours = Run("ours", lambda: summed(native_key), rows)
    rates = _measured(time.perf_counter, repeats, ours, [Run("arrow udf", lambda: summed(udf(*names)), rows)])
    assert len(lengths) == 1, lengths
    shown = ", ".join(column.type.sql_name for column in schema.columns)
    return Figure(f"Spark's key column of ({shown})", rates, goal, UDF_TIMES)


def _drawn(name: str) -> Column:
    """A column of a range's rows at little cost: bigints of both signs, or strings of 5 to 16 bytes."""
    if name == "k":
        return sf.col("id").bitwiseXOR(sf.shiftleft("id", 41))
    letters = "".join(chr(ord("a") + 7919 * at % 26) for at in range(512))
    words = [letters[at % 491 : at % 491 + 5 + at % 12] for at in range(1009)]
    return sf.element_at(sf.lit(words), (sf.pmod("id", sf.lit(len(words))) + 1).cast("int"))


if __name__ == "__main__":
    main()
