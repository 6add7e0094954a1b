"""H: XXH64 with Spark's semantics over canonical columns, as one Python value.

The columnar forms of the same H are `storage_keys.arrow` and `storage_keys.spark`; the three agree on
every value.
"""

import struct
from collections.abc import Iterable, Sequence
from typing import Final

from xxhash import xxh64_intdigest

from storage_keys.errors import UnsupportedType
from storage_keys.types import (
    FLAT_TYPE_NAMES,
    LONG_DIGITS_MAX,
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
from storage_keys.value import Canonical, canonical

SEED: Final = 42


def hash_id(types: Sequence[KeyType]) -> str:
    """Identity of H over columns of `types`: equal ids place equal rows alike. Refuses what `hash_class` refuses.

    It names classes, not types, so widening a column (int to bigint) keeps it.
    """
    return "xxh64-1:" + ",".join(hash_class(type_) for type_ in types)


def hash_class(type_: KeyType) -> str:
    """The name of the form under which H takes a type. Raises `UnsupportedType` for a struct and an array."""
    match type_:
        case Boolean() | Integer() | Date():
            name = "i64"
        case Timestamp() | TimestampNtz():
            name = "micros"
        case DayTimeInterval():
            name = "interval-micros"
        case YearMonthInterval():
            name = "interval-months"
        case Floating():
            name = "f64"
        case Decimal(precision, scale):
            name = f"dec64.{scale}" if precision <= LONG_DIGITS_MAX else f"dec128.{scale}"
        case String():
            name = "utf8"
        case Binary():
            name = "bytes"
        case Struct() | Array():
            raise UnsupportedType(type_.sql_name, FLAT_TYPE_NAMES, "a distribution column")
    return name


def hash_row(types: Sequence[KeyType], values: Sequence[object]) -> int:
    """H of one row, one value for each type, as a signed 64-bit integer; of no columns: 42.

    Refuses what `hash_class` refuses.
    """
    for type_ in types:
        # Also where the value is NULL, which no hash would see.
        hash_class(type_)
    pairs = zip(types, values, strict=True)
    return hash_canonical(
        types, [None if value is None else canonical(type_, value) for type_, value in pairs]
    )


def hash_canonical(types: Sequence[KeyType], values: Iterable[Canonical | None]) -> int:
    """`hash_row` of values that are in their canonical form already, and of types that have a class."""
    state = SEED
    for type_, value in zip(types, values, strict=True):
        # NULL leaves the hash as it is, as in Spark: (NULL, 'a') and ('a', NULL) share a vnode.
        if value is not None:
            state = xxh64_intdigest(_hashed_bytes(type_, value), state)
    return state - (1 << 64) if state >> 63 else state


def _hashed_bytes(type_: KeyType, value: Canonical) -> bytes:
    """The bytes that go into XXH64: numbers little-endian, large decimals as Java's BigInteger.toByteArray."""
    match value:
        case bytes():
            return value
        case float():
            return struct.pack("<d", value)
        case tuple():
            raise AssertionError(type_)
    if isinstance(type_, Decimal) and type_.precision > LONG_DIGITS_MAX:
        # A byte more than the magnitude needs where its first bit would be taken for the sign.
        magnitude = value if value >= 0 else ~value
        return value.to_bytes(magnitude.bit_length() // 8 + 1, "big", signed=True)
    return value.to_bytes(4 if isinstance(type_, YearMonthInterval) else 8, "little", signed=True)
