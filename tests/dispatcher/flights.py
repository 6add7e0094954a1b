"""Flights of three hundred planes as state, and what a scan of them has to give."""

import random
from collections.abc import Iterable

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType, StringType, StructField, StructType

from dispatcher.routing import dispatch
from dispatcher.scan.reader import scan
from dispatcher.table.state_table import Commit, StateTable
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from storage_keys.column import Order
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT, INT, STRING
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
