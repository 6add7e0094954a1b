"""H, vnodes and storage keys of whole Arrow columns."""

from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from xxhash import xxh64_intdigest

from storage_keys.column import encode_canonical
from storage_keys.errors import MalformedKey, StorageKeyError
from storage_keys.hash import SEED
from storage_keys.key import KeyColumn, KeySchema, check_key_bytes
from storage_keys.range import table_bytes
from storage_keys.types import Binary, Boolean, Date, Integer, KeyType, String, Timestamp
from storage_keys.vnode import PREFIX_BITS, check_vnode_count

_U64 = npt.NDArray[np.uint64]

_P1: Final = np.uint64(0x9E3779B185EBCA87)
_P2: Final = np.uint64(0xC2B2AE3D27D4EB4F)
_P3: Final = np.uint64(0x165667B19E3779F9)
_P4: Final = np.uint64(0x85EBCA77C2B2AE63)
_P5_PLUS_LENGTH: Final = np.uint64(0x27D4EB2F165667C5 + 8)

# Three arrays of this many hashes stay in a core's second-level cache.
_BLOCK: Final = 1 << 14


def hash_columns(types: Sequence[KeyType], arrays: Sequence[pa.Array]) -> npt.NDArray[np.int64]:
    """H of each row as `hash_row` gives it; one array for each type, chunked or not, at least one."""
    return _hash(types, arrays).view(np.int64)


def prefixes(types: Sequence[KeyType], arrays: Sequence[pa.Array]) -> npt.NDArray[np.int32]:
    """The vnode prefix of each row, 0..65535."""
    return (_hash(types, arrays) >> (64 - PREFIX_BITS)).astype(np.int32)


def vnodes(types: Sequence[KeyType], arrays: Sequence[pa.Array], vnode_count: int) -> npt.NDArray[np.int32]:
    """The vnode of each row, 0..vnode_count - 1."""
    check_vnode_count(vnode_count)
    hashes = _hash(types, arrays) >> (64 - PREFIX_BITS)
    return (hashes * np.uint64(vnode_count) >> PREFIX_BITS).astype(np.int32)


def storage_keys(schema: KeySchema, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """The storage key of each row, as a binary array. Columns that are not of the key are ignored."""
    arrays = {column.name: _column_of(rows, column) for column in schema.columns}
    parts = [_heads(schema, arrays, rows.num_rows)]
    for column in schema.columns:
        values = arrays[column.name].to_pylist()
        parts.append([encode_canonical(column.type, value, column.order) for value in values])
    keys = [b"".join(row) for row in zip(*parts, strict=True)]
    check_key_bytes(max(map(len, keys), default=0))
    return pa.array(keys, type=pa.binary())


def _heads(schema: KeySchema, arrays: dict[str, pa.Array], row_count: int) -> list[bytes]:
    state = np.full(row_count, SEED, dtype=np.uint64)
    for name in schema.distribution:
        state = _chain(arrays[name], state)
    table = table_bytes(schema.table_id)
    packed = (state >> (64 - PREFIX_BITS)).astype(">u2").tobytes()
    return [table + packed[start : start + 2] for start in range(0, len(packed), 2)]


def _column_of(rows: pa.RecordBatch | pa.Table, column: KeyColumn) -> pa.Array:
    try:
        if rows.schema.names.count(column.name) != 1:
            raise MalformedKey(f"the rows must have it exactly once; they have {rows.schema.names}")
        return _canonical(column.type, rows.column(column.name))
    except StorageKeyError as error:
        raise error.in_column(column.name) from None


def _hash(types: Sequence[KeyType], arrays: Sequence[pa.Array]) -> _U64:
    if not arrays:
        raise MalformedKey("without a column the number of rows is unknown; H of no columns is 42")
    state = np.full(len(arrays[0]), SEED, dtype=np.uint64)
    for type_, array in zip(types, arrays, strict=True):
        if len(array) != len(state):
            raise MalformedKey(f"columns of {len(state)} and of {len(array)} rows do not make a table")
        state = _chain(_canonical(type_, array), state)
    return state


def _chain(array: pa.Array, state: _U64) -> _U64:
    """The hashes after one more column, in its canonical form; a NULL leaves the hash as it is."""
    hashed = _hash_integers(array, state) if pa.types.is_int64(array.type) else _hash_bytes(array, state)
    if array.null_count:
        return np.where(np.asarray(array.is_valid()), hashed, state)
    return hashed


def _hash_integers(array: pa.Array, seeds: _U64) -> _U64:
    # What lies under a NULL is whatever the buffer holds; `_chain` does not look at its hash.
    buffer = array.buffers()[1]
    lanes = np.frombuffer(buffer, np.uint64, len(array), 8 * array.offset) if buffer else seeds[:0]
    hashes = seeds.copy()
    for start in range(0, len(hashes), _BLOCK):
        _hash_lanes(lanes[start : start + _BLOCK].copy(), hashes[start : start + _BLOCK])
    return hashes


def _hash_lanes(lanes: _U64, hashes: _U64) -> None:
    """XXH64 of 8 bytes each, in place: `hashes` comes as the seeds, `lanes` is used up."""
    scratch = np.empty_like(hashes)
    lanes *= _P2
    _rotate_left(lanes, 31, scratch)
    lanes *= _P1
    hashes += _P5_PLUS_LENGTH
    hashes ^= lanes
    _rotate_left(hashes, 27, scratch)
    hashes *= _P1
    hashes += _P4
    for shift, prime in ((33, _P2), (29, _P3)):
        hashes ^= np.right_shift(hashes, shift, out=scratch)
        hashes *= prime
    hashes ^= np.right_shift(hashes, 32, out=scratch)


def _rotate_left(lanes: _U64, bits: int, scratch: _U64) -> None:
    np.left_shift(lanes, bits, out=scratch)
    np.right_shift(lanes, 64 - bits, out=lanes)
    lanes |= scratch


def _hash_bytes(array: pa.Array, seeds: _U64) -> _U64:
    _, offset_buffer, data_buffer = array.buffers()
    if not len(array):
        return seeds
    offsets = np.frombuffer(offset_buffer, np.int64, len(array) + 1, 8 * array.offset).tolist()
    data = memoryview(data_buffer) if data_buffer else memoryview(b"")
    rows = zip(offsets, offsets[1:], seeds.tolist(), strict=False)
    return np.array([xxh64_intdigest(data[start:end], seed) for start, end, seed in rows], dtype=np.uint64)


def _canonical(type_: KeyType, array: pa.Array) -> pa.Array:
    """The column as one int64 or large_binary array; an Arrow type that does not fit is refused."""
    if isinstance(array, pa.ChunkedArray):
        array = array.combine_chunks()
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if not _fits(type_, array.type):
        raise MalformedKey(f"an Arrow column of {array.type} is no {type_.sql_name}; cast it first")
    try:
        if isinstance(type_, Timestamp):
            # By way of microseconds, since other units would keep their own counts.
            array = array.cast(pa.timestamp("us", array.type.tz))
        elif isinstance(type_, Date):
            array = array.cast(pa.int32())
        return array.cast(pa.large_binary() if isinstance(type_, String | Binary) else pa.int64())
    except pa.ArrowInvalid as error:
        raise MalformedKey(f"the Arrow column is no {type_.sql_name}: {error}") from None


def _fits(type_: KeyType, arrow: pa.DataType) -> bool:
    match type_:
        case Boolean():
            return bool(pa.types.is_boolean(arrow))
        case Integer():
            return bool(pa.types.is_signed_integer(arrow)) and arrow.bit_width <= 8 * type_.width
        case Date():
            return bool(pa.types.is_date32(arrow))
        case Timestamp():
            return bool(pa.types.is_timestamp(arrow))
        case String():
            return arrow in (pa.string(), pa.large_string(), pa.string_view())
        case Binary():
            return arrow in (pa.binary(), pa.large_binary(), pa.binary_view()) or bool(
                pa.types.is_fixed_size_binary(arrow)
            )
