"""Decoding whatever there may be: a value that encodes to exactly what came in, or one of our errors, and soon.

The inputs are valid ones of random schemas, mutated. Input `n` depends on SEED and `n` alone, so that a failure is
repeated by its number.
"""

import json
import random
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from storage_keys import arrow, offline
from storage_keys.column import Order, decode_column, encode_column
from storage_keys.errors import StorageKeyError
from storage_keys.json_value import to_json
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.type_name import parse_type
from storage_keys.types import PLAIN_TYPES, Array, Decimal, Field, KeyType, Struct

SEED = 20261121
INPUTS = 20_000
INPUTS_SLOW = 2_000_000
# Of processor time, which other work on the machine does not lengthen.
SECONDS_MAX = 5.0
NESTED_MAX = 3
ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
JSON_SCRAPS = json.loads(
    "[null, true, false, 0, -1, 1, 255, 2147483648, 9223372036854775808, 1e40, 0.5, -0.0, 1e308, Infinity, NaN,"
    '"", "a", "NaN", "-Infinity", "1E+5", "1.50", "2013-01-31", "2013-02-30", "00ff", "0", "é", "\\ud800", "\\u0000",'
    '"bigint", "decimal(38,38)", "array<int>", "first", [], [null], [[1]], {}, {"hex": "0180"}, {"hex": 5}]'
)
JSON_SCRAPS.append(10**5000)
TYPE_SCRAPS = ["array<", "struct<", ">", "<", "a:", ",", ":", "`", "``", "(", ")", " ", " " * 60, "é", "\0"]
TYPE_SCRAPS += ["int", "38", "39", "decimal(", "decimal(5,2)", "map<int,int>", "interval ", "year to month"]
TYPE_SCRAPS += ["array<" * 40, ">" * 40]
STRUCT_NAMES = ["a", "B", "x y", "c`d", "a:int", "é", "<", "0"]

Draw = Callable[[random.Random, KeyType], Any]
Target = Callable[[random.Random, Draw], None]


def random_type(source: random.Random, depth: int = 0) -> KeyType:
    match source.randrange(10 if depth < NESTED_MAX else 8):
        case 8:
            return Array(random_type(source, depth + 1))
        case 9:
            names = source.sample(STRUCT_NAMES, source.randrange(4))
            return Struct(tuple(Field(name, random_type(source, depth + 1)) for name in names))
        case 6 | 7:
            precision = source.randint(1, 38)
            return Decimal(precision, source.randint(0, precision))
    return source.choice(PLAIN_TYPES)


def random_schema(source: random.Random) -> KeySchema:
    columns = tuple(
        KeyColumn(f"c{at}", random_type(source), source.choice(ORDERS)) for at in range(source.randrange(5))
    )
    flat = [column.name for column in columns if not isinstance(column.type, Struct | Array)]
    distribution = source.sample(flat, source.randint(0, len(flat)))
    return KeySchema(source.choice((0, 7, 2**32 - 1)), columns, tuple(distribution))


def random_row(source: random.Random, draw: Draw, schema: KeySchema) -> dict[str, Any]:
    return {column.name: draw(source, column.type) for column in schema.columns}


def mutated(source: random.Random, data: bytes, other: bytes) -> bytes:
    for _ in range(source.randrange(4)):
        at, end = sorted((source.randint(0, len(data)), source.randint(0, len(data))))
        match source.randrange(7):
            case 0 if data:
                flipped = source.randrange(len(data))
                changed = data[flipped] ^ 1 << source.randrange(8)
                data = data[:flipped] + bytes((changed,)) + data[flipped + 1 :]
            case 1:
                data = data[:at]
            case 2:
                data = data[:at] + source.randbytes(source.randint(1, 12)) + data[at:]
            case 3:
                data = data[:at] + data[end:]
            case 4:
                data = data[:at] + other[source.randint(0, len(other)) :]
            case 5:
                data = data[:at] + data[at:end] * source.randint(2, 40) + data[end:]
            case 6:
                data = (
                    data[:at] + bytes((source.choice((0, 1, 8, 9, 0x15, 0x7F, 0xFE, 0xFF)),)) + data[at + 1 :]
                )
    return data if source.random() < 0.95 else source.randbytes(source.randrange(40))


def mutated_text(source: random.Random, text: str, scraps: list[str]) -> str:
    for _ in range(source.randrange(4)):
        at, end = sorted((source.randint(0, len(text)), source.randint(0, len(text))))
        scrap = source.choice(scraps) * source.choice((1, 1, 1, 50))
        text = source.choice(
            (text[:at] + scrap + text[at:], text[:at] + text[end:], text[:at] + scrap + text[end:])
        )
    return text


def mutated_document(source: random.Random, document: Any) -> Any:
    """The document with one place in it replaced, left out or added."""
    if isinstance(document, dict) and document and source.random() < 0.8:
        name = source.choice(sorted(document))
        changed = {**document, name: mutated_document(source, document[name])}
        if source.random() < 0.1:
            changed.pop(name)
        return changed
    if isinstance(document, list) and document and source.random() < 0.8:
        at = source.randrange(len(document))
        return [*document[:at], mutated_document(source, document[at]), *document[at + source.randrange(2) :]]
    if isinstance(document, str) and source.random() < 0.5:
        return mutated_text(source, document, TYPE_SCRAPS)
    return source.choice(JSON_SCRAPS)


def a_column(source: random.Random, draw: Draw) -> None:
    type_, order = random_type(source), source.choice(ORDERS)
    valid, other = (encode_column(type_, draw(source, type_), order) for _ in range(2))
    data = mutated(source, valid, other)
    value, used = decode_column(type_, data, order)
    assert encode_column(type_, value, order) == data[:used], (type_, order, data.hex())


def a_key(source: random.Random, draw: Draw) -> None:
    schema = random_schema(source)
    valid, other = (schema.storage_key(random_row(source, draw, schema)) for _ in range(2))
    data = mutated(source, valid, other)
    decoded = schema.decode(data)
    assert schema.storage_key(decoded.row) == data, (schema, data.hex())
    assert schema.prefix(decoded.row) == decoded.prefix


def keys_in_arrow(source: random.Random, draw: Draw) -> None:
    schema = random_schema(source)
    valid, other = (schema.storage_key(random_row(source, draw, schema)) for _ in range(2))
    keys = pa.array([other, mutated(source, valid, other)], pa.binary())
    rows = arrow.decode_keys(schema, keys)
    assert arrow.storage_keys(schema, rows).equals(keys), (schema, [key.as_py().hex() for key in keys])


def a_type_name(source: random.Random, _: Draw) -> None:
    name = mutated_text(source, random_type(source).sql_name, TYPE_SCRAPS)
    type_ = parse_type(name)
    assert parse_type(type_.sql_name) == type_, name


def a_schema_document(source: random.Random, _: Draw) -> None:
    document = random_schema(source).to_json()
    for _ in range(source.randrange(3)):
        document = mutated_document(source, document)
    schema = KeySchema.from_json(document)
    assert KeySchema.from_json(json.loads(json.dumps(schema.to_json()))) == schema, document


def an_offline_form(source: random.Random, draw: Draw) -> None:
    schema = random_schema(source)
    row = random_row(source, draw, schema)
    columns: list[dict[str, Any]] = [
        {
            "type": column.type.sql_name,
            "value": to_json(row[column.name]),
            "descending": column.order.descending,
            "nulls": column.order.nulls,
        }
        for column in schema.columns
    ]
    head = {"table_id": schema.table_id, "vnode_count": source.choice((1, 3, 256, 65536))}
    positions = [int(name[1:]) for name in schema.distribution]
    one = columns[0] if columns else {"type": "int", "value": 5}
    encoded = {"type": one["type"], "hex": schema.storage_key(row)[6:].hex()}
    forms: list[tuple[Callable[[object], Any], dict[str, Any]]] = [
        (offline.encode, one),
        (offline.decode, {**one, **encoded}),
        (offline.storage, {**head, "columns": columns, "distribution": positions}),
        (offline.vnode, {**head, "columns": columns}),
        (offline.range_, {**head, "first": 0, "last": source.randrange(3)}),
    ]
    form, document = source.choice(forms)
    for _ in range(source.randrange(3)):
        document = mutated_document(source, document)
    answer = form(document)
    json.dumps(answer, allow_nan=False)
    if form is offline.encode:
        assert offline.encode({**document, **offline.decode({**document, **answer})}) == answer, document


# Of 20 inputs.
TARGETS: list[Target] = [
    *[a_column] * 8,
    *[a_key] * 6,
    *[keys_in_arrow] * 1,
    *[a_type_name] * 1,
    *[a_schema_document] * 1,
    *[an_offline_form] * 3,
]


@pytest.mark.parametrize(
    "count",
    [INPUTS, pytest.param(INPUTS_SLOW, marks=[pytest.mark.slow, pytest.mark.timeout(3 * 3600)])],
)
def test_every_input_gives_its_own_value_or_one_of_our_errors(draw: Draw, count: int) -> None:
    print(f"seed {SEED}")
    outcomes: Counter[tuple[str, bool]] = Counter()
    for number in range(count):
        target = TARGETS[number % len(TARGETS)]
        source = random.Random(SEED + number)
        started = time.process_time()
        try:
            target(source, draw)
            accepted = True
        except StorageKeyError as error:
            # To write the message is part of refusing.
            accepted = not str(error)
        except BaseException:
            print(f"input {number}: {target.__name__}(random.Random({SEED + number}), draw)")
            raise
        assert time.process_time() - started < SECONDS_MAX, f"input {number} of {target.__name__}"
        outcomes[target.__name__, accepted] += 1
    # Neither all valid nor all noise.
    for target in set(TARGETS):
        accepted, refused = outcomes[target.__name__, True], outcomes[target.__name__, False]
        assert min(accepted, refused) > 0.1 * (accepted + refused), (target.__name__, accepted, refused)
