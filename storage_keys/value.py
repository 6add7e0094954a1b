"""A column's Python value, and the canonical value that its hash and its key bytes both start from."""

import datetime
from typing import Final

from storage_keys.errors import MalformedKey, ValueOutOfRange, shown
from storage_keys.types import Binary, Boolean, Date, Integer, KeyType, String, Timestamp

Value = bool | int | datetime.date | str | bytes
"""boolean: bool; integers: int; date: date; timestamp: int, microseconds; string: str; binary: bytes."""

Canonical = int | bytes
"""0 or 1, the integer, days or microseconds; a string's UTF-8, a binary's bytes."""

_EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = datetime.date.min.toordinal() - _EPOCH_ORDINAL
_LAST_DAY: Final = datetime.date.max.toordinal() - _EPOCH_ORDINAL


def canonical(type_: KeyType, value: object) -> Canonical:
    """The canonical form of a value that is not NULL; what is no `Value` of the type is refused."""
    match type_, value:
        case Boolean(), bool():
            return int(value)
        case ((Integer() | Timestamp()), int()) if not isinstance(value, bool):
            return _bounded(type_, value)
        case Date(), datetime.date() if not isinstance(value, datetime.datetime):
            return value.toordinal() - _EPOCH_ORDINAL
        case String(), str():
            return _utf8(value)
        case Binary(), bytes() | bytearray():
            return bytes(value)
    raise MalformedKey(f"{shown(value)} is no value of type {type_.sql_name}; pass {_WANTED[type(type_)]}")


def restore(type_: KeyType, value: Canonical) -> Value:
    """The inverse of `canonical`; the integer must fit the type's width."""
    match type_, value:
        case Boolean(), int():
            return bool(value)
        case ((Integer() | Timestamp()), int()):
            return value
        case Date(), int():
            if not _FIRST_DAY <= value <= _LAST_DAY:
                # Spark holds such days, Python's date does not.
                raise ValueOutOfRange("a date, in days since 1970-01-01,", value, _FIRST_DAY, _LAST_DAY)
            return datetime.date.fromordinal(value + _EPOCH_ORDINAL)
        case String(), bytes():
            return _text(value)
        case Binary(), bytes():
            return value
    raise AssertionError((type_, value))


def _bounded(type_: Integer | Timestamp, value: int) -> int:
    width = type_.width if isinstance(type_, Integer) else 8
    high = (1 << (8 * width - 1)) - 1
    if not -high - 1 <= value <= high:
        raise ValueOutOfRange(f"a {type_.sql_name}", value, -high - 1, high)
    return value


def _utf8(text: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        problem = (
            f"the string has a lone surrogate at index {error.start}, which UTF-8 cannot hold; remove it"
        )
        raise MalformedKey(problem) from None


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        problem = f"the string is not UTF-8 from byte {error.start} on; was it written as binary?"
        raise MalformedKey(problem) from None


_WANTED: Final[dict[type[KeyType], str]] = {
    Boolean: "True or False",
    Integer: "an integer",
    Date: "a date",
    Timestamp: "an integer, microseconds since 1970-01-01T00:00:00Z",
    String: "a string",
    Binary: "bytes",
}
