"""H exists three times. Whatever the value, the Python value, the Arrow column and Spark agree on it."""

import datetime
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
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
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Integer,
    KeyType,
)
from storage_keys.vnode import prefix_of, vnode_of

ROWS = 10_000
SEED = 20261121
VNODE_COUNT = 1000
ARROW_TYPES: dict[KeyType, pa.DataType] = {
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    STRING: pa.string(),
    BINARY: pa.binary(),
}
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


def generated(type_: KeyType, source: random.Random) -> list[Any]:
    """Corners of the type, then random values, a tenth of them NULL, shuffled."""
    corners, draw = _corners_and_draw(type_, source)
    values = [None, *corners]
    while len(values) < ROWS:
        values.append(None if source.random() < 0.1 else draw())
    source.shuffle(values)
    return values


def _corners_and_draw(type_: KeyType, source: random.Random) -> tuple[list[Any], Callable[[], Any]]:
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
    return [b"", b"\0", b"\xff" * 32], lambda: source.randbytes(source.randrange(130))


def arrow_column(type_: KeyType, values: list[Any]) -> pa.Array:
    if type_ == TIMESTAMP:
        return pa.array(values, pa.int64()).cast(ARROW_TYPES[type_])
    return pa.array(values, ARROW_TYPES[type_])


@pytest.fixture(scope="module")
def columns() -> dict[KeyType, list[Any]]:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    return {type_: generated(type_, source) for type_ in ARROW_TYPES}


# One column each, then rows of several, in more than one order.
KEYS: list[tuple[KeyType, ...]] = [
    *((type_,) for type_ in ARROW_TYPES),
    (STRING, BIGINT),
    (BIGINT, STRING),
    (BINARY, DATE, BOOLEAN, TIMESTAMP),
    tuple(ARROW_TYPES),
]


def test_python_and_arrow_and_spark_agree_on_every_value(
    spark: SparkSession, columns: dict[KeyType, list[Any]]
) -> None:
    table = pa.table({type_.sql_name: arrow_column(type_, values) for type_, values in columns.items()})
    frame = spark.createDataFrame(table.append_column("row", pa.array(range(ROWS))))
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


def test_spark_types_without_a_place_in_a_key_are_refused_by_column_name() -> None:
    refused = {
        "m": spark_types.MapType(spark_types.StringType(), spark_types.StringType()),
        "s": spark_types.StructType([spark_types.StructField("x", spark_types.LongType())]),
        "a": spark_types.ArrayType(spark_types.LongType()),
        "c": spark_types.StringType("UTF8_LCASE"),
        "v": spark_types.VariantType(),
        "i": spark_types.CalendarIntervalType(),
    }
    schema = spark_types.StructType([spark_types.StructField(name, type_) for name, type_ in refused.items()])
    for name in refused:
        with pytest.raises(UnsupportedType, match=f"^column '{name}': type "):
            native.types_of(schema, [name])
    with pytest.raises(MalformedKey, match=r"^column 'k': "):
        native.types_of(schema, ["k"])
