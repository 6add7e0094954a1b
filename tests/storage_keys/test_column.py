"""Column bytes against the memcomparable table, and their order against a plain sort of the values."""

import datetime
import decimal
import itertools
import math
import random
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from storage_keys.column import Order, decode_column, decode_whole, encode_column
from storage_keys.errors import (
    MalformedKey,
    StorageKeyError,
    TrailingBytes,
    Truncated,
    UnknownTag,
    ValueOutOfRange,
)
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
    Field,
    Floating,
    KeyType,
    Struct,
)
from storage_keys.value import canonical, signed_width

PAIR = Struct((Field("a", INT), Field("b", INT)))
ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
LENGTHS = [0, 1, 7, 8, 9, 15, 16, 17, 24, 25]
EDGES = [b"\0" * n for n in LENGTHS] + [b"\xff" * n for n in LENGTHS] + [b"a" * n + b"\0" for n in LENGTHS]

TYPES: st.SearchStrategy[KeyType] = st.recursive(
    st.sampled_from(PLAIN_TYPES)
    | st.sampled_from([Decimal(1, 1), Decimal(9, 2), Decimal(38, 0), Decimal(38, 37)]),
    lambda inner: (
        st.builds(Array, inner)
        | st.lists(st.builds(Field, st.just("f"), inner), max_size=3).map(
            lambda fields: Struct(tuple(fields))
        )
    ),
    max_leaves=4,
)


def values_of(type_: KeyType) -> st.SearchStrategy[Any]:
    match type_:
        case Struct(fields):
            return st.tuples(*(st.none() | values_of(field.type) for field in fields))
        case Array(element):
            return st.lists(st.none() | values_of(element), max_size=4).map(tuple)
        case Floating(width):
            return st.floats(width=8 * width) | st.sampled_from([0.0, -0.0, math.nan, -math.nan, math.inf])
        case Decimal(precision, scale):
            high = 10**precision - 1
            shifts = st.integers(0, precision - 1)
            unscaled = st.integers(-high, high) | st.builds(
                lambda n, by: n // 10**by * 10**by, st.integers(0, high), shifts
            )
            return unscaled.map(lambda n: decimal.Decimal((int(n < 0), tuple(map(int, str(abs(n)))), -scale)))
    simple: dict[KeyType, st.SearchStrategy[Any]] = {
        BOOLEAN: st.booleans(),
        DATE: st.dates(),
        STRING: st.text(st.characters(codec="utf-8")) | st.sampled_from([e.decode("latin-1") for e in EDGES]),
        BINARY: st.binary(max_size=40) | st.sampled_from(EDGES),
    }
    if type_ in simple:
        return simple[type_]
    high = 2 ** (8 * signed_width(type_) - 1) - 1
    return st.integers(-high - 1, high) | st.sampled_from([-high - 1, -1, 0, 1, high])


def columns() -> st.SearchStrategy[tuple[KeyType, Any]]:
    return TYPES.flatmap(lambda type_: st.tuples(st.just(type_), st.none() | values_of(type_)))


def same(value: Any) -> Any:
    """What is equal to SQL is equal to Python: one NaN."""
    if isinstance(value, tuple):
        return tuple(map(same, value))
    return "NaN" if isinstance(value, float) and math.isnan(value) else value


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        (BOOLEAN, False, "01 00"),
        (BOOLEAN, True, "01 01"),
        (TINYINT, -1, "01 7f"),
        (SMALLINT, -(2**15), "01 0000"),
        (INT, 5, "01 80000005"),
        (BIGINT, 2**63 - 1, "01 ffffffffffffffff"),
        (DATE, datetime.date(1969, 12, 31), "01 7fffffff"),
        (TIMESTAMP, -1, "01 7fffffffffffffff"),
        (STRING, "", "01 00"),
        (STRING, "a", "01 01 6100000000000000 01"),
        (STRING, "12345678", "01 01 3132333435363738 08"),
        (STRING, "123456789", "01 01 3132333435363738 09 3900000000000000 01"),
        (BINARY, b"\0", "01 01 0000000000000000 01"),
        (BINARY, b"\xff" * 16, "01 01 ffffffffffffffff 09 ffffffffffffffff 08"),
        (INT, None, "00"),
        (TIMESTAMP_NTZ, -1, "01 7fffffffffffffff"),
        (YEAR_MONTH_INTERVAL, 14, "01 8000000e"),
        (DAY_TIME_INTERVAL, 0, "01 8000000000000000"),
        (FLOAT, 1.5, "01 bfc00000"),
        (FLOAT, 0.1, "01 bdcccccd"),
        (DOUBLE, -1.5, "01 4007ffffffffffff"),
        (DOUBLE, -0.0, "01 8000000000000000"),
        (DOUBLE, -math.nan, "01 fff8000000000000"),
        (FLOAT, math.nan, "01 ffc00000"),
        (DOUBLE, math.inf, "01 fff0000000000000"),
        (FLOAT, -math.inf, "01 007fffff"),
        (Struct((Field("a", INT), Field("b", STRING))), (None, ""), "01 00 0100"),
        (Struct(()), (), "01"),
        (Array(TINYINT), (), "01 00"),
        (Array(TINYINT), (None,), "01 01 0000000000000000 01"),
        (Array(TINYINT), (0, None, 1), "01 01 0180000181000000 05"),
        (Array(Array(STRING)), ((),), "01 01 0100000000000000 02"),
    ],
)
def test_golden_bytes(type_: KeyType, value: object, expected: str) -> None:
    ascending = bytes.fromhex(expected)
    assert encode_column(type_, value) == ascending
    assert encode_column(type_, value, Order(descending=True)) == bytes(255 - byte for byte in ascending)


@pytest.mark.parametrize(
    ("order", "value_tag", "null"),
    [
        (Order(), 0x01, "00"),
        (Order(nulls="last"), 0x00, "01"),
        (Order(descending=True), 0xFE, "ff"),
        (Order(descending=True, nulls="first"), 0xFF, "fe"),
    ],
)
def test_tags_of_the_four_orders(order: Order, value_tag: int, null: str) -> None:
    assert encode_column(STRING, "", order)[0] == value_tag
    assert encode_column(STRING, None, order).hex() == null


def test_an_order_left_out_is_sparks_default_and_equal_to_it() -> None:
    assert Order() == Order(nulls="first")
    assert Order(descending=True) == Order(descending=True, nulls="last")


def test_descending_values_that_encode_to_all_ff() -> None:
    nulls_first = Order(descending=True, nulls="first")
    assert encode_column(INT, -(2**31), nulls_first) == b"\xff" * 5
    assert encode_column(STRING, "", nulls_first) == b"\xff" * 2
    assert encode_column(BOOLEAN, value=False, order=nulls_first) == b"\xff" * 2
    assert encode_column(STRING, None, Order(descending=True)) == b"\xff"


@given(columns(), st.sampled_from(ORDERS), st.binary(max_size=12))
def test_a_column_comes_back_whatever_follows_it(
    column: tuple[KeyType, Any], order: Order, rest: bytes
) -> None:
    type_, value = column
    data = encode_column(type_, value, order)
    decoded, used = decode_column(type_, data + rest, order)
    assert (same(decoded), type(decoded), used) == (same(value), type(value), len(data))
    assert same(decode_whole(type_, data, order)) == same(value)


Column = tuple[KeyType, Order]


def compared(columns: list[Column], left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
    """The oracle: SQL's ORDER BY, spelled out on the values."""
    for (_, order), a, b in zip(columns, left, right, strict=True):
        if a is None or b is None:
            if (a is None) != (b is None):
                null_side = -1 if a is None else 1
                return null_side if order.nulls == "first" else -null_side
        elif above := compared_values(a, b):
            return -above if order.descending else above
    return 0


def compared_values(a: Any, b: Any) -> int:
    """-1, 0 or 1 for two values of one type that are not NULL."""
    if isinstance(a, tuple):
        for inner, other in zip(a, b, strict=False):
            # Inside of a value NULL is the smallest, whatever the column says.
            if inner is None or other is None:
                above = (inner is not None) - (other is not None)
            else:
                above = compared_values(inner, other)
            if above:
                return above
        return (len(a) > len(b)) - (len(a) < len(b))
    if isinstance(a, float) and (math.isnan(a) or math.isnan(b)):
        return math.isnan(a) - math.isnan(b)
    # Python compares strings by code point, which is the order of their UTF-8.
    return (a > b) - (a < b)


@given(st.data())
def test_byte_order_of_rows_is_the_order_of_their_values(data: st.DataObject) -> None:
    types = data.draw(st.lists(TYPES, min_size=1, max_size=3))
    columns: list[Column] = [(type_, data.draw(st.sampled_from(ORDERS))) for type_ in types]
    row = st.tuples(*(st.none() | values_of(type_) for type_ in types))
    rows = data.draw(st.lists(row, min_size=2, max_size=12))
    assert_ordered_as_values(columns, rows)


@pytest.mark.parametrize("order", ORDERS)
def test_strings_around_the_group_size_sort_right_before_another_column(order: Order) -> None:
    source = random.Random(8)
    texts = [
        None,
        "",
        "\0",
        "a",
        "a\0",
        "ﭏ",
        "🔥",
        *("b" * n + end for n in LENGTHS for end in ("", "\0", "a")),
    ]
    rows = [(text, number) for text in texts for number in (-1, 1)]
    source.shuffle(rows)
    assert_ordered_as_values([(STRING, order), (INT, Order())], rows)


def assert_ordered_as_values(columns: list[Column], rows: list[tuple[Any, ...]]) -> None:
    def key(row: tuple[Any, ...]) -> bytes:
        return b"".join(encode_column(t, value, o) for (t, o), value in zip(columns, row, strict=True))

    for a, b in itertools.combinations(rows, 2):
        assert (key(a) > key(b)) - (key(a) < key(b)) == compared(columns, a, b), (a, b)


@pytest.mark.parametrize(
    ("type_", "data", "error"),
    [
        (INT, "", Truncated),
        (INT, "01800000", Truncated),
        (STRING, "01", Truncated),
        (STRING, "0101", Truncated),
        (STRING, "01016100000000000000", Truncated),
        (STRING, "0101 6161616161616161 09", Truncated),
        (INT, "0180000005 00", TrailingBytes),
        (INT, "00 00", TrailingBytes),
        (INT, "0280000005", UnknownTag),
        (BOOLEAN, "0102", MalformedKey),
        (STRING, "0102", MalformedKey),
        (STRING, "0101 6100000000000000 00", MalformedKey),
        (STRING, "0101 6100000000000000 0a", MalformedKey),
        (STRING, "0101 6100000000000001 01", MalformedKey),
        (STRING, "0101 ff00000000000000 01", MalformedKey),
        (DATE, "01ffffffff", ValueOutOfRange),
        (FLOAT, "01ffc000", Truncated),
        pytest.param(DOUBLE, "017fffffffffffffff", MalformedKey, id="-0.0"),
        pytest.param(DOUBLE, "01fff8000000000001", MalformedKey, id="a NaN with a payload"),
        pytest.param(DOUBLE, "01fff0000000000001", MalformedKey, id="a signalling NaN"),
        pytest.param(DOUBLE, "010007ffffffffffff", MalformedKey, id="a negative NaN"),
        pytest.param(FLOAT, "017fffffff", MalformedKey, id="-0.0 of 32 bits"),
        pytest.param(FLOAT, "01ff800001", MalformedKey, id="a signalling NaN of 32 bits"),
        (PAIR, "01", Truncated),
        (PAIR, "0100", Truncated),
        (PAIR, "010200", UnknownTag),
        (PAIR, "0100018000", Truncated),
        (PAIR, "010000ff", TrailingBytes),
        pytest.param(Array(INT), "0101 0180000000000000 02", MalformedKey, id="half an element"),
        (Array(INT), "0101 0180000000020000 06", UnknownTag),
        (Array(INT), "0101 0180000000010000 07", MalformedKey),
        (Array(Array(INT)), "0101 0101000000000000 02", MalformedKey),
    ],
)
def test_bytes_that_no_encoder_wrote_are_refused(
    type_: KeyType, data: str, error: type[StorageKeyError]
) -> None:
    with pytest.raises(error):
        decode_whole(type_, bytes.fromhex(data))
    descending = bytes(255 - byte for byte in bytes.fromhex(data))
    with pytest.raises(error):
        # The order whose tags are those of ascending ones, flipped.
        decode_whole(type_, descending, Order(descending=True))


MUTATIONS: list[Callable[[random.Random, bytearray], None]] = [
    lambda source, data: data.__setitem__(source.randrange(len(data)), source.randrange(256)),
    lambda source, data: data.__setitem__(
        source.randrange(len(data)), source.choice(b"\x00\x01\x08\x09\xfe\xff")
    ),
    lambda source, data: data.insert(source.randrange(len(data) + 1), source.randrange(256)),
    lambda source, data: data.__delitem__(slice(source.randrange(len(data)), None)),
    lambda source, data: data.extend(source.randbytes(3)),
]


@given(columns(), st.sampled_from(ORDERS), st.randoms(use_true_random=False), st.integers(1, 3))
def test_spoilt_bytes_decode_to_what_encodes_to_them_or_are_refused(
    column: tuple[KeyType, Any], order: Order, source: random.Random, times: int
) -> None:
    type_, value = column
    data = bytearray(encode_column(type_, value, order))
    for _ in range(times):
        if data:
            source.choice(MUTATIONS)(source, data)
    assert_exact(type_, bytes(data), order)


@given(TYPES, st.binary(max_size=30), st.sampled_from(ORDERS))
@example(BINARY, b"\x01\x01" + b"a" * 8 + b"\x09" + b"b" * 8 + b"\x08", Order())
def test_any_bytes_decode_to_what_encodes_to_them_or_are_refused(
    type_: KeyType, data: bytes, order: Order
) -> None:
    assert_exact(type_, data, order)


def assert_exact(type_: KeyType, data: bytes, order: Order) -> None:
    try:
        value, used = decode_column(type_, data, order)
    except StorageKeyError:
        return
    assert encode_column(type_, value, order) == data[:used]


def test_deep_and_long_arrays_decode_in_time() -> None:
    deep: KeyType = INT
    for _ in range(32):
        deep = Array(deep)
    value: Any = 5
    for _ in range(32):
        value = (value,)
    long = (False, None) * 20_000
    began = time.process_time()
    assert decode_whole(deep, encode_column(deep, value)) == value
    assert decode_whole(Array(BOOLEAN), encode_column(Array(BOOLEAN), long)) == long
    with pytest.raises(StorageKeyError):
        decode_whole(deep, b"\x01" * 100_000)
    with pytest.raises(UnknownTag):
        decode_whole(Array(Struct(())), encode_column(BINARY, b"\x01" * 200_000 + b"\x02"))
    assert time.process_time() - began < 5


@pytest.mark.parametrize(
    ("type_", "value", "error"),
    [
        (INT, True, MalformedKey),
        (INT, 1.0, MalformedKey),
        (INT, "1", MalformedKey),
        (BOOLEAN, 1, MalformedKey),
        (DATE, datetime.datetime(2013, 1, 31, tzinfo=datetime.UTC), MalformedKey),
        (TIMESTAMP, datetime.datetime(2013, 1, 31, tzinfo=datetime.UTC), MalformedKey),
        (STRING, b"a", MalformedKey),
        (STRING, "a\ud800b", MalformedKey),
        (BINARY, "a", MalformedKey),
        (FLOAT, True, MalformedKey),
        (DOUBLE, "1.0", MalformedKey),
        (DOUBLE, decimal.Decimal(1), MalformedKey),
        (DOUBLE, 2**53 + 1, MalformedKey),
        (FLOAT, 2**24 + 1, MalformedKey),
        pytest.param(DOUBLE, 10**5000, ValueOutOfRange, id="a double of 5001 digits"),
        (FLOAT, 1e39, ValueOutOfRange),
        # Half a step above the largest float, which would round to infinity.
        (FLOAT, struct.unpack(">d", bytes.fromhex("47effffff0000000"))[0], ValueOutOfRange),
        (YEAR_MONTH_INTERVAL, 2**31, ValueOutOfRange),
        (DAY_TIME_INTERVAL, datetime.timedelta(1), MalformedKey),
        (TIMESTAMP_NTZ, datetime.datetime(2013, 1, 31), MalformedKey),  # noqa: DTZ001
        (PAIR, (1,), MalformedKey),
        (PAIR, {"a": 1, "b": 2}, MalformedKey),
        (PAIR, (1, 2**31), ValueOutOfRange),
        (Array(INT), "12", MalformedKey),
        (Array(STRING), [b"a"], MalformedKey),
        (TINYINT, 128, ValueOutOfRange),
        (BIGINT, -(2**63) - 1, ValueOutOfRange),
        pytest.param(TIMESTAMP, 10**5000, ValueOutOfRange, id="5001 digits"),
        (BOOLEAN, [10**5000], MalformedKey),
    ],
)
def test_values_of_another_kind_are_refused(
    type_: KeyType, value: object, error: type[StorageKeyError]
) -> None:
    with pytest.raises(error) as refused:
        encode_column(type_, value)
    assert len(str(refused.value)) < 200


INTEGERS = [TINYINT, SMALLINT, INT, BIGINT, TIMESTAMP, TIMESTAMP_NTZ, YEAR_MONTH_INTERVAL, DAY_TIME_INTERVAL]


@pytest.mark.parametrize("type_", INTEGERS)
def test_integers_may_be_those_of_numpy(type_: KeyType) -> None:
    for number in (np.int8(-5), np.uint64(5), np.int64(7)):
        assert type(canonical(type_, number)) is int
        assert encode_column(type_, number) == encode_column(type_, int(number))
    with pytest.raises(ValueOutOfRange):
        canonical(type_, np.uint64(2**63))
    for other in (np.True_, np.float64(1), np.datetime64(1, "us")):
        with pytest.raises(MalformedKey):
            canonical(type_, other)


def test_a_double_may_be_that_of_numpy() -> None:
    assert type(canonical(DOUBLE, np.float64(0.1))) is float
    assert canonical(DOUBLE, np.float64(0.1)) == 0.1
    for other in (np.float32(0.1), np.int64(1)):
        with pytest.raises(MalformedKey):
            canonical(DOUBLE, other)


@pytest.mark.parametrize(
    "given", [{"nulls": "smallest"}, {"nulls": []}, {"descending": 1}, {"descending": None}]
)
def test_an_order_of_another_kind_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(MalformedKey, match=f"'{next(iter(given))}' must be "):
        Order(**given)


def test_a_float_is_rounded_to_its_bits_and_an_exact_int_is_one() -> None:
    assert decode_whole(FLOAT, encode_column(FLOAT, 0.1)) == struct.unpack(">f", struct.pack(">f", 0.1))[0]
    assert decode_whole(FLOAT, encode_column(FLOAT, 1e-60)) == 0.0
    assert encode_column(DOUBLE, 2**53) == encode_column(DOUBLE, 2.0**53)
    assert encode_column(FLOAT, -3) == encode_column(FLOAT, -3.0)


def test_descending_flips_what_is_nested_too() -> None:
    rows = [None, (None, 1), (1, None), (1, 1)]
    for order in ORDERS:
        assert_ordered_as_values([(PAIR, order)], [(row,) for row in rows])
    assert encode_column(PAIR, (None, 0), Order(descending=True)).hex() == "fefffe7fffffff"
