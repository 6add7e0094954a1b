"""Whole keys, one row at a time, and the schema in a table's metadata."""

import datetime
import decimal
import json
import pickle
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys import arrow
from storage_keys.column import Order, decode_column
from storage_keys.errors import (
    MalformedKey,
    SchemaMismatch,
    StorageKeyError,
    TrailingBytes,
    Truncated,
    UnsupportedType,
    ValueOutOfRange,
)
from storage_keys.hash import hash_id, hash_row
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
from storage_keys.vnode import prefix_of

CENT = decimal.Decimal("0.01")
COLUMNS = (
    KeyColumn("day", DATE),
    KeyColumn("user", STRING, Order(descending=True)),
    KeyColumn("at", TIMESTAMP, Order(nulls="last")),
    KeyColumn("raw", BINARY),
    KeyColumn("ok", BOOLEAN),
)
SCHEMA = KeySchema(7, COLUMNS, ("user", "day"))
ROW: dict[str, Any] = {
    "day": datetime.date(2013, 1, 31),
    "user": "é",
    "at": -1,
    "raw": b"",
    "ok": None,
    "value": object(),
}
PAIR = Struct((Field("a", INT), Field("b `c`, d:<e>", Array(STRING))))
DECIMALS = (Decimal(9, 2), Decimal(18, 18), Decimal(19, 0), Decimal(38, 37))
ALL_TYPES: tuple[KeyType, ...] = (*PLAIN_TYPES, *DECIMALS, PAIR, Array(DOUBLE), Array(PAIR))
# Every type, every order, and a distribution that is neither a prefix of the key nor in its order.
EVERYTHING = KeySchema(
    0xFFFF_FFFF,
    tuple(
        KeyColumn(f"{type_.sql_name} {at}", type_, Order(at % 2 == 1, "first" if at % 3 else "last"))
        for at, type_ in enumerate(ALL_TYPES)
    ),
    tuple(f"{ALL_TYPES[at].sql_name} {at}" for at in (17, 3, 5, 14, 13, 0)),
)
LONG = KeySchema(1, (KeyColumn("s", STRING),), ("s",))


def test_layout_is_table_prefix_columns() -> None:
    key = SCHEMA.storage_key(ROW)
    # In the order of the distribution, not of the key.
    prefix = prefix_of(hash_row([STRING, DATE], ["é", ROW["day"]]))
    assert SCHEMA.prefix(ROW) == prefix
    assert key[:6] == (7).to_bytes(4, "big") + prefix.to_bytes(2, "big")
    rest, found = key[6:], []
    for column in COLUMNS:
        value, used = decode_column(column.type, rest, column.order)
        found.append(value)
        rest = rest[used:]
    assert rest == b""
    assert found == [ROW[column.name] for column in COLUMNS]


def test_a_singleton_table_keeps_all_rows_in_one_prefix() -> None:
    schema = KeySchema(7, COLUMNS, ())
    assert schema.storage_key(ROW)[4:6] == b"\0\0"
    assert schema.hash_id == "xxh64-1:"


def test_hash_ids_name_classes_so_widening_does_not_reshard() -> None:
    plain = ["i64"] * 5 + ["f64", "f64", "i64", "micros", "micros", "interval-months"]
    plain += ["interval-micros", "utf8", "bytes"]
    assert hash_id(PLAIN_TYPES) == "xxh64-1:" + ",".join(plain)
    assert hash_id(DECIMALS) == "xxh64-1:dec64.2,dec64.18,dec128.0,dec128.37"
    for narrow, wide, value in (
        (INT, BIGINT, 5),
        (FLOAT, DOUBLE, 1.5),
        (Decimal(9, 2), Decimal(18, 2), CENT),
    ):
        assert hash_id([narrow]) == hash_id([wide])
        assert hash_row([narrow], [value]) == hash_row([wide], [value])


@pytest.mark.parametrize(
    ("type_", "value", "hashed"),
    [
        # Spark 4.3: SELECT xxhash64(5L), xxhash64(make_ym_interval(1, 2)), xxhash64(INTERVAL '1' DAY) and so on.
        (BIGINT, 5, 6251837290343458373),
        (DOUBLE, -1.5, -1519168156472177911),
        (Decimal(9, 2), decimal.Decimal("-1.5"), -3700955262752989823),
        (Decimal(20, 2), decimal.Decimal("-1.5"), -6659465364316328129),
        (YEAR_MONTH_INTERVAL, 14, -3715488255824917081),
        (DAY_TIME_INTERVAL, 86_400_000_000, 5650310968337874586),
        (TIMESTAMP_NTZ, -1_000_000, -3302326838082710953),
    ],
)
def test_h_is_that_of_spark(type_: KeyType, value: object, hashed: int) -> None:
    assert hash_row([type_], [value]) == hashed


def test_equal_values_hash_alike() -> None:
    assert hash_row([DOUBLE], [-0.0]) == hash_row([FLOAT], [0.0]) == hash_row([BIGINT], [0])
    assert hash_row([DOUBLE], [float("nan")]) == hash_row([FLOAT], [-float("nan")])
    one = decimal.Decimal("1.00")
    assert hash_row([Decimal(9, 2)], [one]) == hash_row([Decimal(9, 2)], [decimal.Decimal(1)])
    assert hash_row([YEAR_MONTH_INTERVAL], [5]) != hash_row([DAY_TIME_INTERVAL], [5])
    assert hash_row([TIMESTAMP_NTZ], [5]) == hash_row([TIMESTAMP], [5])


@pytest.mark.parametrize("type_", [PAIR, Array(INT)])
def test_structs_and_arrays_do_not_distribute(type_: KeyType) -> None:
    refusal = r"^column 's': type '(struct|array)<.*cannot be a distribution column; use boolean, tinyint"
    with pytest.raises(UnsupportedType, match=refusal):
        KeySchema(7, (KeyColumn("k", INT), KeyColumn("s", type_)), ("k", "s"))
    KeySchema(7, (KeyColumn("k", INT), KeyColumn("s", type_)), ("k",))
    for value in (None, ()):
        with pytest.raises(UnsupportedType):
            hash_row([type_], [value])


def test_a_schema_of_the_deepest_types_comes_back_and_no_deeper_one_is_made() -> None:
    def nested(times: int) -> KeyType:
        type_: KeyType = INT
        for at in range(times):
            type_ = Array(type_) if at % 2 else Struct((Field("a", STRING), Field("b", type_)))
        return type_

    deepest = KeySchema(7, (KeyColumn("k", nested(32)),), ())
    assert KeySchema.from_json(json.loads(json.dumps(deepest.to_json()))) == deepest
    for depth in (33, 100_000):
        for distribution in ((), ("k",)):
            with pytest.raises(UnsupportedType, match=r"^column 'k': .* more than 32 deep; flatten it$"):
                KeySchema(7, (KeyColumn("k", nested(depth)),), distribution)


def test_null_leaves_the_hash_as_it_is() -> None:
    assert hash_row([STRING, STRING], [None, "a"]) == hash_row([STRING], ["a"])
    assert hash_row([STRING, BIGINT], [None, None]) == 42


def test_a_key_has_at_most_65535_bytes() -> None:
    # 6 bytes of head, 2 of tag and mark, then 9 for each 8.
    longest = (65_535 - 8) // 9 * 8
    assert len(LONG.storage_key({"s": "x" * longest})) <= 65_535
    with pytest.raises(ValueOutOfRange, match=r"not .*; shorten the column, or key on its hash"):
        LONG.storage_key({"s": "x" * (longest + 1)})
    with pytest.raises(ValueOutOfRange):
        arrow.storage_keys(LONG, pa.record_batch({"s": ["x" * (longest + 1)]}))


def test_errors_name_the_column_also_after_a_pickle() -> None:
    with pytest.raises(
        MalformedKey, match=r"^column 'user': the string has a lone surrogate at index 1"
    ) as refused:
        SCHEMA.storage_key({**ROW, "user": "a\ud800"})
    assert str(pickle.loads(pickle.dumps(refused.value))) == str(refused.value)
    with pytest.raises(MalformedKey, match=r"^column 'at': the row does not have it"):
        SCHEMA.prefix({name: value for name, value in ROW.items() if name != "at"})


@pytest.mark.parametrize(
    ("columns", "distribution"),
    [((*COLUMNS, COLUMNS[0]), ("day",)), (COLUMNS, ("day", "day")), (COLUMNS, ("value",))],
)
def test_schemas_that_contradict_themselves_are_refused(
    columns: tuple[KeyColumn, ...], distribution: tuple[str, ...]
) -> None:
    with pytest.raises(MalformedKey):
        KeySchema(7, columns, distribution)


def test_a_schema_comes_back_from_a_tables_metadata() -> None:
    assert KeySchema.from_json(json.loads(json.dumps(SCHEMA.to_json()))) == SCHEMA


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"format": 2}, "the key format differs: 1 here, 2 there"),
        ({"hash_id": "xxh64-1:i64"}, "the hash id differs: xxh64-1:utf8,i64 here, xxh64-1:i64 there"),
    ],
)
def test_metadata_of_another_format_or_hash_is_refused(change: dict[str, object], named: str) -> None:
    with pytest.raises(SchemaMismatch, match=named):
        KeySchema.from_json(SCHEMA.to_json() | change)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just(5000).map(lambda digits: 10**digits),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(SCHEMA.to_json())), JSON)
def test_hostile_metadata_is_refused_by_the_family_alone(name: str, found: object) -> None:
    for document in (found, SCHEMA.to_json() | {name: found}):
        try:
            KeySchema.from_json(document)
        except StorageKeyError as error:
            json.dumps({"error": error.name, "detail": str(error)})


def test_require_same_names_both_sides() -> None:
    SCHEMA.require_same(KeySchema(7, COLUMNS, ("user", "day")))
    others = [
        (KeySchema(7, COLUMNS, ("day", "user")), "xxh64-1:utf8,i64 here, xxh64-1:i64,utf8 there"),
        (KeySchema(8, COLUMNS, ("user", "day")), "'table_id' of the key schema differs: 7 here, 8 there"),
        (
            KeySchema(7, COLUMNS[:-1], ("user", "day")),
            'columns. of the key schema differs: .*"ok".* here, .* there',
        ),
        (
            KeySchema(7, (*COLUMNS[:-1], KeyColumn("ok", BOOLEAN, Order(nulls="last"))), ("user", "day")),
            "columns",
        ),
    ]
    for other, named in others:
        with pytest.raises(SchemaMismatch, match=named):
            SCHEMA.require_same(other)


def test_a_schema_of_every_type_comes_back_from_a_tables_metadata() -> None:
    stored = json.dumps(EVERYTHING.to_json())
    assert KeySchema.from_json(json.loads(stored)) == EVERYTHING
    assert json.dumps(EVERYTHING.to_json()) == stored


@given(st.text(max_size=6), st.text(max_size=6))
def test_field_names_may_be_of_any_characters(name: str, other: str) -> None:
    inner = Struct((Field(name, INT), Field(other, Array(Struct((Field(name, STRING),))))))
    schema = KeySchema(7, (KeyColumn(name, inner),), ())
    assert KeySchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema


def same(values: dict[str, Any]) -> str:
    """Of NaN too: all the rest shows its value."""
    return repr(values)


def test_a_key_of_every_type_decodes_to_its_row(draw: Callable[[random.Random, KeyType], Any]) -> None:
    print("seed 20261121")
    source = random.Random(20261121)
    for _ in range(150):
        row = {column.name: draw(source, column.type) for column in EVERYTHING.columns}
        key = EVERYTHING.storage_key(row)
        decoded = EVERYTHING.decode(key)
        assert (decoded.prefix, list(decoded.row)) == (EVERYTHING.prefix(row), list(row))
        assert EVERYTHING.storage_key(decoded.row) == key
        # What decodes is stable: 32-bit floats are rounded, -0.0 is 0.0, and so on, once.
        assert same(EVERYTHING.decode(EVERYTHING.storage_key(decoded.row)).row) == same(decoded.row)


def test_decode_gives_the_row_as_it_was() -> None:
    assert SCHEMA.decode(SCHEMA.storage_key(ROW)).row == {column.name: ROW[column.name] for column in COLUMNS}
    singleton = KeySchema(7, (), ())
    assert singleton.decode(singleton.storage_key({})).row == {}


def test_keys_of_others_are_refused_by_decode() -> None:
    key = SCHEMA.storage_key(ROW)
    with pytest.raises(SchemaMismatch, match="the table id differs: 7 here, 8 there"):
        SCHEMA.decode(KeySchema(8, COLUMNS, ("user", "day")).storage_key(ROW))
    with pytest.raises(TrailingBytes, match=f"the key ends after {len(key)} of {len(key) + 1} bytes"):
        SCHEMA.decode(key + b"\0")
    with pytest.raises(MalformedKey, match=r"under prefix \d+, but its distribution columns hash to \d+"):
        SCHEMA.decode(KeySchema(7, COLUMNS, ("day", "user")).storage_key(ROW))
    with pytest.raises(MalformedKey, match="under prefix 1, but its distribution columns hash to 0"):
        KeySchema(7, COLUMNS, ()).decode(key[:4] + b"\0\1" + key[6:])
    for length in range(len(key)):
        with pytest.raises(Truncated):
            SCHEMA.decode(key[:length])
    with pytest.raises(Truncated, match=r"^column 'raw': the column needs at least 2 bytes and 1 are left"):
        SCHEMA.decode(key[:-2])
    with pytest.raises(ValueOutOfRange, match="the length of a storage key"):
        SCHEMA.decode(key + bytes(65_536))


def test_spoilt_keys_decode_to_their_row_or_are_refused(
    draw: Callable[[random.Random, KeyType], Any],
) -> None:
    print("seed 3")
    source = random.Random(3)
    for _ in range(500):
        row = {column.name: draw(source, column.type) for column in EVERYTHING.columns}
        key = bytearray(EVERYTHING.storage_key(row))
        # Beyond the head: almost no prefix is right by chance.
        key[source.randrange(6, len(key))] = source.choice((0, 1, 8, 9, 0xFE, 0xFF, source.randrange(256)))
        try:
            decoded = EVERYTHING.decode(bytes(key))
        except StorageKeyError:
            continue
        assert EVERYTHING.storage_key(decoded.row) == key


def test_narrow_arrow_integers_hash_as_wide_ones() -> None:
    numbers = [-1, None, 7, 2]
    expected = [hash_row([BIGINT], [number]) for number in numbers]
    for width in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        assert arrow.hash_columns([BIGINT], [pa.array(numbers, width)]).tolist() == expected, width
        assert arrow.hash_columns([BIGINT], [pa.array(numbers, width).slice(2)]).tolist() == expected[2:]


@pytest.mark.parametrize(
    ("type_", "array"),
    [
        (INT, pa.array([1], pa.int64())),
        (BIGINT, pa.array([1], pa.uint64())),
        (BIGINT, pa.array([1.0])),
        (STRING, pa.array([b"a"])),
        (TIMESTAMP, pa.array([1], pa.int64())),
        (TIMESTAMP, pa.array([1], pa.timestamp("ns"))),
        (DATE, pa.array([None], pa.null())),
    ],
)
def test_arrow_columns_of_another_type_are_refused(type_: Any, array: pa.Array) -> None:
    with pytest.raises(MalformedKey):
        arrow.hash_columns([type_], [array])
    with pytest.raises(MalformedKey, match=r"^column 'k': "):
        arrow.storage_keys(KeySchema(1, (KeyColumn("k", type_),), ()), pa.record_batch({"k": array}))


def test_columns_that_make_no_table_are_refused() -> None:
    with pytest.raises(MalformedKey):
        arrow.hash_columns([BIGINT, BIGINT], [pa.array([1]), pa.array([1, 2])])
    with pytest.raises(MalformedKey):
        arrow.hash_columns([], [])
    with pytest.raises(MalformedKey, match=r"^column 's': "):
        arrow.storage_keys(LONG, pa.record_batch({"k": [1]}))


def test_a_type_by_its_name_and_a_distribution_of_letters_are_refused() -> None:
    with pytest.raises(
        MalformedKey, match=r"^column 'k': a key column has a key type, not 'int'; use parse_type"
    ):
        KeyColumn("k", "int")  # type: ignore[arg-type]
    with pytest.raises(MalformedKey, match=r"distribution is a tuple of names; write \('k',\)"):
        KeySchema(1, (KeyColumn("k", BIGINT),), "k")  # type: ignore[arg-type]
