"""H: XXH64 with Spark's semantics over canonical columns, as one Python value.

The columnar forms of the same H are `storage_keys.arrow` and `storage_keys.spark`; the three agree on
every value.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from xxhash import xxh64_intdigest

from storage_keys.types import Binary, Boolean, Date, Integer, KeyType, String, Timestamp
from storage_keys.value import Canonical, canonical

SEED: Final = 42


def hash_id(types: Sequence[KeyType]) -> str:
    """Identity of H over columns of `types`: equal ids place equal rows alike.

    It names classes, not types, so widening a column (int to bigint) keeps it.
    """
    return "xxh64-1:" + ",".join(_class_of(type_) for type_ in types)


def hash_row(types: Sequence[KeyType], values: Sequence[object]) -> int:
    """H of one row, one value for each type, as a signed 64-bit integer; of no columns: 42."""
    pairs = zip(types, values, strict=True)
    return hash_canonical(None if value is None else canonical(type_, value) for type_, value in pairs)


def hash_canonical(values: Iterable[Canonical | None]) -> int:
    """`hash_row` of values that are in their canonical form already."""
    state = SEED
    for value in values:
        # NULL leaves the hash as it is, as in Spark: (NULL, 'a') and ('a', NULL) share a vnode.
        if value is not None:
            state = xxh64_intdigest(_hashed_bytes(value), state)
    return state - (1 << 64) if state >> 63 else state


def _class_of(type_: KeyType) -> str:
    """The canonical form under which a type is hashed."""
    match type_:
        case Boolean() | Integer() | Date():
            return "i64"
        case Timestamp():
            return "micros"
        case String():
            return "utf8"
        case Binary():
            return "bytes"


def _hashed_bytes(value: Canonical) -> bytes:
    """The bytes that go into XXH64: every integer as 64 bits, little-endian."""
    return value.to_bytes(8, "little", signed=True) if isinstance(value, int) else value
