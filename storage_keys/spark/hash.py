"""H, vnode prefixes and vnodes as Spark Columns."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from storage_keys.hash import SEED, hash_class
from storage_keys.types import Boolean, Date, Floating, Integer, KeyType
from storage_keys.vnode import PREFIX_BITS, check_vnode_count

_HASH_BITS: Final = 64


def hash_column(types: Sequence[KeyType], columns: Sequence[Column]) -> Column:
    """H as a bigint Column, never NULL. The columns must be of `types`; `types_of` gives them.

    Raises `UnsupportedType` for a struct and an array.
    """
    for type_ in types:
        hash_class(type_)
    if not columns:
        return sf.lit(SEED).cast("bigint")
    return sf.xxhash64(*(_hashed(type_, column) for type_, column in zip(types, columns, strict=True)))


def prefix_column(types: Sequence[KeyType], columns: Sequence[Column]) -> Column:
    """The vnode prefix, 0..65535, as an int Column."""
    return _top_bits(hash_column(types, columns), PREFIX_BITS).cast("int")


def vnode_column(types: Sequence[KeyType], columns: Sequence[Column], vnode_count: int) -> Column:
    """The vnode, 0..vnode_count - 1, as an int Column."""
    check_vnode_count(vnode_count)
    hashed = hash_column(types, columns)
    bits = vnode_count.bit_length() - 1
    if vnode_count == 1 << bits:
        # The same as below, at a cost that a shuffle does not show. A shift by 64 would be one by 0.
        return _top_bits(hashed, bits).cast("int") if bits else sf.lit(0)
    # Still a bigint: 65,535 * 65,536 overflows an int, which is an error under ANSI.
    return sf.shiftright(_top_bits(hashed, PREFIX_BITS) * vnode_count, PREFIX_BITS).cast("int")


def _top_bits(hashed: Column, bits: int) -> Column:
    return sf.shiftrightunsigned(hashed, _HASH_BITS - bits)


def _hashed(type_: KeyType, column: Column) -> Column:
    """The column in a Spark type that xxhash64 takes in the form of the type's hash class."""
    match type_:
        case Boolean() | Integer():
            return column.cast("bigint")
        case Floating():
            return column.cast("double")
        case Date():
            return sf.unix_date(column).cast("bigint")
        case _:
            # Timestamps and day-time intervals are longs to xxhash64, months an int, decimals as their class says.
            return column
