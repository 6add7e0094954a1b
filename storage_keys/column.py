"""Column bytes: `tag | payload`, whose byte order is the column's order (memcomparable 0.2)."""

import struct
from dataclasses import dataclass
from typing import Final, Literal, get_args

from storage_keys.base100 import decode_decimal, encode_decimal
from storage_keys.errors import MalformedKey, TrailingBytes, Truncated, UnknownTag, shown
from storage_keys.groups import decode_groups, encode_groups
from storage_keys.range import flipped
from storage_keys.types import Array, Binary, Boolean, Decimal, Floating, KeyType, String, Struct
from storage_keys.value import Canonical, SignedType, Value, canonical, restore, rounded, signed_width

_IntegerType = Boolean | SignedType

Nulls = Literal["first", "last"]

_FLOAT_FORMATS: Final = {4: ">f", 8: ">d"}


@dataclass(frozen=True, slots=True)
class Order:
    """A column's sort order. `nulls` left out becomes Spark's default: first ascending, last descending."""

    descending: bool = False
    nulls: Nulls | None = None

    def __post_init__(self) -> None:
        given: tuple[object, object] = self.descending, self.nulls
        if not isinstance(given[0], bool):
            raise MalformedKey(f"'descending' must be true or false, not {shown(given[0])}")
        if given[1] not in (None, *get_args(Nulls)):
            raise MalformedKey(f'\'nulls\' must be "first" or "last", not {shown(given[1])}')
        if self.nulls is None:
            # Filled in, so that orders which are the same are equal values.
            object.__setattr__(self, "nulls", "last" if self.descending else "first")

    @property
    def tags(self) -> tuple[int, int]:
        """The first byte of a value and that of NULL, as stored."""
        if self.descending:
            return (0xFF, 0xFE) if self.nulls == "first" else (0xFE, 0xFF)
        return (0x01, 0x00) if self.nulls == "first" else (0x00, 0x01)


ASCENDING: Final = Order()


def encode_column(type_: KeyType, value: object, order: Order = ASCENDING) -> bytes:
    """The bytes of one column; None is NULL."""
    return encode_canonical(type_, None if value is None else canonical(type_, value), order)


def encode_canonical(type_: KeyType, value: Canonical | None, order: Order = ASCENDING) -> bytes:
    """`encode_column` of a value that is in its canonical form already."""
    value_tag, null_tag = order.tags
    if value is None:
        return bytes((null_tag,))
    payload = _encode_payload(type_, value)
    return bytes((value_tag,)) + (flipped(payload) if order.descending else payload)


def decode_column(type_: KeyType, data: bytes, order: Order = ASCENDING) -> tuple[Value | None, int]:
    """The value of the column at the start of `data`, and how many bytes it takes there.

    Whatever the bytes: a value that encodes to exactly these, or a `StorageKeyError`.
    """
    value, used = decode_canonical(type_, data, order)
    return None if value is None else restore(type_, value), used


def decode_canonical(type_: KeyType, data: bytes, order: Order = ASCENDING) -> tuple[Canonical | None, int]:
    """`decode_column` without `restore`: takes also days beyond Python's dates and strings that are not UTF-8."""
    value_tag, null_tag = order.tags
    if not data:
        raise Truncated(1, 0)
    if data[0] == null_tag:
        return None, 1
    if data[0] != value_tag:
        raise UnknownTag(data[0], value_tag, null_tag)
    return _decode_payload(type_, flipped(data) if order.descending else data, 1)


def decode_whole(type_: KeyType, data: bytes, order: Order = ASCENDING) -> Value | None:
    """The value of a column that is all of `data`."""
    value, used = decode_column(type_, data, order)
    if used < len(data):
        raise TrailingBytes(used, len(data))
    return value


def _encode_payload(type_: KeyType, value: Canonical) -> bytes:
    match type_, value:
        case ((String() | Binary()), bytes()):
            return encode_groups(value)
        case Floating(width), float():
            return _encode_float(width, value)
        case Decimal(), int():
            return encode_decimal(value, type_.scale)
        case ((Struct() | Array()), tuple()):
            return _encode_nested(type_, value)
    assert isinstance(type_, _IntegerType), type_
    assert isinstance(value, int), (type_, value)
    return _encode_integer(type_, value)


def _encode_nested(type_: Struct | Array, values: tuple[Canonical | None, ...]) -> bytes:
    # What is nested has the tags of ASCENDING; the column's order flips them with all the rest.
    if isinstance(type_, Array):
        return encode_groups(b"".join([encode_canonical(type_.element, value) for value in values]))
    pairs = zip(type_.fields, values, strict=True)
    return b"".join([encode_canonical(field.type, value) for field, value in pairs])


def _decode_payload(type_: KeyType, data: bytes, start: int) -> tuple[Canonical, int]:
    """The value whose payload, in its ascending form, begins at `start`, and where it ends."""
    match type_:
        case String() | Binary():
            return decode_groups(data, start)
        case Floating():
            return _decode_float(type_.width, data, start)
        case Decimal():
            return decode_decimal(type_, data, start)
        case Struct():
            return _decode_fields(type_, data, start)
        case Array():
            joined, end = decode_groups(data, start)
            return _decode_elements(type_.element, joined), end
        case _:
            return _decode_integer(type_, data, start)


def _decode_fields(type_: Struct, data: bytes, start: int) -> tuple[Canonical, int]:
    values = []
    for field in type_.fields:
        value, start = _decode_nested(field.type, data, start)
        values.append(value)
    return tuple(values), start


def _decode_elements(type_: KeyType, joined: bytes) -> Canonical:
    values, start = [], 0
    try:
        while start < len(joined):
            value, start = _decode_nested(type_, joined, start)
            values.append(value)
    except Truncated as error:
        # The array's own bytes are all there: more of the key would not help.
        raise MalformedKey(f"an array ends within an element ({error}); check the column's type") from None
    return tuple(values)


def _decode_nested(type_: KeyType, data: bytes, start: int) -> tuple[Canonical | None, int]:
    value_tag, null_tag = ASCENDING.tags
    if start >= len(data):
        raise Truncated(start + 1, len(data))
    if data[start] == null_tag:
        return None, start + 1
    if data[start] != value_tag:
        raise UnknownTag(data[start], value_tag, null_tag)
    return _decode_payload(type_, data, start + 1)


def _encode_integer(type_: _IntegerType, value: int) -> bytes:
    if isinstance(type_, Boolean):
        return bytes((value,))
    width = signed_width(type_)
    # Flipping the sign bit is adding 2**(bits - 1): the smallest integer becomes all zeros.
    return (value + (1 << (8 * width - 1))).to_bytes(width, "big")


def _decode_integer(type_: _IntegerType, data: bytes, start: int) -> tuple[int, int]:
    if isinstance(type_, Boolean):
        (truth,) = _taken(data, start, 1)
        if truth > 1:
            raise MalformedKey(f"a boolean is 00 or 01, not {truth:02x}; check the column's type and order")
        return truth, start + 1
    width = signed_width(type_)
    return int.from_bytes(_taken(data, start, width), "big") - (1 << (8 * width - 1)), start + width


def _encode_float(width: int, value: float) -> bytes:
    bits = struct.pack(_FLOAT_FORMATS[width], value)
    # A negative number is the larger the smaller its other bits are.
    return flipped(bits) if bits[0] & 0x80 else bytes((bits[0] | 0x80,)) + bits[1:]


def _decode_float(width: int, data: bytes, start: int) -> tuple[float, int]:
    payload = _taken(data, start, width)
    bits = bytes((payload[0] & 0x7F,)) + payload[1:] if payload[0] & 0x80 else flipped(payload)
    value = rounded(struct.unpack(_FLOAT_FORMATS[width], bits)[0], width)
    if _encode_float(width, value) != payload:
        raise MalformedKey(
            f"a key holds one NaN and no -0.0, but {payload.hex()} is another; "
            "was it written by other means? Check the column's type and order"
        )
    return value, start + width


def _taken(data: bytes, start: int, width: int) -> bytes:
    if len(data) < start + width:
        raise Truncated(start + width, len(data))
    return data[start : start + width]
