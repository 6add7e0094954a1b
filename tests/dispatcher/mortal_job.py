"""A job that streams files into a table, one a batch, and dies where it is told to.

Run as a process: `python -m tests.dispatcher.mortal_job URL FRAGMENT FOLDER [STAGE BATCH]`. It prints the stages that
its batches reach, and at the one that is named it kills itself.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from deploy.demo.job import open_table
from dispatcher.streaming import Batch, each_batch
from dispatcher.subscription import Subscription
from dispatcher.table.log import Commit, Log

FLIGHTS = pa.schema([("flight_id", pa.int64()), ("tailnum", pa.string()), ("month", pa.int64())])
APP_ID = "a mortal job"

Reached = Callable[[str, int], None]


def stream(spark: SparkSession, subscription: Subscription, folder: Path, reached: Reached) -> StreamingQuery:
    """Each batch is `begun` and `committed`; in between its files are written, which only `main` tells."""
    columns = from_arrow_schema(FLIGHTS)
    table = open_table(folder / "table", columns)

    def write(rows: DataFrame, batch: Batch) -> None:
        reached("begun", batch.id)
        told = rows.withColumns(
            {
                "batch_id": sf.lit(batch.id).cast("bigint"),
                "mapping_version": sf.col("_mapping_version"),
                "unit": sf.col("_unit"),
                "spark_partition": sf.spark_partition_id(),
            }
        )
        table.append(told, app_id=APP_ID, batch_id=batch.id)
        reached("committed", batch.id)

    files = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    return (
        files.writeStream.foreachBatch(each_batch(subscription, ["tailnum"], write))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .start()
    )


def main(url: str, fragment: str, folder: Path, *last: str) -> None:
    def reached(stage: str, batch: int) -> None:
        print(stage, batch, flush=True)
        if last == (stage, str(batch)):
            os.kill(os.getpid(), signal.SIGKILL)

    add = Log.add

    def written(log: Log, files: Any, batch: Any, *rest: Any, **named: Any) -> Commit:
        reached("written", batch.id)
        return add(log, files, batch, *rest, **named)

    Log.add = written  # type: ignore[method-assign]
    os.environ["PYSPARK_PYTHON"] = sys.executable
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )
    with Subscription(
        url, fragment, name="a mortal job", state_dir=folder / "state", poll_ms=200
    ) as subscription:
        stream(spark, subscription, folder, reached).awaitTermination()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], Path(sys.argv[3]), *sys.argv[4:])
