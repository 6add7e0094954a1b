"""H, prefixes and vnodes of whole Arrow columns."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_keys.arrow.canonical import blocks, canonical, floats, halves, words
from storage_keys.arrow.span import Spans, padded
from storage_keys.arrow.xxh64 import Words, hash_spans, hash_words
from storage_keys.errors import MalformedKey
from storage_keys.hash import SEED, hash_class
from storage_keys.types import (
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
from storage_keys.vnode import PREFIX_BITS, check_vnode_count

_SEED: Final = np.array(SEED, dtype=np.uint64)


def hash_columns(types: Sequence[KeyType], columns: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """H of each row as `hash_row` gives it; one array for each type, chunked or not, at least one."""
    hashes = np.empty(_row_count(types, columns), np.int64)
    for start, block in _blocks(types, columns, len(hashes)):
        found = hash_block(types, block, whole=True)
        hashes[start : start + len(found)] = found.view(np.int64)
    return hashes


def prefixes(types: Sequence[KeyType], columns: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """The vnode prefix of each row, 0..65535."""
    return vnodes(types, columns, 1 << PREFIX_BITS)


def vnodes(types: Sequence[KeyType], columns: Sequence[pa.Array], vnode_count: int) -> npt.NDArray[np.int32]:
    """The vnode of each row, 0..vnode_count - 1."""
    check_vnode_count(vnode_count)
    found = np.empty(_row_count(types, columns), np.int32)
    for start, block in _blocks(types, columns, len(found)):
        hashes = hash_block(types, block, whole=False)
        found[start : start + len(hashes)] = _vnodes_of(hashes, vnode_count)
    return found


def hash_block(types: Sequence[KeyType], block: Sequence[pa.Array], *, whole: bool) -> Words:
    """H of canonical columns, of none the seed alone; without `whole`, its top half alone is right."""
    state, last = _SEED, len(block) - 1
    for at, (type_, column) in enumerate(zip(types, block, strict=True)):
        state = _chain(type_, column, state, whole or at < last)
    return state


def _blocks(
    types: Sequence[KeyType], columns: Sequence[pa.Array], row_count: int
) -> Iterator[tuple[int, list[pa.Array]]]:
    for start, block in blocks(columns, row_count):
        yield start, [canonical(type_, column) for type_, column in zip(types, block, strict=True)]


def _row_count(types: Sequence[KeyType], columns: Sequence[pa.Array]) -> int:
    for type_ in types:
        hash_class(type_)
    if len(types) != len(columns):
        raise MalformedKey(
            f"{len(types)} types cannot have {len(columns)} columns; pass one array for each type"
        )
    if not columns:
        raise MalformedKey("without a column the number of rows is unknown; H of no columns is 42")
    rows = len(columns[0])
    for column in columns:
        if len(column) != rows:
            raise MalformedKey(f"columns of {rows} and of {len(column)} rows do not make a table")
    return rows


def _vnodes_of(hashes: Words, vnode_count: int) -> Words:
    """The vnodes; `hashes` is used up."""
    bits = vnode_count.bit_length() - 1
    if 1 < vnode_count == 1 << bits:
        return np.right_shift(hashes, np.uint64(64 - bits), hashes)
    np.right_shift(hashes, np.uint64(64 - PREFIX_BITS), hashes)
    np.multiply(hashes, np.uint64(vnode_count), hashes)
    return np.right_shift(hashes, np.uint64(PREFIX_BITS), hashes)


def _chain(type_: KeyType, column: pa.Array, state: Words, whole: bool) -> Words:
    """The hashes after one more column; a NULL leaves the hash as it is."""
    if not column.null_count:
        return _hashed(type_, column, state, whole)
    states = np.full(len(column), state) if state.ndim == 0 else state.copy()
    valid = np.asarray(column.is_valid())
    states[valid] = _hashed(type_, column.drop_null(), states[valid], whole)
    return states


def _hashed(type_: KeyType, column: pa.Array, seeds: Words, whole: bool) -> Words:
    match type_:
        case Boolean():
            found = words(column, "u1").astype(np.uint64)
        case Integer() | Date():
            found = words(column, f"i{column.type.bit_width // 8}").astype(np.int64, copy=False)
        case Timestamp() | TimestampNtz() | DayTimeInterval():
            found = words(column, "i8")
        case Floating():
            found = floats(column).astype(np.float64, copy=False)
        case Decimal(precision) if precision <= LONG_DIGITS_MAX:
            found = halves(column)[0]
        case _:
            every = np.full(len(column), seeds) if seeds.ndim == 0 else seeds
            return hash_spans(_spans(type_, column), every, whole)
    return hash_words(found.view(np.uint64), seeds, whole)


def _spans(type_: KeyType, column: pa.Array) -> Spans:
    match type_:
        case YearMonthInterval():
            data = padded(words(column, "u1"))
            return Spans(data, np.arange(0, 4 * len(column), 4), np.full(len(column), 4))
        case Decimal():
            return _minimal(*halves(column))
        case String() | Binary():
            return Spans.of(column)
    assert not isinstance(type_, Struct | Array), type_
    raise AssertionError(type_)


def _minimal(low: Words, high: Words) -> Spans:
    """The two's complement of each row as Java's BigInteger.toByteArray gives it: big-endian, no byte too many."""
    data = np.empty((len(low), 2), ">u8")
    data[:, 0], data[:, 1] = high, low
    sign = -(high >> np.uint64(63))
    low, high = low ^ sign, high ^ sign
    lengths = np.ones(len(low), np.int64)
    for bits in range(7, 64, 8):
        # One byte more where the first bit would be taken for the sign.
        lengths += (high != 0) | (low >> np.uint64(bits) != 0)
        lengths += high >> np.uint64(bits) != 0
    ends = np.arange(16, 16 * len(low) + 16, 16)
    return Spans(padded(data.view(np.uint8).reshape(-1)), ends - lengths, lengths)
