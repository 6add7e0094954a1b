"""Column bytes: `tag | payload`, whose byte order is the column's order (memcomparable 0.2)."""

from dataclasses import dataclass
from typing import Final, Literal

from storage_keys.errors import MalformedKey, TrailingBytes, Truncated, UnknownTag
from storage_keys.types import Binary, Boolean, Date, Integer, KeyType, String, Timestamp
from storage_keys.value import Canonical, Value, canonical, restore

_FLIPPED: Final = bytes(range(255, -1, -1))
_GROUP: Final = 8
_MORE: Final = 9


@dataclass(frozen=True, slots=True)
class Order:
    """A column's sort order. `nulls` left out becomes Spark's default: first ascending, last descending."""

    descending: bool = False
    nulls: Literal["first", "last"] | None = None

    def __post_init__(self) -> None:
        if self.nulls is None:
            # Filled in, so that orders which are the same are equal values.
            object.__setattr__(self, "nulls", "last" if self.descending else "first")

    @property
    def tags(self) -> tuple[int, int]:
        """The first byte of a value and that of NULL, as stored."""
        null_is_smallest = (self.nulls == "first") != self.descending
        value, null = (1, 0) if null_is_smallest else (0, 1)
        return (255 - value, 255 - null) if self.descending else (value, null)


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
    return bytes((value_tag,)) + (payload.translate(_FLIPPED) if order.descending else payload)


def decode_column(type_: KeyType, data: bytes, order: Order = ASCENDING) -> tuple[Value | None, int]:
    """The value of the column at the start of `data`, and how many bytes it takes there."""
    value_tag, null_tag = order.tags
    if not data:
        raise Truncated(1, 0)
    if data[0] == null_tag:
        return None, 1
    if data[0] != value_tag:
        raise UnknownTag(data[0], value_tag, null_tag)
    payload = data[1:].translate(_FLIPPED) if order.descending else data[1:]
    value, used = _decode_payload(type_, payload)
    return restore(type_, value), 1 + used


def decode_whole(type_: KeyType, data: bytes, order: Order = ASCENDING) -> Value | None:
    """The value of a column that is all of `data`."""
    value, used = decode_column(type_, data, order)
    if used < len(data):
        raise TrailingBytes(used, len(data))
    return value


def _encode_payload(type_: KeyType, value: Canonical) -> bytes:
    if isinstance(value, bytes):
        return _encode_groups(value)
    if isinstance(type_, Boolean):
        return bytes((value,))
    width = _integer_width(type_)
    # Flipping the sign bit is adding 2**(bits - 1): the smallest integer becomes all zeros.
    return (value + (1 << (8 * width - 1))).to_bytes(width, "big")


def _decode_payload(type_: KeyType, data: bytes) -> tuple[Canonical, int]:
    if isinstance(type_, String | Binary):
        return _decode_groups(data)
    width = _integer_width(type_)
    if len(data) < width:
        raise Truncated(1 + width, 1 + len(data))
    unsigned = int.from_bytes(data[:width], "big")
    if not isinstance(type_, Boolean):
        return unsigned - (1 << (8 * width - 1)), width
    if unsigned > 1:
        raise MalformedKey(f"a boolean is 00 or 01, not {unsigned:02x}; check the column's type and order")
    return unsigned, width


def _integer_width(type_: KeyType) -> int:
    match type_:
        case Boolean():
            return 1
        case Integer():
            return type_.width
        case Date():
            return 4
        case Timestamp():
            return 8
    raise AssertionError(type_)


def _encode_groups(data: bytes) -> bytes:
    if not data:
        return b"\x00"
    # The last group is never empty: 8 bytes are one group of marker 8, not a full one and an empty one.
    last = (len(data) - 1) // _GROUP * _GROUP
    parts = [b"\x01"]
    for start in range(0, last, _GROUP):
        parts += (data[start : start + _GROUP], b"\x09")
    tail = data[last:]
    parts += (tail.ljust(_GROUP, b"\x00"), bytes((len(tail),)))
    return b"".join(parts)


def _decode_groups(data: bytes) -> tuple[bytes, int]:
    if not data:
        raise Truncated(2, 1)
    if data[0] == 0:
        return b"", 1
    if data[0] != 1:
        raise MalformedKey(
            f"a string or binary starts with 00 or 01, not {data[0]:02x}; check type and order"
        )
    parts = []
    position = 1
    while True:
        group, position = data[position : position + _GROUP + 1], position + _GROUP + 1
        if len(group) <= _GROUP:
            raise Truncated(1 + position, 1 + len(data))
        marker = group[_GROUP]
        # Anything but zeros in the padding would give one value two encodings.
        if not 1 <= marker <= _MORE or any(group[marker:_GROUP]):
            raise MalformedKey(
                f"no group of 8 bytes and a marker ends at byte {position}; check type and order"
            )
        parts.append(group[: min(marker, _GROUP)])
        if marker != _MORE:
            return b"".join(parts), position
