"""The formats, frozen.

`golden/memcomparable.jsonl` is what the Rust crate memcomparable 0.2 writes (`golden/memcomparable` is the program).
`golden/format-1.jsonl` is our own format 1, in the JSON forms of `vnodectl key`. A change there is a new format: the
tables of the old one cannot be read by it. For more lines, add them with any `out` and set REWRITE_GOLDEN=1.
"""

import decimal
import json
import math
import os
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from storage_keys import offline
from storage_keys.column import Order, decode_whole, encode_column
from storage_keys.hash import hash_id
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.type_name import parse_type
from storage_keys.types import DOUBLE, FLOAT, Decimal, KeyType

GOLDEN = Path(__file__).parent / "golden"
ORDERS = {
    f"{'desc' if descending else 'asc'} nulls {nulls}": Order(descending, nulls)
    for descending in (False, True)
    for nulls in ("first", "last")
}


def lines_of(name: str) -> list[dict[str, Any]]:
    with (GOLDEN / name).open(encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def decimal_types(text: str) -> list[KeyType]:
    """Types of all scales that can hold the number: its bytes are the same in each."""
    digits = decimal.Decimal(text).as_tuple()
    scale = -int(digits.exponent)
    whole = max(len(digits.digits) - scale, 0)
    return [
        Decimal(max(whole + scale, 1), scale),
        Decimal(38, scale),
        Decimal(38, 38 - whole),
    ]


def crate_values(line: dict[str, Any]) -> tuple[list[KeyType], Any]:
    """The types that a value of the crate has here, and the value."""
    match line["type"]:
        case "decimal":
            return decimal_types(line["value"]), decimal.Decimal(line["value"])
        case "float":
            return [FLOAT], struct.unpack(">f", bytes.fromhex(line["value"]))[0]
        case "double":
            return [DOUBLE], struct.unpack(">d", bytes.fromhex(line["value"]))[0]
        case "binary":
            return [parse_type("binary")], bytes.fromhex(line["value"])
    return [parse_type(line["type"])], line["value"]


@pytest.mark.parametrize("order", ORDERS)
def test_payloads_are_those_of_the_crate_memcomparable(order: str) -> None:
    under = ORDERS[order]
    for line in lines_of("memcomparable.jsonl"):
        payload = bytes.fromhex(line["payload"])
        expected = bytes(255 - byte for byte in payload) if under.descending else payload
        types, value = crate_values(line)
        for type_ in types:
            encoded = encode_column(type_, value, under)
            assert encoded[1:] == expected, (type_, line)
            decoded = decode_whole(type_, encoded, under)
            assert type(decoded) is type(value)
            assert decoded == value or (math.isnan(value) and math.isnan(decoded)), (type_, line)


def column(given: dict[str, Any]) -> dict[str, Any]:
    """The bytes of a value under each order; decoded, they give a value of the same bytes."""
    answer = {}
    for name, order in ORDERS.items():
        under = {"type": given["type"], "descending": order.descending, "nulls": order.nulls}
        encoded = offline.encode({**under, "value": given["value"]})
        assert offline.encode({**under, **offline.decode({**under, **encoded})}) == encoded
        answer[name] = encoded["hex"]
    return answer


def schema(given: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a schema, which is read back to the same schema."""
    columns = [
        KeyColumn(of["name"], parse_type(of["type"]), Order(of.get("descending", False), of.get("nulls")))
        for of in given["columns"]
    ]
    made = KeySchema(given["table_id"], tuple(columns), tuple(given["distribution"]))
    document = made.to_json()
    assert KeySchema.from_json(json.loads(json.dumps(document))) == made
    return document


FORMS: dict[str, Callable[[Any], Any]] = {
    "column": column,
    "storage": offline.storage,
    "vnode": offline.vnode,
    "range": offline.range_,
    "hash_id": lambda types: hash_id([parse_type(type_) for type_ in types]),
    "schema": schema,
}


def test_format_1_is_what_it_always_was() -> None:
    answers = [{**line, "out": FORMS[line["form"]](line["in"])} for line in lines_of("format-1.jsonl")]
    if "REWRITE_GOLDEN" in os.environ:
        written = "".join(json.dumps(answer) + "\n" for answer in answers)
        (GOLDEN / "format-1.jsonl").write_text(written, encoding="utf-8")
        pytest.fail("rewritten; look at the diff")
    assert {answer["form"] for answer in answers} == set(FORMS)
    for answer, frozen in zip(answers, lines_of("format-1.jsonl"), strict=True):
        assert answer == frozen


# The form that H takes of a type, as Spark SQL of a JSON value.
CANONICAL_SQL = {
    "boolean": "bigint({})",
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), "bigint('{}')"),
    "date": "bigint(unix_date(date'{}'))",
    "float": "double(float('{}'))",
    "timestamp": "timestamp_micros(bigint('{}'))",
    "timestamp_ntz": "cast(timestamp_micros(bigint('{}')) AS timestamp_ntz)",
    "interval year to month": "make_ym_interval(0, int('{}'))",
}


def canonical_sql(type_name: str, value: Any) -> str:
    match type_name, value:
        case _, None:
            return "NULL"
        case "string", _:
            return f"decode(unhex('{value.encode().hex()}'), 'UTF-8')"
        case "binary", _:
            return f"unhex('{value['hex']}')"
        case "interval day to second", _:
            sign, (seconds, micros) = "-" * (value < 0), divmod(abs(value), 10**6)
            days, minutes = seconds // 86_400, seconds // 60 % 1_440
            clock = f"{minutes // 60}:{minutes % 60}:{seconds % 60}.{micros:06}"
            return f"interval '{sign}{days} {clock}' day to second"
    return CANONICAL_SQL.get(type_name, f"cast('{{}}' AS {type_name})").format(value)


def test_the_frozen_hashes_are_those_of_spark(spark: SparkSession) -> None:
    lines = [line for line in lines_of("format-1.jsonl") if line["form"] == "vnode" and line["in"]["columns"]]
    rows = [
        ", ".join(canonical_sql(of["type"], of["value"]) for of in line["in"]["columns"]) for line in lines
    ]
    hashes = spark.sql("SELECT array(" + ", ".join(f"xxhash64({row})" for row in rows) + ")").collect()[0][0]
    assert hashes == [line["out"]["hash"] for line in lines]
