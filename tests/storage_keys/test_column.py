"""Column bytes against the memcomparable table, and their order against a plain sort of the values."""

import datetime
import functools
import itertools
import random
from typing import Any

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
    UnsupportedType,
    ValueOutOfRange,
)
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    KEY_TYPES,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    Integer,
    KeyType,
    parse_type,
)

ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
LENGTHS = [0, 1, 7, 8, 9, 15, 16, 17, 24, 25]


def values_of(type_: KeyType) -> st.SearchStrategy[Any]:
    if isinstance(type_, Integer) or type_ == TIMESTAMP:
        high = 2 ** (8 * (type_.width if isinstance(type_, Integer) else 8) - 1) - 1
        return st.integers(-high - 1, high) | st.sampled_from([-high - 1, -1, 0, 1, high])
    edges = (
        [b"\0" * n for n in LENGTHS] + [b"\xff" * n for n in LENGTHS] + [b"a" * n + b"\0" for n in LENGTHS]
    )
    return {
        BOOLEAN: st.booleans(),
        DATE: st.dates(),
        STRING: st.text(st.characters(codec="utf-8")) | st.sampled_from([e.decode("latin-1") for e in edges]),
        BINARY: st.binary(max_size=40) | st.sampled_from(edges),
    }[type_]


def columns() -> st.SearchStrategy[tuple[KeyType, Any]]:
    return st.sampled_from(KEY_TYPES).flatmap(
        lambda type_: st.tuples(st.just(type_), st.none() | values_of(type_))
    )


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
    assert (decoded, type(decoded), used) == (value, type(value), len(data))
    assert decode_whole(type_, data, order) == value


Column = tuple[KeyType, Order]


def compared(columns: list[Column], left: tuple[Any, ...], right: tuple[Any, ...]) -> int:
    """The oracle: SQL's ORDER BY, spelled out on the values."""
    for (_, order), a, b in zip(columns, left, right, strict=True):
        if a is None or b is None:
            if (a is None) != (b is None):
                null_side = -1 if a is None else 1
                return null_side if order.nulls == "first" else -null_side
        elif a != b:
            # Python compares strings by code point, which is the order of their UTF-8.
            return (-1 if a < b else 1) * (-1 if order.descending else 1)
    return 0


@given(st.data())
def test_byte_order_of_rows_is_the_order_of_their_values(data: st.DataObject) -> None:
    types = data.draw(st.lists(st.sampled_from(KEY_TYPES), min_size=1, max_size=3))
    columns: list[Column] = [(type_, data.draw(st.sampled_from(ORDERS))) for type_ in types]
    row = st.tuples(*(st.none() | values_of(type_) for type_ in types))
    rows = data.draw(st.lists(row, min_size=2, max_size=12))
    assert_sorted_alike(columns, rows)


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
    assert_sorted_alike([(STRING, order), (INT, Order())], rows)


def assert_sorted_alike(columns: list[Column], rows: list[tuple[Any, ...]]) -> None:
    def key(row: tuple[Any, ...]) -> bytes:
        return b"".join(encode_column(t, value, o) for (t, o), value in zip(columns, row, strict=True))

    oracle = functools.cmp_to_key(functools.partial(compared, columns))
    assert sorted(rows, key=key) == sorted(rows, key=oracle)
    for a, b in itertools.pairwise(rows):
        assert (key(a) == key(b)) == (a == b)


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
    ],
)
def test_bytes_that_no_encoder_wrote_are_refused(
    type_: KeyType, data: str, error: type[StorageKeyError]
) -> None:
    with pytest.raises(error):
        decode_whole(type_, bytes.fromhex(data))


@given(st.sampled_from(KEY_TYPES), st.binary(max_size=30), st.sampled_from(ORDERS))
@example(BINARY, b"\x01\x01" + b"a" * 8 + b"\x09" + b"b" * 8 + b"\x08", Order())
def test_any_bytes_either_decode_to_what_encodes_to_them_or_are_refused(
    type_: KeyType, data: bytes, order: Order
) -> None:
    try:
        value, used = decode_column(type_, data, order)
    except StorageKeyError:
        return
    assert encode_column(type_, value, order) == data[:used]


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


def test_types_are_found_by_spark_sql_name() -> None:
    assert [parse_type(type_.sql_name) for type_ in KEY_TYPES] == list(KEY_TYPES)
    assert parse_type(" LONG ") == parse_type("bigint")
    with pytest.raises(UnsupportedType, match=r"^type 'map<string,int>' cannot .* use boolean, tinyint, "):
        parse_type("map<string,int>")
