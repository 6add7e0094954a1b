"""Byte order against Spark's own ORDER BY: every type under every order, and keys of several columns.

Spark numbers the rows by `dense_rank() OVER (ORDER BY ...)`: rows that are equal to it (<=>) share a number. Our
bytes are right if numbering them by their order, equal bytes alike, gives the same numbers.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from storage_keys.column import Order, encode_column
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.type_name import parse_type
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME_INTERVAL,
    DOUBLE,
    FLOAT,
    INT,
    PLAIN_TYPES,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    KeyType,
    Struct,
)

SEED = 20261121
ROWS = 2_000
ROWS_SLOW = 100_000
TYPES: list[KeyType] = [
    *PLAIN_TYPES,
    *map(
        parse_type,
        (
            *(
                "decimal(5,2)",
                "decimal(18,18)",
                "decimal(19,0)",
                "decimal(38,0)",
                "decimal(38,10)",
                "decimal(38,38)",
            ),
            "struct<a:int,b:string>",
            "struct<a:struct<x:double,y:decimal(38,3)>,b:array<string>>",
            "array<bigint>",
            "array<binary>",
            "array<array<boolean>>",
            "array<struct<a:float,b:string,c:date>>",
        ),
    ),
]
ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
DESC_NULLS_FIRST = Order(descending=True, nulls="first")

# Keys of several columns: each in an order of its own, distributed by other columns than the first.
KEYS: list[list[tuple[str, Order]]] = [
    [("string", DESC_NULLS_FIRST), ("int", Order()), ("decimal(38,10)", Order(descending=True))],
    [("array<string>", Order(nulls="last")), ("double", DESC_NULLS_FIRST), ("binary", Order())],
    [
        ("struct<a:int,b:string>", Order(descending=True)),
        ("boolean", Order(nulls="last")),
        ("string", Order()),
    ],
    [
        ("decimal(9,2)", Order()),
        ("array<struct<a:float,b:string>>", DESC_NULLS_FIRST),
        ("timestamp", Order()),
    ],
]

Draw = Callable[[random.Random, KeyType], Any]

ARROW_TYPES: dict[KeyType, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    # PySpark takes no months from Arrow; `framed` casts them.
    YEAR_MONTH_INTERVAL: pa.int32(),
    DAY_TIME_INTERVAL: pa.duration("us"),
    STRING: pa.string(),
    BINARY: pa.binary(),
}


def arrow_type(type_: KeyType) -> pa.DataType:
    match type_:
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Struct(fields):
            return pa.struct([(field.name, arrow_type(field.type)) for field in fields])
        case Array(element):
            return pa.list_(arrow_type(element))
    return ARROW_TYPES[type_]


def arrow_value(type_: KeyType, value: Any) -> Any:
    """Arrow takes a struct as a dict."""
    match type_:
        case Struct(fields) if value is not None:
            return {of.name: arrow_value(of.type, inner) for of, inner in zip(fields, value, strict=True)}
        case Array(element) if value is not None:
            return [arrow_value(element, inner) for inner in value]
    return value


def arrow_column(type_: KeyType, values: Sequence[Any]) -> pa.Array:
    return pa.array([arrow_value(type_, value) for value in values], arrow_type(type_))


def framed(spark: SparkSession, table: pa.Table, types: dict[str, KeyType]) -> DataFrame:
    """The table in Spark, whose other columns are bigints."""
    names = {name: types.get(name, BIGINT).sql_name for name in table.column_names}
    months = {name: sql_name for name, sql_name in names.items() if types.get(name) == YEAR_MONTH_INTERVAL}
    taken = spark_types.StructType.fromDDL(
        ", ".join(f"{name} {'int' if name in months else sql_name}" for name, sql_name in names.items())
    )
    frame = spark.createDataFrame(table, taken)
    return frame.withColumns(
        {name: frame[name].cast("interval month").cast(sql_name) for name, sql_name in months.items()}
    )


def ordered(column: Column, order: Order) -> Column:
    if order.descending:
        return column.desc_nulls_first() if order.nulls == "first" else column.desc_nulls_last()
    return column.asc_nulls_first() if order.nulls == "first" else column.asc_nulls_last()


def assert_ranked_alike(
    what: str, values: Sequence[Any], encoded: Sequence[bytes], ranks: Sequence[int]
) -> None:
    rank_of = {data: rank for rank, data in enumerate(sorted(set(encoded)), 1)}
    ours = [rank_of[data] for data in encoded]
    if ours != ranks:
        at = min(ranks[row] for row, rank in enumerate(ours) if rank != ranks[row])
        near = [row for row, rank in enumerate(ranks) if abs(rank - at) <= 1]
        shown = sorted({(ranks[row], ours[row], repr(values[row]), encoded[row].hex()) for row in near})
        pytest.fail(
            f"{what}: around rank {at} (rank in Spark, ours, value, bytes)\n" + "\n".join(map(str, shown))
        )


def assert_types_sort_alike(
    spark: SparkSession, draw: Draw, types: Sequence[KeyType], row_count: int
) -> None:
    """One ORDER BY for all the types: each row has a value in its own type's column and NULL in the others."""
    print(f"seed {SEED}")
    source = random.Random(SEED)
    names = {f"c{kind}": type_ for kind, type_ in enumerate(types)}
    columns = [[draw(source, type_) for _ in range(row_count)] for type_ in types]
    tables = [
        pa.table(
            {"kind": [kind] * row_count, "row": range(row_count), name: arrow_column(type_, columns[kind])}
        )
        for kind, (name, type_) in enumerate(names.items())
    ]
    frame = framed(spark, pa.concat_tables(tables, promote_options="default"), names)
    ranks = [
        sf.dense_rank().over(
            Window.partitionBy("kind").orderBy(*(ordered(frame[name], order) for name in names))
        )
        for order in ORDERS
    ]
    answer = frame.select("kind", "row", *(rank.alias(f"r{at}") for at, rank in enumerate(ranks))).toArrow()
    answer = answer.sort_by([("kind", "ascending"), ("row", "ascending")])
    for at, order in enumerate(ORDERS):
        found = answer[f"r{at}"].to_pylist()
        for kind, type_ in enumerate(types):
            encoded = [encode_column(type_, value, order) for value in columns[kind]]
            of_kind = found[kind * row_count : (kind + 1) * row_count]
            assert_ranked_alike(f"{type_.sql_name} {order}", columns[kind], encoded, of_kind)


def test_bytes_of_every_type_and_order_sort_as_spark_sorts_the_values(
    spark: SparkSession, draw: Draw
) -> None:
    assert_types_sort_alike(spark, draw, TYPES, ROWS)


@pytest.mark.slow
@pytest.mark.parametrize("type_", TYPES, ids=lambda type_: type_.sql_name)
def test_many_bytes_of_every_type_and_order_sort_as_spark_sorts_the_values(
    spark: SparkSession, draw: Draw, type_: KeyType
) -> None:
    assert_types_sort_alike(spark, draw, [type_], ROWS_SLOW)


@pytest.mark.parametrize("row_count", [ROWS, pytest.param(ROWS_SLOW, marks=pytest.mark.slow)])
def test_keys_of_several_columns_sort_as_spark_sorts_the_rows(
    spark: SparkSession, draw: Draw, row_count: int
) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    schemas = [
        KeySchema(
            7,
            tuple(KeyColumn(f"k{key}c{at}", parse_type(name), order) for at, (name, order) in enumerate(of)),
            (),
        )
        for key, of in enumerate(KEYS)
    ]
    types = {column.name: column.type for schema in schemas for column in schema.columns}
    # Few values, so that later columns decide.
    columns = {}
    for name, type_ in types.items():
        pool = [draw(source, type_) for _ in range(9)]
        columns[name] = [source.choice(pool) for _ in range(row_count)]
    arrays = {name: arrow_column(type_, columns[name]) for name, type_ in types.items()}
    frame = framed(spark, pa.table({"row": range(row_count), **arrays}), types)
    ranks = [
        sf.dense_rank()
        .over(Window.orderBy(*(ordered(frame[column.name], column.order) for column in schema.columns)))
        .alias(f"r{at}")
        for at, schema in enumerate(schemas)
    ]
    answer = frame.select("row", *ranks).toArrow().sort_by("row")
    for at, schema in enumerate(schemas):
        names = [column.name for column in schema.columns]
        rows = list(zip(*(columns[name] for name in names), strict=True))
        keys = [schema.storage_key(dict(zip(names, row, strict=True))) for row in rows]
        assert_ranked_alike(f"key {at}", rows, keys, answer[f"r{at}"].to_pylist())
