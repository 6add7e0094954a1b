"""The JSON form of a column's value: what JSON lacks is a string, or `{"hex": ...}` for bytes.

NULL is null; NaN and the infinities are `"NaN"`, `"Infinity"`, `"-Infinity"`; decimals are strings, so that no
JSON reader rounds them; dates are `"2013-01-31"`; timestamps and intervals are integers; structs and arrays are
JSON arrays, with the same forms inside.
"""

import contextlib
import datetime
import decimal
import math
import re
from typing import Final

from storage_keys.document import as_document, text
from storage_keys.errors import MalformedKey, ValueOutOfRange, shown
from storage_keys.types import Array, Binary, Date, Decimal, Floating, KeyType, Struct
from storage_keys.value import FLOAT_MAX, Value

_NOT_FINITE: Final = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def from_json(type_: KeyType, found: object) -> object:
    """The Python value of a JSON one, None for null.

    Refused is what is not of the form; whether the value is one of the type `storage_keys.value.canonical` says.
    """
    value: object = found
    match type_, found:
        case _, None:
            pass
        case Floating(), str() if found in _NOT_FINITE:
            value = _NOT_FINITE[found]
        # Python's JSON reader takes a bare NaN and Infinity, and 1e400 for the latter.
        case Floating(), float() if math.isnan(found):
            raise MalformedKey('JSON has no NaN; write "NaN"')
        case Floating(width), float() if math.isinf(found):
            high = FLOAT_MAX[width]
            raise ValueOutOfRange('a number (not "Infinity", "-Infinity")', found, -high, high)
        case Decimal(), _:
            value = _decimal(found)
        case Date(), str():
            value = _date(found)
        case Binary(), _:
            value = from_hex(text(as_document(found, "a binary value"), "hex"))
        case ((Struct() | Array()), _):
            value = _nested(type_, found)
    return value


def to_json(value: Value | None) -> object:
    """The JSON form of a value, a decimal with all the digits of its scale."""
    match value:
        case float() if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        case decimal.Decimal():
            return f"{value:f}"
        case datetime.date():
            return value.isoformat()
        case bytes():
            return {"hex": value.hex()}
        case tuple():
            return [to_json(inner) for inner in value]
        case _:
            return value


def from_hex(digits: str) -> bytes:
    """The bytes of a text of two hexadecimal digits each, nothing between them."""
    # fromhex() skips spaces.
    if not re.fullmatch(r"(?:[0-9a-fA-F]{2})*", digits):
        raise MalformedKey(f"{shown(digits)} is no hexadecimal text; write two digits for each byte")
    return bytes.fromhex(digits)


def _nested(type_: Struct | Array, found: object) -> list[object]:
    if not isinstance(found, list):
        raise MalformedKey(f"a struct or an array is a JSON array of its values, not {shown(found)}")
    if isinstance(type_, Array):
        return [from_json(type_.element, inner) for inner in found]
    if len(found) != len(type_.fields):
        problem = f"a struct of {len(type_.fields)} fields cannot have {len(found)} values"
        raise MalformedKey(f"{problem}; pass one for each, null for NULL")
    return [from_json(field.type, inner) for field, inner in zip(type_.fields, found, strict=True)]


def _decimal(found: object) -> decimal.Decimal:
    # Decimal() takes exponents of any size, underscores and the digits of every script.
    if isinstance(found, str) and re.fullmatch(r"[+-]?[0-9]+(?:\.[0-9]+)?", found):
        return decimal.Decimal(found)
    raise MalformedKey(f'{shown(found)} is no decimal; write it as a string of digits, "-12.50"')


def _date(written: str) -> datetime.date:
    # fromisoformat() takes week dates and digits without dashes as well.
    if re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", written):
        with contextlib.suppress(ValueError):
            return datetime.date.fromisoformat(written)
    raise MalformedKey(f"{shown(written)} is no date of the years 0001 to 9999; write it as 2013-01-31")
