"""A column's Python value, and the canonical value that its hash and its key bytes both start from."""

import datetime
import decimal
import math
import operator
import struct
from collections.abc import Sequence
from numbers import Integral
from typing import Final

from storage_keys.errors import MalformedKey, ValueOutOfRange, shown
from storage_keys.types import (
    DECIMAL_DIGITS_MAX,
    Array,
    Binary,
    Boolean,
    Date,
    DayTimeInterval,
    Decimal,
    Floating,
    Integer,
    KeyType,
    String,
    Struct,
    Timestamp,
    TimestampNtz,
    YearMonthInterval,
)

Value = bool | int | float | decimal.Decimal | datetime.date | str | bytes | tuple["Value | None", ...]
"""boolean: bool; integers: int; float, double: float; decimal: Decimal; date: date; timestamps: int, microseconds;
intervals: int, months or microseconds; string: str; binary: bytes; struct: a tuple with one value for each field;
array: a tuple of values. None is NULL, also inside a struct and an array."""

Canonical = int | float | bytes | tuple["Canonical | None", ...]
"""boolean: 0 or 1; float, double: a float of the type's width with one NaN and no -0.0; decimal: the unscaled integer
at the type's scale; date: days; timestamps and intervals: the integer; string: UTF-8; struct, array: a tuple."""

SignedType = Integer | Date | Timestamp | TimestampNtz | YearMonthInterval | DayTimeInterval
"""The types whose canonical value is any integer of `signed_width` bytes."""

_EPOCH_ORDINAL: Final = datetime.date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = datetime.date.min.toordinal() - _EPOCH_ORDINAL
_LAST_DAY: Final = datetime.date.max.toordinal() - _EPOCH_ORDINAL

FLOAT_MAX: Final = {4: math.ldexp(2 - 2**-23, 127), 8: math.ldexp(2 - 2**-52, 1023)}
"""The largest finite float of so many bytes."""

_EXACT: Final = decimal.Context(prec=DECIMAL_DIGITS_MAX, traps=[decimal.Inexact, decimal.InvalidOperation])


def canonical(type_: KeyType, value: object) -> Canonical:
    """The canonical form of a value that is not NULL; what is no `Value` of the type is refused.

    Taken as well: a list for a tuple, a bytearray for bytes, an integer of numpy's for an int, and for a float an int
    that it can hold exactly.
    A `float` is rounded to its 32 bits, as Spark's cast does; what would round to infinity is refused.
    """
    found: Canonical
    match type_, value:
        case (
            (Integer() | Timestamp() | TimestampNtz() | YearMonthInterval() | DayTimeInterval()),
            int() | Integral(),
        ) if not isinstance(value, bool):
            found = _bounded(type_, operator.index(value))
        case Boolean(), bool():
            found = int(value)
        case Floating(), float() | int() if not isinstance(value, bool):
            found = _rounded(type_, value)
        case Decimal(), decimal.Decimal():
            found = _unscaled(type_, value)
        case Date(), datetime.date() if not isinstance(value, datetime.datetime):
            found = value.toordinal() - _EPOCH_ORDINAL
        case String(), str():
            found = _utf8(value)
        case Binary(), bytes() | bytearray():
            found = bytes(value)
        case ((Struct() | Array()), tuple() | list()):
            found = _nested(type_, value)
        case _:
            wanted = _WANTED[type(type_)]
            raise MalformedKey(f"{shown(value)} is no value of type {shown(type_.sql_name)}; pass {wanted}")
    return found


def restore(type_: KeyType, value: Canonical) -> Value:
    """The inverse of `canonical`. A decimal comes back at the type's scale.

    Raises `ValueOutOfRange` for a day that Python's date does not have, `MalformedKey` for a string's bytes that
    are not UTF-8; both may be in a key that Spark wrote.
    """
    match type_, value:
        case Boolean(), int():
            return bool(value)
        case Decimal(), int():
            return decimal.Decimal(value).scaleb(-type_.scale, _EXACT)
        case Date(), int():
            return _date(value)
        case String(), bytes():
            return _text(value)
        case ((Struct() | Array()), tuple()):
            types = _inner_types(type_, len(value))
            pairs = zip(types, value, strict=True)
            return tuple(None if inner is None else restore(of, inner) for of, inner in pairs)
    assert not isinstance(value, tuple)
    return value


def signed_width(type_: SignedType) -> int:
    """Bytes of the signed integer that is the type's canonical value."""
    match type_:
        case Integer():
            return type_.width
        case Date() | YearMonthInterval():
            return 4
        case Timestamp() | TimestampNtz() | DayTimeInterval():
            return 8


def rounded(value: float, width: int) -> float:
    """The nearest float of `width` bytes, as the one NaN and without -0.0. Raises OverflowError."""
    if math.isnan(value):
        return math.nan
    single: float = struct.unpack(">f", struct.pack(">f", value))[0] if width == 4 else value
    return single + 0.0


def _bounded(type_: SignedType, value: int) -> int:
    high = (1 << (8 * signed_width(type_) - 1)) - 1
    if not -high - 1 <= value <= high:
        raise ValueOutOfRange(f"a value of type {type_.sql_name}", value, -high - 1, high)
    return value


def _rounded(type_: Floating, value: float) -> float:
    try:
        found = rounded(float(value), type_.width)
    except OverflowError:
        high = FLOAT_MAX[type_.width]
        raise ValueOutOfRange(f"a value of type {type_.sql_name}", value, -high, high) from None
    if isinstance(value, int) and found != value:
        raise MalformedKey(f"no {type_.sql_name} is exactly {shown(value)}; pass the float that is meant")
    return found


def _unscaled(type_: Decimal, value: decimal.Decimal) -> int:
    if not value.is_finite():
        raise MalformedKey(f"a decimal cannot be {shown(value)}; use a double, or NULL")
    high = 10**type_.precision - 1
    try:
        aligned = value.quantize(decimal.Decimal(1).scaleb(-type_.scale, _EXACT), context=_EXACT)
        unscaled = int(aligned.scaleb(type_.scale, _EXACT))
    except decimal.Inexact:
        problem = f"{shown(value)} has more than {type_.scale} digits after the point; round it first"
        raise MalformedKey(problem) from None
    except decimal.InvalidOperation:
        unscaled = high + 1
    if abs(unscaled) > high:
        # Not `-most`, which rounds by the caller's context.
        least, most = (decimal.Decimal(end).scaleb(-type_.scale, _EXACT) for end in (-high, high))
        raise ValueOutOfRange(f"a value of type {type_.sql_name}", value, least, most)
    return unscaled


def _nested(type_: Struct | Array, values: Sequence[object]) -> tuple[Canonical | None, ...]:
    types = _inner_types(type_, len(values))
    if len(types) != len(values):
        raise MalformedKey(
            f"a struct of {len(types)} fields cannot have {len(values)} values; pass one for each"
        )
    pairs = zip(types, values, strict=True)
    return tuple(None if value is None else canonical(of, value) for of, value in pairs)


def _inner_types(type_: Struct | Array, count: int) -> tuple[KeyType, ...]:
    return (type_.element,) * count if isinstance(type_, Array) else tuple(of.type for of in type_.fields)


def _date(day: int) -> datetime.date:
    if not _FIRST_DAY <= day <= _LAST_DAY:
        # Spark holds such days, Python's date does not.
        raise ValueOutOfRange("a date, in days since 1970-01-01,", day, _FIRST_DAY, _LAST_DAY)
    return datetime.date.fromordinal(day + _EPOCH_ORDINAL)


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
    Floating: "a float",
    Decimal: "a decimal.Decimal",
    Date: "a date",
    Timestamp: "an integer, microseconds since 1970-01-01T00:00:00Z",
    TimestampNtz: "an integer, microseconds since 1970-01-01T00:00:00 of the same clock",
    YearMonthInterval: "an integer, months",
    DayTimeInterval: "an integer, microseconds",
    String: "a string",
    Binary: "bytes",
    Struct: "a tuple with one value for each field",
    Array: "a tuple of values",
}
