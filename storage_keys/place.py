"""Where a value stands among the values of a column, also one that the column cannot hold.

A payload is what follows the tag of a column's bytes in ascending order. Values compare as their payloads do, so
two cuts between payloads are all that a comparison has to know of a value, whatever the type.
"""

import decimal
import math
import operator
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Final

from storage_keys.column import encode_canonical
from storage_keys.range import successor
from storage_keys.types import (
    DECIMAL_DIGITS_MAX,
    DOUBLE,
    Array,
    Binary,
    Boolean,
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
from storage_keys.value import Canonical, SignedType, canonical, rounded, signed_width

# All that a decimal of 38 digits can be compared with to the last digit, exponents of any size included.
_EXACT: Final = decimal.Context(
    prec=4 * DECIMAL_DIGITS_MAX,
    rounding=decimal.ROUND_FLOOR,
    Emin=decimal.MIN_EMIN,
    Emax=decimal.MAX_EMAX,
    traps=[decimal.InvalidOperation],
)

_COUNTED: Final = (Integer, Timestamp, TimestampNtz, YearMonthInterval, DayTimeInterval)
"""The types of which an int of any size is a value; a date is a `datetime.date`."""


@dataclass(frozen=True, slots=True)
class Place:
    """Smaller payloads are those under `below`, larger ones those from `above` on, equal ones those between.

    `b""` is under all payloads and None is over them. Both cuts are the same for a value that the type lacks.
    """

    below: bytes | None
    above: bytes | None


def place(type_: KeyType, value: object) -> Place:
    """The place of a value that is not NULL, also of one that is out of range or has too many digits.

    An integer column compares with a Decimal too, a decimal column with an int, a float column as a double.
    Raises `MalformedKey` for any other value that is none of the type. A struct or an array that the type lacks is
    put below all others, since only whether it is equal can be asked.
    """
    floor, exact = floor_of(type_, value)
    if floor is None:
        return Place(b"", b"")
    above = cut_above(type_, floor)
    return Place(payload(type_, floor) if exact else above, above)


def payload(type_: KeyType, value: Canonical) -> bytes:
    return encode_canonical(type_, value)[1:]


def cut_above(type_: KeyType, value: Canonical) -> bytes | None:
    """Where the payloads of larger values begin; None above the greatest."""
    data = payload(type_, value)
    if data == payload_of_greatest(type_):
        return None
    # The next value there is where that is known, so that nothing is found between the two.
    if isinstance(type_, Decimal) and isinstance(value, int):
        return payload(type_, value + 1)
    if isinstance(type_, Floating) and value == math.inf:
        return payload(type_, math.nan)
    return cut_after(data)


def cut_after(data: bytes) -> bytes | None:
    """The successor of a payload, as long as the payload itself: the next integer's, zeros included."""
    end = successor(data)
    return None if end is None else end.ljust(len(data), b"\0")


@cache
def payload_of_least(type_: KeyType) -> bytes | None:
    """The smallest payload; None for a struct and an array, whose order nobody asks for."""
    match type_:
        case Floating():
            return payload(type_, -math.inf)
        case String() | Binary():
            return payload(type_, b"")
        case Struct() | Array():
            return None
    return payload(type_, _integer_bounds(type_)[0])


@cache
def payload_of_greatest(type_: KeyType) -> bytes | None:
    """The greatest payload; None where each value has another above it, and as for the least."""
    match type_:
        case Floating():
            return payload(type_, math.nan)
        case String() | Binary() | Struct() | Array():
            return None
    return payload(type_, _integer_bounds(type_)[1])


@cache
def _integer_bounds(type_: Boolean | Decimal | SignedType) -> tuple[int, int]:
    """The least and the greatest canonical value of a type where these are integers."""
    match type_:
        case Boolean():
            return 0, 1
        case Decimal():
            return 1 - 10**type_.precision, 10**type_.precision - 1
    half = 1 << (8 * signed_width(type_) - 1)
    return -half, half - 1


def floor_of(type_: KeyType, value: object) -> tuple[Canonical | None, bool]:
    """The greatest value of the type that is not above `value`, and whether it is the same; None: all are above.

    Takes and refuses what `place` does.
    """
    found: tuple[Canonical | None, bool]
    match type_, value:
        case ((Integer() | Decimal()), decimal.Decimal()):
            found = _floor_of_decimal(type_, value)
        case Decimal(), int() | Integral() if not isinstance(value, bool):
            found = _floor_of_decimal(type_, decimal.Decimal(operator.index(value)))
        case _, int() | Integral() if isinstance(type_, _COUNTED) and not isinstance(value, bool):
            found = _clamped(type_, operator.index(value), exact=True)
        case Floating(4), _:
            found = _floor_of_double(value)
        case Struct(), (tuple() | list()) if len(value) == len(type_.fields):
            found = _same_nested([field.type for field in type_.fields], value)
        case Array(), (tuple() | list()):
            found = _same_nested([type_.element] * len(value), value)
        case _:
            found = canonical(type_, value), True
    return found


def _floor_of_decimal(type_: Integer | Decimal, value: decimal.Decimal) -> tuple[int | None, bool]:
    if not value.is_finite():
        # Always refused, and in its words.
        canonical(type_, value)
    if value and value.adjusted() > 2 * DECIMAL_DIGITS_MAX:
        return _clamped(type_, 10 ** (2 * DECIMAL_DIGITS_MAX) * (-1 if value < 0 else 1), exact=False)
    scale = type_.scale if isinstance(type_, Decimal) else 0
    floor = value.quantize(decimal.Decimal((0, (1,), -scale)), context=_EXACT)
    return _clamped(type_, int(floor.scaleb(scale, _EXACT)), exact=floor == value)


def _clamped(type_: Decimal | SignedType, floor: int, *, exact: bool) -> tuple[int | None, bool]:
    least, greatest = _integer_bounds(type_)
    if floor < least:
        return None, False
    return (floor, exact) if floor <= greatest else (greatest, False)


def _floor_of_double(value: object) -> tuple[float, bool]:
    """The greatest 32-bit float that is not above a double."""
    double = canonical(DOUBLE, value)
    assert isinstance(double, float)
    try:
        nearest = rounded(double, 4)
    except OverflowError:
        nearest = math.copysign(math.inf, double)
    if nearest <= double or math.isnan(double):
        return nearest, not nearest < double
    bits: int = struct.unpack(">I", struct.pack(">f", nearest))[0]
    # The bits of a negative float count its distance from zero, and -0.0 is not among the values.
    below = 0x80000001 if nearest == 0 else bits - 1 if nearest > 0 else bits + 1
    return rounded(struct.unpack(">f", struct.pack(">I", below))[0], 4), False


def _same_nested(types: Sequence[KeyType], values: Sequence[object]) -> tuple[Canonical | None, bool]:
    found: list[Canonical | None] = []
    for type_, value in zip(types, values, strict=True):
        inner, exact = (None, True) if value is None else floor_of(type_, value)
        if not exact:
            return None, False
        found.append(inner)
    return tuple(found), True
