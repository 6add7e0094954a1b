"""Whole keys, one row at a time and as an Arrow batch, and the schema in a table's metadata."""

import datetime
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys import arrow
from storage_keys.column import Order, decode_column
from storage_keys.errors import MalformedKey, SchemaMismatch, StorageKeyError, ValueOutOfRange
from storage_keys.hash import hash_id, hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT, BINARY, BOOLEAN, DATE, INT, KEY_TYPES, STRING, TIMESTAMP
from storage_keys.vnode import prefix_of

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
    assert hash_id(KEY_TYPES) == "xxh64-1:i64,i64,i64,i64,i64,i64,micros,utf8,bytes"
    assert hash_id([INT]) == hash_id([BIGINT])
    assert hash_row([INT], [5]) == hash_row([BIGINT], [5])


def test_null_leaves_the_hash_as_it_is() -> None:
    assert hash_row([STRING, STRING], [None, "a"]) == hash_row([STRING], ["a"])
    assert hash_row([STRING, BIGINT], [None, None]) == 42


def test_a_key_has_at_most_65535_bytes() -> None:
    # 6 bytes of head, 2 of tag and mark, then 9 for each 8.
    longest = (65_535 - 8) // 9 * 8
    assert len(LONG.storage_key({"s": "x" * longest})) <= 65_535
    with pytest.raises(ValueOutOfRange, match="the length of a storage key in bytes"):
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
    with pytest.raises(SchemaMismatch, match="xxh64-1:utf8,i64 here, xxh64-1:i64,utf8 there"):
        SCHEMA.require_same(KeySchema(7, COLUMNS, ("day", "user")))
    with pytest.raises(SchemaMismatch, match=r'"table_id": 7.* here, .*"table_id": 8.* there'):
        SCHEMA.require_same(KeySchema(8, COLUMNS, ("user", "day")))


def batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    arrays = {name: [row[name] for row in rows] for name in ("day", "user", "at", "raw", "ok")}
    return pa.record_batch(
        {
            "day": pa.array(arrays["day"], pa.date32()),
            "user": pa.array(arrays["user"], pa.string()),
            "at": pa.array(arrays["at"], pa.int64()).cast(pa.timestamp("us", "UTC")),
            "raw": pa.array(arrays["raw"], pa.binary()),
            "ok": pa.array(arrays["ok"], pa.bool_()),
        }
    )


@given(
    st.lists(
        st.fixed_dictionaries(
            {
                "day": st.none() | st.dates(),
                "user": st.none() | st.text(st.characters(codec="utf-8")),
                "at": st.none() | st.integers(-(2**63), 2**63 - 1),
                "raw": st.none() | st.binary(max_size=20),
                "ok": st.none() | st.booleans(),
            }
        ),
        max_size=8,
    ),
    st.integers(0, 3),
)
def test_keys_of_a_batch_are_the_keys_of_its_rows(rows: list[dict[str, Any]], skipped: int) -> None:
    keys = [SCHEMA.storage_key(row) for row in rows]
    whole = batch(rows)
    assert arrow.storage_keys(SCHEMA, whole).to_pylist() == keys
    # A slice shares its buffers with the whole; a table has chunks.
    assert arrow.storage_keys(SCHEMA, whole.slice(skipped)).to_pylist() == keys[skipped:]
    parts = pa.Table.from_batches([whole.slice(0, skipped), whole.slice(skipped)])
    assert arrow.storage_keys(SCHEMA, parts).to_pylist() == keys
    assert arrow.storage_keys(SCHEMA, whole).type == pa.binary()


def test_arrow_forms_of_one_type_hash_alike() -> None:
    texts, numbers = ["", "é", None, "x" * 40], [-1, None, 7, 2]
    for form in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        expected = [hash_row([STRING], [text]) for text in texts]
        assert arrow.hash_columns([STRING], [pa.array(texts, form)]).tolist() == expected, form
    for width in (pa.int8(), pa.int16(), pa.int32(), pa.int64()):
        expected = [hash_row([BIGINT], [number]) for number in numbers]
        assert arrow.hash_columns([BIGINT], [pa.array(numbers, width)]).tolist() == expected, width
        assert arrow.hash_columns([BIGINT], [pa.array(numbers, width).slice(2)]).tolist() == expected[2:], (
            width
        )
    for unit, factor in (("s", 1_000_000), ("ms", 1_000)):
        expected = [hash_row([TIMESTAMP], [None if n is None else n * factor]) for n in numbers]
        array = pa.array(numbers, pa.int64()).cast(pa.timestamp(unit))
        assert arrow.hash_columns([TIMESTAMP], [array]).tolist() == expected, unit


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
