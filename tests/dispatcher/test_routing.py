"""Routing, checked row by row by H as plain Python computes it."""

import random

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as sf

from dispatcher.routing import HashMismatch, ReservedColumns, dispatch, route, slot_of
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import MappingVersion
from meta.mapping.unit import Unit
from storage_keys.errors import MalformedKey, UnsupportedType
from storage_keys.hash import hash_id, hash_row
from storage_keys.types import BIGINT, INT, STRING, KeyType
from storage_keys.vnode import prefix_of, vnode_of


def version_of(mapping: VnodeMapping, *types: KeyType) -> MappingVersion:
    units = tuple(Unit(unit, f"w{unit % 2}") for unit in mapping.units)
    return MappingVersion("flights", 3, hash_id(types), units, mapping)


def mapping_of(units: list[int], vnode_count: int, seed: int = 1) -> VnodeMapping:
    """Each unit owns something, the rest is thrown about."""
    dice = random.Random(seed)
    owners = units + dice.choices(units, k=vnode_count - len(units))
    dice.shuffle(owners)
    return VnodeMapping(tuple(owners))


def vnode(mapping: VnodeMapping, types: tuple[KeyType, ...], values: list[object]) -> int:
    return vnode_of(prefix_of(hash_row(types, values)), mapping.vnode_count)


def with_partition(df: DataFrame) -> list[Row]:
    return df.withColumn("partition", sf.spark_partition_id()).collect()


def plan_text(df: DataFrame) -> str:
    return df._jdf.queryExecution().toString()


TAILNUMS = [None, "", "N14228", "é", "日本", "a\0b", *(f"N{number}" for number in range(400))]


@pytest.fixture(scope="module")
def flights(spark: SparkSession) -> DataFrame:
    rows = [(number % 7 or None, tailnum) for number, tailnum in enumerate(TAILNUMS)]
    return spark.createDataFrame(rows, "day bigint, tailnum string").repartition(3)


@pytest.mark.parametrize(
    ("units", "vnode_count"), [([0, 2, 5], 256), ([7], 1), ([1, 3, 4, 9], 12), ([2, 2**62], 65_536)]
)
@pytest.mark.parametrize(
    ("keys", "types"), [(["tailnum"], (STRING,)), (["day", "tailnum"], (BIGINT, STRING))]
)
def test_partition_i_is_the_slot_of_the_owner_of_every_rows_vnode(
    flights: DataFrame, units: list[int], vnode_count: int, keys: list[str], types: tuple[KeyType, ...]
) -> None:
    mapping = mapping_of(units, vnode_count)
    rows = with_partition(dispatch(flights, version_of(mapping, *types), keys))
    assert len(rows) == len(TAILNUMS)
    for row in rows:
        expected = vnode(mapping, types, [row[key] for key in keys])
        assert row["_vnode"] == expected
        assert row["_unit"] == mapping.owners[expected] == sorted(units)[row["partition"]]
        assert row["_mapping_version"] == 3


def test_a_null_key_has_the_vnode_of_the_seed_and_one_unit(spark: SparkSession) -> None:
    mapping = mapping_of([0, 2, 5], 256)
    nulls = spark.range(0, 50, 1, 4).select(sf.lit(None).cast("string").alias("tailnum"))
    rows = with_partition(dispatch(nulls, version_of(mapping, STRING), ["tailnum"]))
    # H of nothing but NULLs is the seed, 42, whose top bits are 0.
    assert {(row["_vnode"], row["partition"]) for row in rows} == {(0, mapping.slot_owners[0])}


def test_a_unit_without_a_row_keeps_its_partition(spark: SparkSession) -> None:
    mapping = mapping_of(list(range(0, 32, 2)), 256)
    one = spark.createDataFrame([("N14228",)], "tailnum string")
    dispatched = dispatch(one, version_of(mapping, STRING), ["tailnum"])
    assert dispatched.rdd.getNumPartitions() == 16
    assert [row["_unit"] for row in with_partition(dispatched) if 2 * row["partition"] == row["_unit"]] != []


def test_a_singleton_has_no_key_and_one_vnode(flights: DataFrame) -> None:
    rows = with_partition(dispatch(flights, version_of(VnodeMapping((4,))), []))
    assert {(row["_vnode"], row["_unit"], row["partition"]) for row in rows} == {(0, 4, 0)}
    assert len(rows) == len(TAILNUMS)


def test_widening_a_key_column_moves_no_row(spark: SparkSession) -> None:
    numbers = spark.range(-200, 200).select(sf.col("id").cast("int").alias("k"))
    version = version_of(mapping_of([0, 2, 5], 256), INT)
    wide = numbers.select(sf.col("k").cast("bigint"))
    assert route(numbers, version, ["k"]).collect() == route(wide, version, ["k"]).collect()


def test_a_column_name_is_taken_literally(spark: SparkSession) -> None:
    name = "a.b`c d"
    df = spark.createDataFrame([(1,), (2,)], "k bigint").toDF(name)
    mapping = mapping_of([0, 1], 8)
    rows = dispatch(df, version_of(mapping, BIGINT), [name]).collect()
    assert sorted((row[name], row["_vnode"]) for row in rows) == [
        (value, vnode(mapping, (BIGINT,), [value])) for value in (1, 2)
    ]


def test_routing_is_native_and_shuffles_only_to_dispatch(flights: DataFrame, spark: SparkSession) -> None:
    plain = spark.range(10).select(sf.col("id").cast("string").alias("tailnum"))
    version = version_of(mapping_of([0, 2, 5], 256), STRING)
    routed = plan_text(route(plain, version, ["tailnum"]))
    assert "Exchange" not in routed
    dispatched = plan_text(dispatch(plain, version, ["tailnum"]))
    physical = dispatched[dispatched.index("== Physical Plan ==") :]
    assert physical.count("Exchange") == physical.count("REPARTITION_BY_NUM") == 1
    for plan in (routed, dispatched):
        assert "Python" not in plan
        assert "ArrowEval" not in plan


def test_the_plan_has_as_many_literals_for_65536_vnodes_as_for_8(flights: DataFrame) -> None:
    def literals(mapping: VnodeMapping) -> int:
        dispatched = dispatch(flights, version_of(mapping, STRING), ["tailnum"])
        return dispatched._jdf.queryExecution().analyzed().toJSON().count("expressions.Literal")

    few = literals(mapping_of([0, 2], 8))
    assert literals(mapping_of(list(range(0, 8192, 2)), 65_536)) == few > 0


@pytest.mark.parametrize("name", ["_vnode", "_unit", "_mapping_version", "_UNIT"])
def test_columns_with_our_names_are_refused(flights: DataFrame, name: str) -> None:
    version = version_of(mapping_of([0, 1], 8), STRING)
    with pytest.raises(ReservedColumns, match="rename or drop") as refused:
        dispatch(flights.withColumn(name, sf.lit(1)), version, ["tailnum"])
    assert refused.value.names == (name,)


def test_columns_hashed_unlike_the_fragments_are_refused(flights: DataFrame) -> None:
    with pytest.raises(HashMismatch, match=r"xxh64-1:i64.*xxh64-1:utf8") as refused:
        route(flights, version_of(mapping_of([0, 1], 8), STRING), ["day"])
    assert (refused.value.ours, refused.value.theirs) == (hash_id([BIGINT]), hash_id([STRING]))


def test_missing_and_unusable_key_columns_are_refused_by_name(
    spark: SparkSession, flights: DataFrame
) -> None:
    version = version_of(mapping_of([0, 1], 8), STRING)
    with pytest.raises(MalformedKey, match="'tail'"):
        route(flights, version, ["tail"])
    strange = spark.sql("select map('a', 1) as m, array(1) as a, 'x' collate UTF8_LCASE as s")
    for name in strange.columns:
        with pytest.raises(UnsupportedType, match=f"'{name}'"):
            route(strange, version, [name])


def test_a_vnode_of_nobody_is_refused(spark: SparkSession) -> None:
    holey = VnodeMapping((0, None, 1))
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        version_of(holey, STRING)
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        slot_of(sf.lit(0), holey)


def test_a_row_without_a_slot_fails_the_job(spark: SparkSession) -> None:
    mapping = mapping_of([0, 2, 5], 12)
    nothing = spark.range(1).select(slot_of(sf.lit(None).cast("int"), mapping).alias("slot"))
    with pytest.raises(PySparkException, match="a row has no slot"):
        nothing.collect()
    beyond = spark.range(12, 13).select(slot_of(sf.col("id").cast("int"), mapping).alias("slot"))
    with pytest.raises(PySparkException, match="INVALID_ARRAY_INDEX"):
        beyond.collect()
