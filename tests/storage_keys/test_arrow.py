"""Whole Arrow columns, against the codec of single rows: the same hashes, the same keys, and back."""

import ctypes
import math
import random
from collections.abc import Callable
from decimal import Decimal as Number
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from storage_keys import arrow
from storage_keys.arrow.keys import one_array
from storage_keys.column import Order
from storage_keys.errors import MalformedKey, StorageKeyError, Truncated, UnsupportedType, ValueOutOfRange
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
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
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    Field,
    KeyType,
    Struct,
)
from storage_keys.vnode import prefix_of, vnode_of

SEED = 20261121
SCHEMAS = 120
HOSTILE = 500
HOSTILE_SLOW = 2_000
ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
LENGTHS = [0, 1, 3, 4, 7, 8, 9, 12, 16, 17, 31, 32, 33, 63, 64, 95, 96, 255, 256, 257, 319, 320, 321, 2000]

Row = dict[str, Any]
Draw = Callable[[random.Random, KeyType], Any]


def some_type(source: random.Random, depth: int = 2) -> KeyType:
    kind = source.randrange(16 if depth else 12)
    if kind < 8:
        return source.choice(PLAIN_TYPES)
    if kind < 12:
        precision = source.choice([1, 2, 8, 9, 17, 18, 19, 20, 37, 38])
        return Decimal(precision, source.randint(0, precision))
    if kind < 14:
        fields = [Field(f"f{at}", some_type(source, depth - 1)) for at in range(source.randrange(4))]
        return Struct(tuple(fields))
    return Array(some_type(source, depth - 1))


def some_schema(source: random.Random) -> KeySchema:
    types = [some_type(source) for _ in range(source.randint(1, 4))]
    columns = [KeyColumn(f"c{at}", type_, source.choice(ORDERS)) for at, type_ in enumerate(types)]
    flat = [column.name for column in columns if not isinstance(column.type, Struct | Array)]
    distribution = source.sample(flat, source.randint(0, len(flat)))
    return KeySchema(source.randrange(1 << 32), tuple(columns), tuple(distribution))


def some_rows(schema: KeySchema, source: random.Random, draw: Draw, count: int) -> list[Row]:
    """Of each column, half of the schemas have no NULL, which takes other ways through the code."""
    rows = [{column.name: draw(source, column.type) for column in schema.columns} for _ in range(count)]
    for column in schema.columns:
        present = [row[column.name] for row in rows if row[column.name] is not None]
        if present and source.random() < 0.5:
            for row in rows:
                row[column.name] = source.choice(present) if row[column.name] is None else row[column.name]
    return rows


def some_form(type_: KeyType, column: pa.Array, source: random.Random) -> pa.Array:
    """The same values as another Arrow type or in other pieces."""
    if type_ == STRING:
        column = column.cast(source.choice([pa.string(), pa.large_string(), pa.string_view()]))
    elif type_ == BINARY:
        column = column.cast(source.choice([pa.binary(), pa.large_binary(), pa.binary_view()]))
    elif isinstance(type_, Array):
        column = column.cast(source.choice([column.type, pa.large_list(column.type.value_field)]))
    if type_ in (STRING, BIGINT, DATE) and source.random() < 0.3 and "view" not in str(column.type):
        column = column.dictionary_encode()
    cut = source.randint(0, len(column))
    whole = pa.chunked_array([column.slice(0, cut), column.slice(cut)], column.type)
    return source.choice([column, whole])


def table_of(schema: KeySchema, rows: list[Row], source: random.Random) -> pa.Table:
    columns = {}
    for column in schema.columns:
        values = pa.array([row[column.name] for row in rows], arrow.arrow_type(column.type))
        columns[column.name] = some_form(column.type, values, source)
    return pa.table(columns)


def test_a_batch_gives_the_keys_of_its_rows_and_the_keys_give_the_batch(draw: Draw) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    for at in range(SCHEMAS):
        schema = some_schema(source)
        rows = some_rows(schema, source, draw, source.choice([0, 1, 7, 80]))
        keys = [schema.storage_key(row) for row in rows]
        table = table_of(schema, rows, source)
        found = arrow.storage_keys(schema, table)
        assert found.to_pylist() == keys, (at, schema)
        skipped = source.randint(0, len(rows))
        assert arrow.storage_keys(schema, table.slice(skipped)).to_pylist() == keys[skipped:], (at, schema)
        assert arrow.prefixes_of_keys(found).tolist() == [int.from_bytes(key[4:6], "big") for key in keys]

        decoded = arrow.decode_keys(schema, found)
        decoded.validate(full=True)
        assert [str(field.type) for field in decoded.schema] == [
            str(arrow.arrow_type(column.type)) for column in schema.columns
        ]
        # By their keys, for NaN is not equal to NaN.
        assert arrow.storage_keys(schema, decoded).to_pylist() == keys, (at, schema)
        for column in schema.columns:
            if column.type in (STRING, BINARY, BOOLEAN, DATE, BIGINT) or isinstance(column.type, Decimal):
                expected = [row[column.name] for row in rows]
                assert decoded[column.name].to_pylist() == expected, (at, column)


def test_columns_hash_as_rows_do(draw: Draw) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    for _ in range(SCHEMAS):
        types = [some_type(source, 0) for _ in range(source.randint(1, 3))]
        columns = [[draw(source, type_) for _ in range(40)] for type_ in types]
        arrays = [
            some_form(type_, pa.array(column, arrow.arrow_type(type_)), source)
            for type_, column in zip(types, columns, strict=True)
        ]
        hashes = [hash_row(types, row) for row in zip(*columns, strict=True)]
        assert arrow.hash_columns(types, arrays).tolist() == hashes, types
        assert arrow.prefixes(types, arrays).tolist() == [prefix_of(hash_) for hash_ in hashes]
        for count in (1, 2, 1000, 1024, 65536):
            expected = [vnode_of(prefix_of(hash_), count) for hash_ in hashes]
            assert arrow.vnodes(types, arrays, count).tolist() == expected


@pytest.mark.parametrize("rows", [1, 32_767, 32_768, 32_769, 100_000])
def test_blocks_meet_without_a_gap(rows: int) -> None:
    source = np.random.default_rng(SEED)
    numbers = source.integers(-(2**63), 2**63 - 1, rows)
    texts = [str(number)[: number % 20] for number in numbers.tolist()]
    table = pa.table({"n": numbers, "s": texts})
    schema = KeySchema(
        7, (KeyColumn("n", BIGINT), KeyColumn("s", STRING, Order(descending=True))), ("s", "n")
    )
    keys = arrow.storage_keys(schema, table)
    for row in {0, rows - 1, *range(min(rows, 32_760), min(rows, 32_775))}:
        assert keys[row].as_py() == schema.storage_key({"n": int(numbers[row]), "s": texts[row]})
    assert arrow.decode_keys(schema, keys).equals(table)
    assert arrow.vnodes([BIGINT], [table["n"]], 100)[-1] == vnode_of(
        prefix_of(hash_row([BIGINT], [int(numbers[-1])])), 100
    )


def test_strings_of_every_length_class() -> None:
    source = random.Random(SEED)
    texts = [source.randbytes(length) for length in LENGTHS for _ in range(3)] + [bytes(40), b"\xff" * 8]
    source.shuffle(texts)
    for order in ORDERS:
        schema = KeySchema(1, (KeyColumn("b", BINARY, order), KeyColumn("c", BINARY)), ("c",))
        rows = [{"b": text, "c": text[::-1]} for text in texts]
        keys = arrow.storage_keys(schema, pa.Table.from_pylist(rows))
        assert keys.to_pylist() == [schema.storage_key(row) for row in rows]
        assert arrow.decode_keys(schema, keys).to_pylist() == rows


def test_all_nans_and_both_zeros_are_one() -> None:
    for type_, bits, dtype in (
        (DOUBLE, [0x7FF8000000000001, 0xFFF8000000000000, 0x7FF0000000000001, 1 << 63], "f8"),
        (FLOAT, [0x7FC00001, 0xFFC00000, 0x7F800001, 1 << 31], "f4"),
    ):
        column = pa.array(np.array(bits, f"u{dtype[1]}").view(dtype))
        plain = [math.nan, math.nan, math.nan, 0.0]
        assert arrow.hash_columns([type_], [column]).tolist() == [hash_row([type_], [of]) for of in plain]
        schema = KeySchema(1, (KeyColumn("x", type_, Order(descending=True)),), ("x",))
        found = arrow.storage_keys(schema, pa.table({"x": column})).to_pylist()
        assert found == [schema.storage_key({"x": of}) for of in plain]


def test_a_decimal_of_another_scale_is_taken_where_nothing_is_lost() -> None:
    type_ = Decimal(10, 2)
    schema = KeySchema(1, (KeyColumn("d", type_),), ("d",))
    values = [Number("1.10"), None, Number("-99.90")]
    keys = [schema.storage_key({"d": value}) for value in values]
    for form in (
        pa.decimal32(5, 3),
        pa.decimal64(12, 2),
        pa.decimal128(38, 20),
        pa.decimal256(60, 30),
        pa.decimal128(4, 2),
        pa.decimal128(3, 1),
    ):
        assert arrow.storage_keys(schema, pa.table({"d": pa.array(values, form)})).to_pylist() == keys, form
    for lost in (pa.array([Number("1.105")]), pa.array([Number(10**8)]), pa.array([1]), pa.array([1.0])):
        with pytest.raises(MalformedKey, match=r"^column 'd': "):
            arrow.storage_keys(schema, pa.table({"d": lost}))


def test_units_of_time_are_microseconds() -> None:
    numbers = [-1, None, 7]
    for unit, factor in (("s", 1_000_000), ("ms", 1_000), ("us", 1)):
        expected = [None if number is None else number * factor for number in numbers]
        for type_, form in (
            (TIMESTAMP, pa.timestamp(unit, "Europe/Paris")),
            (TIMESTAMP_NTZ, pa.timestamp(unit)),
            (DAY_TIME_INTERVAL, pa.duration(unit)),
        ):
            column = pa.array(numbers, pa.int64()).cast(form)
            hashes = [hash_row([type_], [value]) for value in expected]
            assert arrow.hash_columns([type_], [column]).tolist() == hashes
    nanoseconds = pa.array([1_000, None], pa.timestamp("ns"))
    assert arrow.hash_columns([TIMESTAMP_NTZ], [nanoseconds])[0] == hash_row([TIMESTAMP_NTZ], [1])


@pytest.mark.parametrize(
    ("type_", "column"),
    [
        (INT, pa.array([1], pa.int64())),
        (FLOAT, pa.array([1.0])),
        (TIMESTAMP, pa.array([1], pa.timestamp("us"))),
        (TIMESTAMP_NTZ, pa.array([1], pa.timestamp("us", "UTC"))),
        (TIMESTAMP_NTZ, pa.array([1], pa.timestamp("ns"))),
        (TIMESTAMP_NTZ, pa.array([2**62], pa.timestamp("s"))),
        (DAY_TIME_INTERVAL, pa.array([1001], pa.duration("ns"))),
        (YEAR_MONTH_INTERVAL, pa.array([1], pa.int64())),
        (STRING, pa.array([b"a"])),
        (BOOLEAN, pa.array([1])),
        (Struct((Field("a", INT),)), pa.array([{"b": 1}])),
        (Struct((Field("a", INT),)), pa.array([{"a": 1.0}])),
        (Array(STRING), pa.array([[1]])),
        (Array(STRING), pa.array(["a"])),
    ],
)
def test_another_types_column_is_refused_by_name(type_: KeyType, column: pa.Array) -> None:
    schema = KeySchema(1, (KeyColumn("k", type_),), ())
    for rows in (pa.table({"k": column}), pa.record_batch({"k": column})):
        with pytest.raises(MalformedKey, match=r"^column 'k': (an|the) Arrow column"):
            arrow.storage_keys(schema, rows)
    # Without rows too.
    if "ns" not in str(column.type) and column.type != pa.timestamp("s"):
        with pytest.raises(MalformedKey):
            arrow.storage_keys(schema, pa.table({"k": column.slice(1)}))


@pytest.mark.parametrize(
    ("type_", "column", "advice"),
    [
        (INT, pa.array([1], pa.int64()), "cast it to int32 first"),
        (Array(STRING), pa.array([1]), "cast it to list<element: string> first"),
        (TIMESTAMP, pa.array([1]), "cast it to timestamp[us, tz=UTC] first"),
        (TIMESTAMP, pa.array([1], pa.timestamp("us")), "pyarrow.compute.assume_timezone(column, zone)"),
        (TIMESTAMP_NTZ, pa.array([1], pa.timestamp("us", "UTC")), "pyarrow.compute.local_timestamp(column)"),
        (
            TIMESTAMP_NTZ,
            pa.array([1], pa.timestamp("ns")),
            "; round it first, or key on a type that holds it",
        ),
        (Decimal(3, 1), pa.array([Number("1.25")]), "; round it first, or key on a type that holds it"),
    ],
)
def test_a_refused_column_is_told_what_to_do(type_: KeyType, column: pa.Array, advice: str) -> None:
    with pytest.raises(MalformedKey) as refused:
        arrow.storage_keys(KeySchema(1, (KeyColumn("k", type_),), ()), pa.table({"k": column}))
    assert str(refused.value).endswith(advice)


def test_the_advice_on_zones_is_right() -> None:
    naive = pa.array([0], pa.timestamp("us"))
    zoned = pc.assume_timezone(naive, "Europe/Paris")
    assert arrow.hash_columns([TIMESTAMP], [zoned])[0] == hash_row([TIMESTAMP], [-3_600_000_000])
    assert arrow.hash_columns([TIMESTAMP_NTZ], [pc.local_timestamp(zoned)])[0] == hash_row(
        [TIMESTAMP_NTZ], [0]
    )


def test_each_type_has_its_column() -> None:
    for types, columns in (([INT, INT], [pa.array([1])]), ([INT], []), ([INT], [pa.array([1])] * 2)):
        for take in (arrow.hash_columns, arrow.prefixes, lambda *given: arrow.vnodes(*given, 256)):
            with pytest.raises(MalformedKey, match="pass one array for each type"):
                take(types, columns)


def test_structs_and_arrays_have_no_hash() -> None:
    with pytest.raises(UnsupportedType):
        arrow.hash_columns([Array(INT)], [pa.array([None], pa.list_(pa.int32()))])


def test_a_key_above_65535_bytes_is_refused() -> None:
    schema = KeySchema(1, (KeyColumn("s", STRING),), ("s",))
    longest = (65_535 - 8) // 9 * 8
    keys = arrow.storage_keys(schema, pa.table({"s": ["x" * longest, "a"]}))
    assert arrow.decode_keys(schema, keys)["s"][0].as_py() == "x" * longest
    too_long = pa.table({"s": [*["a"] * 40_000, "x" * (longest + 1), "a"]})
    with pytest.raises(
        ValueOutOfRange, match=r"^row 40000: the length of .*; shorten the column, or key on its"
    ):
        arrow.storage_keys(schema, too_long)


@pytest.mark.slow
def test_keys_of_more_than_2_gib_are_large_binary() -> None:
    bounds, zeros = np.array([0, 1 << 30], np.int32), np.zeros(1 << 30, np.uint8)
    block = pa.Array.from_buffers(pa.binary(), 1, [None, pa.py_buffer(bounds), pa.py_buffer(zeros)])
    keys = one_array([block, block])
    assert keys.type == pa.large_binary()
    assert (len(keys), keys.nbytes >> 30) == (2, 2)


def mutated(key: bytes, source: random.Random) -> bytes:
    """Some bytes after the prefix set, cut, put in or added."""
    data = bytearray(key)
    for _ in range(source.randint(1, 3)):
        at = source.randint(min(6, len(data)), len(data)) if source.random() < 0.98 else 0
        byte = source.choice(
            [0, 1, 2, 8, 9, 10, 0x14, 0x15, 0x16, 0x17, 0x22, 0xFE, 0xFF, source.randrange(256)]
        )
        match source.randrange(4):
            case 0:
                data[at : at + 1] = bytes((byte,))
            case 1:
                del data[at : at + source.randrange(1, 12)]
            case 2:
                data[at:at] = bytes((byte,)) * source.choice([1, 9])
            case 3:
                del data[at:]
    return bytes(data)


@pytest.mark.parametrize("count", [HOSTILE, pytest.param(HOSTILE_SLOW, marks=pytest.mark.slow)])
def test_hostile_keys_are_refused_as_rows_are(draw: Draw, count: int) -> None:
    print(f"seed {SEED}")
    source = random.Random(SEED)
    accepted = 0
    for at in range(count):
        schema = some_schema(source)
        # What a prefix of the wrong hash would hide.
        schema = KeySchema(schema.table_id, schema.columns, () if at % 8 else schema.distribution)
        rows = some_rows(schema, source, draw, 3)
        keys = [schema.storage_key(row) for row in rows]
        keys.insert(source.randrange(4), hostile := mutated(source.choice(keys), source))
        expected = refusal(schema.decode, hostile)
        found = refusal(arrow.decode_keys, schema, pa.array(keys, pa.binary()))
        if expected is not None and "a date, in days" in expected[1]:
            # Arrow holds such days.
            expected = None if found is None else expected
        assert found == expected, (schema, hostile.hex())
        if found is None:
            accepted += 1
            decoded = arrow.decode_keys(schema, pa.array(keys, pa.binary()))
            assert arrow.storage_keys(schema, decoded).to_pylist() == keys
    assert 20 < accepted < count / 2


def refusal(decode: Callable[..., object], *arguments: object) -> tuple[type[StorageKeyError], str] | None:
    try:
        decode(*arguments)
    except StorageKeyError as error:
        return type(error), str(error.in_row(0))
    return None


def test_the_refused_row_is_named() -> None:
    schema = KeySchema(1, (KeyColumn("n", BIGINT),), ("n",))
    good = schema.storage_key({"n": 1})
    keys = pa.array([good] * 40_000 + [good[:-1], good])
    with pytest.raises(Truncated, match=r"^row 40000: column 'n': "):
        arrow.decode_keys(schema, keys)
    with pytest.raises(Truncated, match=r"^row 1: the head of a key needs at least 6 bytes"):
        arrow.prefixes_of_keys(pa.array([good, b""]))
    for read in (arrow.prefixes_of_keys, lambda keys: arrow.decode_keys(schema, keys)):
        with pytest.raises(MalformedKey, match=r"^row 1: the key is NULL"):
            read(pa.array([good, None]))
        with pytest.raises(MalformedKey, match="an Arrow column of string is no binary"):
            read(pa.array(["x"]))


def test_days_that_python_does_not_have_come_back() -> None:
    schema = KeySchema(1, (KeyColumn("d", DATE),), ("d",))
    days = pa.table({"d": pa.array([-(2**31), 2**31 - 1, -719163, 2932897], pa.int32()).cast(pa.date32())})
    assert arrow.decode_keys(schema, arrow.storage_keys(schema, days)).equals(days)


def test_a_long_string_of_a_broken_end_is_refused_as_a_short_one_is() -> None:
    schema = KeySchema(1, (KeyColumn("s", BINARY), KeyColumn("t", BINARY)), ())
    key = schema.storage_key({"s": b"x" * 1_001, "t": b"y" * 999})
    for at in (3, 8, 9, 1_000, 1_130, 1_135, 1_136, 1_137, len(key) - 1, len(key) - 2):
        for byte in (0, 1, 9, 10, 255):
            hostile = key[:at] + bytes((byte,)) + key[at + 1 :]
            found = refusal(arrow.decode_keys, schema, pa.array([key, hostile]))
            assert found == refusal(schema.decode, hostile), (at, byte)


def test_long_arrays_come_back_beside_short_ones() -> None:
    inner = Struct((Field("d", DATE), Field("x", Array(STRING)), Field("n", Decimal(20, 3))))
    schema = KeySchema(1, (KeyColumn("a", Array(inner), Order(descending=True)),), ())
    element = {"d": 2**31 - 1, "x": ["é", None], "n": Number("1.500")}
    lists = [[element] * 200, None, [element, None], [], [None] * 50_000, [element]]
    table = pa.table({"a": pa.array(lists, arrow.arrow_type(Array(inner)))})
    keys = arrow.storage_keys(schema, table)
    assert arrow.decode_keys(schema, keys).equals(table)
    texts = KeySchema(1, (KeyColumn("a", Array(STRING)),), ())
    key = texts.storage_key({"a": ["é", None] * 400})
    refused = 0
    for at in range(8, len(key), 97):
        hostile = key[:at] + bytes((key[at] ^ 0x7F,)) + key[at + 1 :]
        found = refusal(arrow.decode_keys, texts, pa.array([hostile]))
        assert found == refusal(texts.decode, hostile)
        refused += found is not None
    assert refused > 30


class ArrowSchema(ctypes.Structure):
    """Of Arrow's C data interface, which alone can name the type that Spark sends."""

    _fields_ = (
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_char_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    )


def month_interval() -> pa.DataType:
    @ctypes.CFUNCTYPE(None, ctypes.c_void_p)
    def release(address: int) -> None:
        ArrowSchema.from_address(address).release = ctypes.CFUNCTYPE(None, ctypes.c_void_p)()

    found = ArrowSchema(format=b"tiM", name=b"", flags=2, release=release)
    return pa.DataType._import_from_c(ctypes.addressof(found))


def test_month_intervals_as_spark_sends_them() -> None:
    months = pa.array([1, None, -3, 2**31 - 1], pa.int32())
    nested = Struct((Field("m", YEAR_MONTH_INTERVAL),))
    schema = KeySchema(1, (KeyColumn("m", YEAR_MONTH_INTERVAL), KeyColumn("s", nested)), ("m",))
    plain = pa.record_batch({"m": months, "s": pa.StructArray.from_arrays([months], ["m"])})
    keys = [schema.storage_key(row | {"s": tuple(row["s"].values())}) for row in plain.to_pylist()]
    interval = month_interval()
    sent = pa.schema([("m", interval), ("s", pa.struct([("m", interval)]))])
    batch = pa.ipc.read_record_batch(plain.serialize(), sent)
    for rows in (plain, batch, pa.Table.from_batches([batch, batch])):
        assert arrow.storage_keys(schema, rows).slice(0, 4).to_pylist() == keys
    assert arrow.storage_keys(schema, batch.slice(2)).to_pylist() == keys[2:]
    hashes = [hash_row([YEAR_MONTH_INTERVAL], [value]) for value in months.to_pylist()]
    column = pa.Table.from_batches([batch])["m"]
    assert arrow.hash_columns([YEAR_MONTH_INTERVAL], [column]).tolist() == hashes


def test_a_decimal_that_wraps_in_128_bits_is_refused() -> None:
    schema = KeySchema(1, (KeyColumn("d", Decimal(38, 1)),), ("d",))
    # Ten times this is 49999999999999999999999999999999999994 and 2**128.
    wrapping = pa.array([None, Number("39028236692093846346337460743176821145")], pa.decimal128(38, 0))
    with pytest.raises(MalformedKey, match=r"^column 'd': "):
        arrow.storage_keys(schema, pa.table({"d": wrapping}))


def test_a_decimal_beyond_its_own_arrow_type_is_refused() -> None:
    schema = KeySchema(1, (KeyColumn("d", Decimal(5, 2)),), ("d",))
    wide = pa.array([Number("1234.56")], pa.decimal128(6, 2)).cast(pa.decimal128(5, 2), safe=False)
    with pytest.raises(MalformedKey, match=r"^column 'd': "):
        arrow.storage_keys(schema, pa.table({"d": wide}))
