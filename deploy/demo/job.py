"""The job: flights, dispatched by tail number, into a state table. This is all that a job needs of vnodemap."""

from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from dispatcher.streaming import Batch, each_batch
from dispatcher.subscription import Subscription
from dispatcher.table.state_table import StateTable
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT, STRING

APP_ID = "flights-demo"

KEY = KeySchema(
    table_id=1,
    columns=(KeyColumn("tailnum", STRING), KeyColumn("flight_id", BIGINT)),
    distribution=("tailnum",),
)

# Where each row was handled, kept so that it can be checked afterwards.
EVIDENCE = (
    StructField("batch_id", LongType()),
    StructField("mapping_version", LongType()),
    StructField("unit", LongType()),
    StructField("spark_partition", IntegerType()),
)


def open_table(uri: Path, flights: StructType) -> StateTable:
    return StateTable.create_or_open(uri, KEY, StructType([*flights.fields, *EVIDENCE]))


def start_query(
    spark: SparkSession, subscription: Subscription, table: StateTable, flights: StructType, folder: Path
) -> StreamingQuery:
    """Streams the files that appear in `folder`/input, one for each micro-batch."""

    def write(rows: DataFrame, batch: Batch) -> None:
        told = rows.withColumns(
            {
                "batch_id": sf.lit(batch.id).cast("bigint"),
                "mapping_version": sf.col("_mapping_version"),
                "unit": sf.col("_unit"),
                "spark_partition": sf.spark_partition_id(),
            }
        )
        table.append(told, app_id=APP_ID, batch_id=batch.id)

    (folder / "input").mkdir()
    stream = spark.readStream.schema(flights).option("maxFilesPerTrigger", 1).parquet(str(folder / "input"))
    return (
        stream.writeStream.foreachBatch(each_batch(subscription, ["tailnum"], write))
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="100 milliseconds")
        .start()
    )
