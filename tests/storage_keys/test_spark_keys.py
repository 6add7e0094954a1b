"""Spark's key column gives the bytes of `KeySchema.storage_key`, for every type and order, and without Python."""

import math
import random
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal as Number
from itertools import cycle
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from storage_keys import arrow
from storage_keys import spark as native
from storage_keys.column import Order, encode_column
from storage_keys.errors import MalformedKey, SchemaMismatch
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.spark.column import length_of
from storage_keys.type_name import parse_type
from storage_keys.types import (
    BIGINT,
    BINARY,
    DOUBLE,
    FLOAT,
    INT,
    PLAIN_TYPES,
    STRING,
    YEAR_MONTH_INTERVAL,
    Array,
    Floating,
    KeyType,
    Struct,
)

SEED = 20261121
ROWS = 300
LENGTHS = [0, 1, 7, 8, 9, 15, 16, 17, 24, 25, 31, 32, 33, 40, 41, 100, 1000]
ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
# Taken in turns, one pair a type.
BOTH_WAYS = [(ORDERS[0], ORDERS[3]), (ORDERS[1], ORDERS[2])]
NESTED = [
    parse_type(name)
    for name in (
        "struct<a:int,b:string>",
        "struct<`a.b`:struct<x:double,y:interval year to month>,c:array<string>>",
        "array<bigint>",
        "array<array<binary>>",
        "array<struct<a:float,b:boolean>>",
    )
]
# With base 100 inside, these go by way of Arrow.
DECIMALS = [
    parse_type(name)
    for name in ("decimal(9,2)", "decimal(38,38)", "struct<a:decimal(38,0),b:date>", "array<decimal(5,1)>")
]
Draw = Callable[[random.Random, KeyType], Any]


def values_of(type_: KeyType, source: random.Random, draw: Draw) -> list[Any]:
    values = [None, *_corners(type_)]
    return values + [draw(source, type_) for _ in range(ROWS - len(values))]


def _corners(type_: KeyType) -> list[Any]:
    if type_ == STRING:
        return ["🔥" * 9, *(("a\0b" * 334)[:n] for n in LENGTHS)]
    if type_ == BINARY:
        return [fill * n for n in LENGTHS for fill in (b"\0", b"\xff", b"\x09")]
    return []


def around_powers_of_two(width: int) -> list[float]:
    """Each power of two with its neighbours, of both signs: where a logarithm's exponent would be off by one."""
    form, integer = (">f", ">I") if width == 4 else (">d", ">Q")
    smallest, largest = (-149, 127) if width == 4 else (-1074, 1023)
    numbers = []
    for exponent in range(smallest, largest + 1):
        (bits,) = struct.unpack(integer, struct.pack(form, math.ldexp(1.0, exponent)))
        numbers += [struct.unpack(form, struct.pack(integer, bits + step))[0] for step in (-1, 0, 1)]
    return numbers + [-number for number in numbers]


def arrow_value(type_: KeyType, value: Any) -> Any:
    """Arrow takes a struct as a dict."""
    match type_:
        case Struct(fields) if value is not None:
            return {of.name: arrow_value(of.type, inner) for of, inner in zip(fields, value, strict=True)}
        case Array(element) if value is not None:
            return [arrow_value(element, inner) for inner in value]
    return value


def with_months_as_integers(type_: KeyType) -> KeyType:
    """PySpark takes no months from Arrow; Spark casts them."""
    match type_:
        case Struct(fields):
            return Struct(
                tuple(type(field)(field.name, with_months_as_integers(field.type)) for field in fields)
            )
        case Array(element):
            return Array(with_months_as_integers(element))
    return INT if type_ == YEAR_MONTH_INTERVAL else type_


def framed(spark: SparkSession, types: dict[str, KeyType], columns: dict[str, list[Any]]) -> DataFrame:
    """The columns in Spark, and `row`, the number of each row."""
    taken = {name: with_months_as_integers(type_) for name, type_ in types.items()}
    arrays = {
        name: pa.array([arrow_value(type_, value) for value in columns[name]], arrow.arrow_type(type_))
        for name, type_ in taken.items()
    }
    rows = range(len(next(iter(columns.values()))))
    ddl = [f"`{name}` {type_.sql_name}" for name, type_ in taken.items()]
    schema = spark_types.StructType.fromDDL(", ".join([*ddl, "row bigint"]))
    frame = spark.createDataFrame(pa.table({**arrays, "row": pa.array(rows)}), schema)
    cast = {
        name: frame[f"`{name}`"].cast(type_.sql_name) for name, type_ in types.items() if type_ != taken[name]
    }
    return frame.withColumns(cast)


def assert_same_keys(frame: DataFrame, schemas: Sequence[KeySchema], columns: dict[str, list[Any]]) -> None:
    keys = [
        native.storage_key_column(schema, frame.schema).alias(str(at)) for at, schema in enumerate(schemas)
    ]
    answer = frame.select("row", *keys).toArrow().sort_by("row")
    for at, schema in enumerate(schemas):
        names = [column.name for column in schema.columns]
        count = range(len(next(iter(columns.values()))))
        rows = [tuple(columns[name][row] for name in names) for row in count]
        expected = [schema.storage_key(dict(zip(names, row, strict=True))) for row in rows]
        for row, key, ours in zip(rows, answer[str(at)].to_pylist(), expected, strict=True):
            assert key == ours, (schema, row, key and key.hex(), ours.hex())


def has_hash(type_: KeyType) -> bool:
    return not isinstance(type_, Struct | Array)


@pytest.mark.parametrize("types", [PLAIN_TYPES, NESTED, DECIMALS], ids=["plain", "nested", "decimals"])
def test_the_column_gives_the_keys_of_the_rows_for_every_type_and_order(
    spark: SparkSession, draw: Draw, types: Sequence[KeyType]
) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    names = {f"c.{at}": type_ for at, type_ in enumerate(types)}
    found = {name: values_of(type_, source, draw) for name, type_ in names.items()}
    rows = max(map(len, found.values()))
    columns = {name: values + [None] * (rows - len(values)) for name, values in found.items()}
    turns = (cycle(BOTH_WAYS), cycle(ORDERS))

    def orders(type_: KeyType) -> Sequence[Order]:
        return [next(turns[1])] if type_ in DECIMALS else next(turns[0])

    schemas = [
        KeySchema(
            0 if at else 2**32 - 1, (KeyColumn(name, type_, order),), (name,) if has_hash(type_) else ()
        )
        for name, type_ in names.items()
        for at, order in enumerate(orders(type_))
    ]
    frame = framed(spark, names, columns).cache()
    # A few at a time, since Spark plans one query of all of them slowly.
    for start in range(0, len(schemas), 8):
        assert_same_keys(frame, schemas[start : start + 8], columns)
    frame.unpersist()


def test_the_length_of_a_column_is_known_without_its_bytes(spark: SparkSession, draw: Draw) -> None:
    source = random.Random(SEED)
    types = [*PLAIN_TYPES, NESTED[0], parse_type("struct<a:struct<b:binary>,c:string>")]
    names = {f"c{at}": type_ for at, type_ in enumerate(types)}
    columns = {name: [None, *(draw(source, type_) for _ in range(ROWS))] for name, type_ in names.items()}
    frame = framed(spark, names, columns)
    lengths = [length_of(type_, frame[name]).alias(name) for name, type_ in names.items()]
    answer = frame.select("row", *lengths).toArrow().sort_by("row")
    for name, type_ in names.items():
        expected = [len(encode_column(type_, value)) for value in columns[name]]
        assert answer[name].to_pylist() == expected, type_


@pytest.mark.parametrize("type_", [FLOAT, DOUBLE], ids=lambda type_: type_.sql_name)
def test_the_bits_of_floating_point_numbers_are_exact(spark: SparkSession, type_: Floating) -> None:
    columns = {"f": [*around_powers_of_two(type_.width), 0.0, -0.0, math.inf, -math.inf, math.nan, None]}
    schemas = [KeySchema(7, (KeyColumn("f", type_, order),), ("f",)) for order in (ORDERS[0], ORDERS[3])]
    assert_same_keys(framed(spark, {"f": type_}, columns), schemas, columns)


def test_keys_of_several_columns_distributed_in_another_order(spark: SparkSession, draw: Draw) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    flat = [*PLAIN_TYPES, parse_type("decimal(38,10)")]
    names = {f"c{at}": type_ for at, type_ in enumerate([*flat, *NESTED])}
    columns = {name: [draw(source, type_) for _ in range(ROWS)] for name, type_ in names.items()}
    schemas = []
    for table_id in range(6):
        chosen = source.sample(sorted(names), 4)
        key = tuple(KeyColumn(name, names[name], source.choice(ORDERS)) for name in chosen)
        hashed = [name for name in chosen if has_hash(names[name])]
        schemas.append(KeySchema(table_id, key, tuple(source.sample(hashed, len(hashed)))))
    assert_same_keys(framed(spark, names, columns), schemas, columns)


def keyed(*columns: KeyColumn) -> KeySchema:
    return KeySchema(7, columns, (columns[0].name,))


def plan_of(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], types: Sequence[KeyType], *, apart: bool
) -> str:
    """The plan of one key of columns of the types, or of a key of each."""
    columns = tuple(KeyColumn(f"c{at}", type_) for at, type_ in enumerate(types))
    ddl = ", ".join(f"{of.name} {of.type.sql_name}" for of in columns)
    frame = spark.createDataFrame([], spark_types.StructType.fromDDL(ddl))
    keys = [(of,) for of in columns] if apart else [columns]
    frame.select(*(native.storage_key_column(KeySchema(7, key, ()), frame.schema) for key in keys)).explain()
    return capsys.readouterr().out


def test_only_decimals_bring_python_into_the_plan(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    plan = plan_of(spark, capsys, [*PLAIN_TYPES, *NESTED], apart=True)
    assert "Project" in plan
    assert "Python" not in plan
    for type_ in (*PLAIN_TYPES, *NESTED, *DECIMALS):
        assert native.is_native(KeySchema(7, (KeyColumn("c", type_),), ())) == (type_ not in DECIMALS)
    plan = plan_of(spark, capsys, DECIMALS, apart=True)
    assert "ArrowEvalPython" in plan
    # Each in its evaluation and in what is selected of it.
    assert plan.count("storage_keys_by_arrow(") >= len(DECIMALS)


def test_plain_types_are_compiled_whole(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    # A star marks what is compiled.
    assert "*(1) Project" in plan_of(spark, capsys, PLAIN_TYPES, apart=False)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        ("int", "bigint"),
        ("bigint", "int"),
        ("float", "double"),
        ("timestamp_ntz", "timestamp"),
        ("decimal(9,2)", "decimal(9,3)"),
        ("struct<a:int>", "struct<b:int>"),
        ("array<int>", "array<bigint>"),
    ],
)
def test_a_column_of_another_type_than_the_keys_is_refused_by_its_name(ours: str, theirs: str) -> None:
    schema = KeySchema(7, (KeyColumn("k", INT), KeyColumn("a.b", parse_type(ours))), ("k",))
    frame_schema = spark_types.StructType.fromDDL(f"`a.b` {theirs}, k int")
    with pytest.raises(SchemaMismatch, match=r"^column 'a\.b': .*cast the DataFrame's column") as refused:
        native.storage_key_column(schema, frame_schema)
    assert (refused.value.ours, refused.value.theirs) == (
        parse_type(ours).sql_name,
        parse_type(theirs).sql_name,
    )


def test_a_column_that_the_data_frame_does_not_have_is_refused_by_its_name() -> None:
    schema = keyed(KeyColumn("k", BIGINT), KeyColumn("s", STRING))
    with pytest.raises(MalformedKey, match=r"^column 's': .*its columns are k, t$"):
        native.storage_key_column(schema, spark_types.StructType.fromDDL("k bigint, t string"))


def test_the_keys_are_the_same_without_ansi(spark: SparkSession, draw: Draw) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    names = {f"c{at}": type_ for at, type_ in enumerate([*PLAIN_TYPES, *NESTED, *DECIMALS])}
    columns = {name: [draw(source, type_) for _ in range(ROWS)] for name, type_ in names.items()}
    flat = tuple(name for name, type_ in names.items() if has_hash(type_))
    expressed = [name for name, type_ in names.items() if type_ not in DECIMALS]
    plain, rest = expressed[: len(PLAIN_TYPES)], [name for name in names if name not in flat]
    schemas = [
        KeySchema(7, tuple(KeyColumn(name, names[name], order) for name in chosen), hashed)
        for chosen, hashed, order in (
            (plain, tuple(plain), ORDERS[0]),
            (plain, tuple(plain), ORDERS[3]),
            (rest[: len(NESTED)], (), ORDERS[0]),
            (rest[: len(NESTED)], (), ORDERS[3]),
            (list(names), flat, ORDERS[1]),
        )
    ]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        assert_same_keys(framed(spark, names, columns), schemas, columns)
    finally:
        spark.conf.set("spark.sql.ansi.enabled", before)


@pytest.mark.parametrize("table_id", [0, 1, 15, 16, 255, 256, 0xABCDE, 2**24, 2**31, 2**32 - 1])
def test_any_table_id_and_prefix_make_a_whole_head(spark: SparkSession, table_id: int) -> None:
    # Of 5,000 prefixes some have zeros in front.
    columns = {"k": [None, *range(5_000)]}
    schemas = [KeySchema(table_id, (KeyColumn("k", BIGINT, order),), ("k",)) for order in ORDERS]
    schemas.append(KeySchema(table_id, (), ()))
    assert_same_keys(framed(spark, {"k": BIGINT}, columns), schemas, columns)


@pytest.mark.parametrize("second", [BIGINT, parse_type("decimal(9,2)")], ids=["native", "arrow"])
def test_a_key_has_at_most_65535_bytes(spark: SparkSession, second: KeyType) -> None:
    # 6 bytes of head, 1 of the second column, NULL, and 2 of tag and mark; then 9 for each 8.
    schema = keyed(KeyColumn("s", STRING), KeyColumn("n", second))
    longest = (65_535 - 9) // 9 * 8
    frame = spark.range(1).select(
        sf.repeat(sf.lit("x"), sf.lit(longest)).alias("s"), sf.lit(None).cast(second.sql_name).alias("n")
    )
    key = native.storage_key_column(schema, frame.schema)
    (row,) = frame.select(key.alias("key")).collect()
    assert bytes(row.key) == schema.storage_key({"s": "x" * longest, "n": None})
    longer = frame.withColumn("s", sf.concat("s", sf.lit("x")))
    message = r"the length of a storage key in bytes must be in 0\.\.65535, not 655\d\d"
    with pytest.raises(PySparkException, match=message):
        longer.select(key.alias("key")).collect()


def test_a_string_that_is_not_utf8_goes_into_the_key_as_it_is(spark: SparkSession) -> None:
    schema, raw = keyed(KeyColumn("s", STRING)), keyed(KeyColumn("s", BINARY))
    data = [b"\xff", b"a\xc3", b"\xed\xa0\x80" * 9]
    frame = spark.createDataFrame([(value,) for value in data], "s binary")
    text = frame.select(sf.col("s").cast("string").alias("s"))
    key = native.storage_key_column(schema, text.schema)
    keys = [bytes(row.key) for row in text.select(key.alias("key")).collect()]
    assert keys == [raw.storage_key({"s": value}) for value in data]
    for key in keys:
        with pytest.raises(MalformedKey, match="the string is not UTF-8"):
            schema.decode(key)


def test_a_table_that_carries_its_key_is_routed_by_the_prefix_in_it(spark: SparkSession) -> None:
    schema = keyed(KeyColumn("id", BIGINT))
    rows = spark.range(2_000)
    frame = rows.withColumn("key", native.storage_key_column(schema, rows.schema))
    prefixes = frame.select(
        native.prefix_of_key(sf.col("key")).alias("read"),
        native.prefix_column([BIGINT], [sf.col("id")]).alias("hashed"),
    )
    assert {str(data_type) for _, data_type in prefixes.dtypes} == {"int"}
    assert prefixes.where("read <> hashed").count() == 0
    assert prefixes.agg(sf.max("read")).first()[0] > 60_000


@pytest.mark.parametrize(
    ("key", "shown"), [("X'0000000700'", "5"), ("X''", "0"), ("CAST(NULL AS BINARY)", "NULL")]
)
def test_what_is_too_short_for_a_key_is_refused(spark: SparkSession, key: str, shown: str) -> None:
    frame = spark.range(1).select(sf.expr(key).alias("key"))
    with pytest.raises(
        PySparkException, match=f"a storage key has at least 6 bytes, not {shown}; pass whole keys"
    ):
        frame.select(native.prefix_of_key(sf.col("key"))).collect()


def test_a_key_of_a_decimal_and_months_goes_by_way_of_arrow(spark: SparkSession) -> None:
    frame = spark.sql("SELECT 1.5bd AS d, INTERVAL '1-2' YEAR TO MONTH AS m")
    types = native.types_of(frame.schema, ["d", "m"])
    schema = KeySchema(7, (KeyColumn("d", types[0]), KeyColumn("m", types[1])), ("d",))
    (row,) = frame.select(native.storage_key_column(schema, frame.schema).alias("key")).collect()
    assert bytes(row["key"]) == schema.storage_key({"d": Number("1.5"), "m": 14})
