"""`dispatch` beside Spark's own `repartition(n, key)`: what routing by a mapping costs.

Both move the same rows to as many partitions, in interleaved pairs of one process. The last line is one JSON
document; `ratio` is the median of `dispatch` over that of `repartition`, to be at most 1.10.

    python benchmarks/dispatch.py --rows 20000000 --pairs 7
"""

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf

from benchmarks.session import session
from dispatcher.routing import dispatch
from meta.mapping.plan import first_mapping
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from storage_keys.hash import hash_id
from storage_keys.types import BIGINT

VNODE_COUNT = 256
RATIO_MAX = 1.10


def main() -> None:
    asked = _arguments()
    with session("dispatch") as (spark, folder):
        rows = _written(spark, asked.rows, folder / "rows")
        _report(asked, *_measured(rows, asked.units, asked.pairs))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--units", type=int, default=16)
    return parser.parse_args()


def _written(spark: SparkSession, rows: int, path: Path) -> DataFrame:
    """Rows of about 34 bytes, in Parquet, so that both sides read the same input."""
    columns = {
        "k": sf.col("id"),
        "g": sf.col("id") % 1000,
        "s": sf.concat(sf.lit("user-"), sf.col("id") % 100_000),
        "v": sf.col("id") * 0.5,
    }
    made = spark.range(rows).select(*(column.alias(name) for name, column in columns.items()))
    made.write.parquet(str(path))
    return spark.read.parquet(str(path))


def _measured(rows: DataFrame, unit_count: int, pairs: int) -> tuple[list[float], list[float]]:
    """Seconds of each `repartition` and of each `dispatch`, after one pair to warm up."""
    mapping = first_mapping(VNODE_COUNT, [Unit(unit, "w1") for unit in range(unit_count)])
    units = tuple(Unit(unit, "w1") for unit in range(unit_count))
    version = MappingVersion("benchmark", 1, hash_id([BIGINT]), units, mapping)
    plain: list[float] = []
    dispatched: list[float] = []
    both: tuple[tuple[list[float], Callable[[], DataFrame]], ...] = (
        (plain, lambda: rows.repartition(unit_count, "k")),
        (dispatched, lambda: dispatch(rows, version, ["k"])),
    )
    for pair in range(pairs + 1):
        # Each goes first in every other pair.
        for seconds, moved in both if pair % 2 else reversed(both):
            started = time.perf_counter()
            moved().write.format("noop").mode("overwrite").save()
            if pair:
                seconds.append(time.perf_counter() - started)
    return plain, dispatched


def _report(asked: argparse.Namespace, plain: list[float], dispatched: list[float]) -> None:
    ratio = median(dispatched) / median(plain)
    for name, seconds in (("repartition(n, key)", plain), ("dispatch", dispatched)):
        rate = asked.rows / median(seconds) / 1e6
        runs = " ".join(f"{run:.2f}" for run in seconds)
        print(f"{name:20} median {median(seconds):6.2f} s  {rate:5.2f} M rows/s  ({runs})")
    print(f"ratio {ratio:.3f}, to be at most {RATIO_MAX}")
    print(
        json.dumps(
            {
                "benchmark": "dispatch",
                "rows": asked.rows,
                "pairs": asked.pairs,
                "units": asked.units,
                "vnodes": VNODE_COUNT,
                "repartition_s": round(median(plain), 3),
                "dispatch_s": round(median(dispatched), 3),
                "ratio": round(ratio, 4),
                "ratio_max": RATIO_MAX,
            }
        )
    )


if __name__ == "__main__":
    main()
