"""H exists three times. Whatever the value, the Python value, the Arrow column and Spark agree on it."""

import datetime
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from storage_keys import arrow
from storage_keys import spark as native
from storage_keys.errors import MalformedKey, UnsupportedType
from storage_keys.hash import hash_row
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    PLAIN_TYPES,
    STRING,
    TIMESTAMP,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    Field,
    Integer,
    KeyType,
    Struct,
)
from storage_keys.vnode import prefix_of, vnode_of

ROWS = 2_000
ROWS_SLOW = 10_000
SEED = 20261121
VNODE_COUNT = 1000
DECIMALS = [Decimal(9, 2), Decimal(18, 0), Decimal(18, 18), Decimal(19, 0), Decimal(38, 10), Decimal(38, 38)]
TYPES: list[KeyType] = [*PLAIN_TYPES, *DECIMALS]
Draw = Callable[[random.Random, KeyType], Any]
WORDS = [
    "",
    "\0",
    "a",
    "a\0",
    "aé",
    "ﭏ",
    "🔥",
    "日本語",
    "x" * 7,
    "x" * 8,
    "x" * 9,
    "y" * 31,
    "y" * 32,
    "y" * 33,
]


def generated(type_: KeyType, source: random.Random, draw: Draw, row_count: int) -> list[Any]:
    """Corners of the type, then random values, a tenth of them NULL, shuffled."""
    corners, draw_value = _corners_and_draw(type_, source, draw)
    values = [None, *corners]
    while len(values) < row_count:
        values.append(None if source.random() < 0.1 else draw_value())
    source.shuffle(values)
    return values


def _corners_and_draw(
    type_: KeyType, source: random.Random, draw: Draw
) -> tuple[list[Any], Callable[[], Any]]:
    if type_ == BOOLEAN:
        return [False, True], lambda: source.random() < 0.5
    if isinstance(type_, Integer) or type_ == TIMESTAMP:
        high = 2 ** (8 * (type_.width if isinstance(type_, Integer) else 8) - 1) - 1
        return [
            -high - 1,
            -high,
            -1,
            0,
            1,
            high,
        ], lambda: source.randint(-high - 1, high) >> source.randrange(8)
    if type_ == DATE:
        low, high = datetime.date.min.toordinal(), datetime.date.max.toordinal()
        corners = [
            datetime.date.min,
            datetime.date(1582, 10, 4),
            datetime.date(1969, 12, 31),
            datetime.date.max,
        ]
        return corners, lambda: datetime.date.fromordinal(source.randint(low, high))
    if type_ == STRING:
        return WORDS, lambda: "".join(source.choice(WORDS) for _ in range(source.randrange(9)))
    if type_ == BINARY:
        return [b"", b"\0", b"\xff" * 32], lambda: source.randbytes(source.randrange(130))
    return [], lambda: draw(source, type_)


def arrow_column(type_: KeyType, values: list[Any]) -> pa.Array:
    if type_ == TIMESTAMP:
        return pa.array(values, pa.int64()).cast(arrow.arrow_type(type_))
    return pa.array(values, arrow.arrow_type(type_))


def framed(spark: SparkSession, table: pa.Table) -> DataFrame:
    """The table in Spark, with the number of each row."""
    months = YEAR_MONTH_INTERVAL.sql_name
    # PySpark takes no months from Arrow.
    ddl = [f"`{name}` {'int' if name == months else name}" for name in table.column_names]
    schema = spark_types.StructType.fromDDL(", ".join([*ddl, "row bigint"]))
    frame = spark.createDataFrame(table.append_column("row", pa.array(range(len(table)))), schema)
    return frame.withColumn(months, frame[months].cast("interval month").cast(months))


# One column each, then rows of several, in more than one order.
KEYS: list[tuple[KeyType, ...]] = [
    *((type_,) for type_ in TYPES),
    (STRING, BIGINT),
    (BIGINT, STRING),
    (BINARY, DATE, BOOLEAN, TIMESTAMP),
    (YEAR_MONTH_INTERVAL, FLOAT, Decimal(38, 10)),
    tuple(TYPES),
]


@pytest.mark.parametrize("row_count", [ROWS, pytest.param(ROWS_SLOW, marks=pytest.mark.slow)])
def test_python_and_arrow_and_spark_agree_on_every_value(
    spark: SparkSession, draw: Draw, row_count: int
) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    columns = {type_: generated(type_, source, draw, row_count) for type_ in TYPES}
    table = pa.table({type_.sql_name: arrow_column(type_, values) for type_, values in columns.items()})
    frame = framed(spark, table)
    selected = [frame["row"]]
    for types in KEYS:
        names = [type_.sql_name for type_ in types]
        assert native.types_of(frame.schema, names) == types
        key = [frame[name] for name in names]
        selected.append(native.hash_column(types, key).alias("+".join(names)))
    # How the hash becomes a prefix and a vnode does not depend on the key, so the last one speaks for all.
    selected += [
        native.prefix_column(types, key).alias("prefix"),
        native.vnode_column(types, key, VNODE_COUNT).alias("vnode"),
    ]
    answers = frame.select(*selected).toArrow().sort_by("row")
    for types in KEYS:
        name = "+".join(type_.sql_name for type_ in types)
        arrays = [table[type_.sql_name] for type_ in types]
        rows = zip(*(columns[type_] for type_ in types), strict=True)
        hashes = [hash_row(types, row) for row in rows]
        assert arrow.hash_columns(types, arrays).tolist() == hashes, name
        assert answers[name].to_pylist() == hashes, name
        prefixes = [prefix_of(hash_) for hash_ in hashes]
        assert arrow.prefixes(types, arrays).tolist() == prefixes, name
        vnodes = [vnode_of(prefix, VNODE_COUNT) for prefix in prefixes]
        assert arrow.vnodes(types, arrays, VNODE_COUNT).tolist() == vnodes, name
    assert answers["prefix"].to_pylist() == prefixes
    assert answers["vnode"].to_pylist() == vnodes


def test_spark_gives_int_columns_without_nulls_at_every_vnode_count(spark: SparkSession) -> None:
    frame = spark.range(-500, 500).select(sf.when(sf.col("id") % 7 != 0, sf.col("id")).alias("k"))
    counts = [1, 2, 256, 1000, 4096, 65536]
    vnodes = [native.vnode_column([BIGINT], [frame["k"]], count).alias(str(count)) for count in counts]
    answer = frame.select("k", *vnodes, native.prefix_column([], []).alias("no columns")).toArrow()
    assert {str(field.type) for field in answer.schema} == {"int64", "int32"}
    for count in counts:
        expected = arrow.vnodes([BIGINT], [answer["k"]], count).tolist()
        assert answer[str(count)].to_pylist() == expected
    assert set(answer["no columns"].to_pylist()) == {prefix_of(hash_row([], []))}


def test_the_documented_hash_of_a_bigint(spark: SparkSession) -> None:
    assert spark.sql("SELECT xxhash64(5L)").collect()[0][0] == hash_row([BIGINT], [5]) == 6251837290343458373


def test_days_beyond_the_dates_of_python_agree_too(spark: SparkSession) -> None:
    days = pa.array([-(2**31), 2**31 - 1, -719163, 2932897], pa.int32())
    frame = spark.createDataFrame(pa.table({"d": days.cast(pa.date32())}))
    answer = frame.select(native.hash_column([DATE], [frame["d"]]).alias("h")).toArrow()["h"].to_pylist()
    assert answer == arrow.hash_columns([DATE], [days.cast(pa.date32())]).tolist()
    assert answer == [hash_row([INT], [day]) for day in days.to_pylist()]


def test_widening_a_column_keeps_its_hash_in_spark(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 7Y AS a, 7S AS b, 7 AS c, 7L AS d, 0.5F AS e, 0.5D AS f")
    types = native.types_of(frame.schema, frame.columns)
    hashes = frame.select(
        *(
            native.hash_column([type_], [frame[name]])
            for type_, name in zip(types, frame.columns, strict=True)
        )
    ).first()
    assert hashes is not None
    assert set(hashes[:4]) == {hash_row([BIGINT], [7])}
    assert set(hashes[4:]) == {hash_row([DOUBLE], [0.5])}


def field(name: str, type_: spark_types.DataType) -> spark_types.StructField:
    return spark_types.StructField(name, type_)


def test_key_types_of_spark_types(spark: SparkSession) -> None:
    names = [*(type_.sql_name for type_ in TYPES), "array<struct<`a b`:array<date>,b:double>>"]
    names += ["varchar(3)", "char(3)", "interval hour to minute", "interval year"]
    ddl = ", ".join(f"c{at} {name}" for at, name in enumerate(names))
    schema = spark_types.StructType.fromDDL(ddl)
    nested = Array(Struct((Field("a b", Array(DATE)), Field("b", DOUBLE))))
    expected = [*TYPES, nested, STRING, STRING, PLAIN_TYPES[11], YEAR_MONTH_INTERVAL]
    assert list(native.types_of(schema, schema.names)) == expected
    # In a DataFrame char and varchar are strings.
    spark.sql("CREATE TABLE texts (v varchar(3), c char(3)) USING parquet")
    try:
        assert native.types_of(spark.table("texts").schema, ["v", "c"]) == (STRING, STRING)
    finally:
        spark.sql("DROP TABLE texts")


REFUSED = {
    "map": spark_types.MapType(spark_types.StringType(), spark_types.StringType()),
    "collated": spark_types.StringType("UTF8_LCASE"),
    "variant": spark_types.VariantType(),
    "calendar": spark_types.CalendarIntervalType(),
    "null": spark_types.NullType(),
}


@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_spark_types_without_a_place_in_a_key_are_refused_by_the_name_of_the_column(
    refused: spark_types.DataType,
) -> None:
    struct = spark_types.StructType([field("inner", refused)])
    array = spark_types.ArrayType(spark_types.ArrayType(struct))
    schema = spark_types.StructType([field("flat", refused), field("struct", struct), field("array", array)])
    for name in schema.names:
        with pytest.raises(
            UnsupportedType, match=f"^column '{name}': type .* cannot be part of a storage key"
        ):
            native.types_of(schema, [name])


def test_columns_that_the_data_frame_does_not_have_once_are_refused() -> None:
    twice = spark_types.StructType([field("k", spark_types.LongType()), field("k", spark_types.LongType())])
    for schema in (twice, spark_types.StructType([])):
        with pytest.raises(MalformedKey, match=r"^column 'k': "):
            native.types_of(schema, ["k"])


def test_structs_and_arrays_have_no_hash(spark: SparkSession) -> None:
    for type_ in (Array(BIGINT), Struct((Field("x", BIGINT),))):
        with pytest.raises(UnsupportedType, match="a distribution column"):
            native.hash_column([type_], [sf.col("a")])
