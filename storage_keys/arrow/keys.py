"""Storage keys of a whole batch, and the batch from its keys."""

from collections.abc import Iterator
from typing import Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_keys.arrow.canonical import BLOCK_ROWS, blocks, canonical
from storage_keys.arrow.cells import Cells, Packed, joined, laid_out
from storage_keys.arrow.column_type import arrow_type
from storage_keys.arrow.decoding import Cursor, column_of
from storage_keys.arrow.encoding import cells_of
from storage_keys.arrow.hash import hash_block
from storage_keys.arrow.span import Spans, windows
from storage_keys.errors import MalformedKey, StorageKeyError, Truncated, ValueOutOfRange, about
from storage_keys.key import KEY_BYTES_MAX, KeySchema, check_key_bytes
from storage_keys.range import HEAD_BYTES
from storage_keys.types import BINARY
from storage_keys.vnode import PREFIX_BITS

_BINARY_BYTES_MAX: Final = (1 << 31) - 1


def storage_keys(schema: KeySchema, rows: pa.RecordBatch | pa.Table) -> pa.Array:
    """The storage key of each row. Columns that are not of the key are ignored.

    The array is binary; only where the keys have more than 2 GiB together it is large_binary.
    """
    # The column of a batch is an array, which pyarrow does not have for every type of Spark.
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_batches([rows])
    columns = []
    for column in schema.columns:
        with about(column.name):
            if table.schema.names.count(column.name) != 1:
                raise MalformedKey(f"the rows must have it exactly once; they have {table.schema.names}")
            columns.append(table.column(column.name))
    return one_array(
        [
            _keys_of(schema, block, start, min(table.num_rows - start, BLOCK_ROWS))
            for start, block in blocks(columns, table.num_rows)
        ]
    )


def prefixes_of_keys(keys: pa.Array) -> npt.NDArray[np.int32]:
    """The vnode prefix of each row, 0..65535, read from its storage key; the rest of the key is not looked at."""
    found = np.empty(len(keys), np.int32)
    for start, spans in _spans_of(keys):
        short = spans.lengths < HEAD_BYTES
        if short.any():
            row = int(np.argmax(short))
            raise Truncated(HEAD_BYTES, int(spans.lengths[row]), "the head of a key").in_row(start + row)
        found[start : start + len(short)] = windows(spans.data, 2, ">u2")[spans.starts + 4]
    return found


def decode_keys(schema: KeySchema, keys: pa.Array) -> pa.Table:
    """The key's columns of each row, as `arrow_type` has them: the inverse of `storage_keys`.

    The key must have a column. Raises what `KeySchema.decode` raises for the key, with its row; only days that
    Python's date does not have are taken. Not as they were: -0.0, NaNs of other bits, and a decimal's zeros, which
    are those of the type's scale.
    """
    if not schema.columns:
        raise MalformedKey(
            "the key has no columns, and a table without columns no rows; use KeySchema.decode"
        )
    arrow_schema = pa.schema([pa.field(column.name, arrow_type(column.type)) for column in schema.columns])
    batches = [_rows_of(schema, arrow_schema, keys, start, spans) for start, spans in _spans_of(keys)]
    return pa.Table.from_batches(batches, arrow_schema)


def one_array(blocks_of_keys: list[pa.Array]) -> pa.Array:
    """All the binary arrays, at least one, as one, which is large_binary where they have more than 2 GiB together."""
    if len(blocks_of_keys) == 1:
        return blocks_of_keys[0]
    if sum(keys.nbytes for keys in blocks_of_keys) > _BINARY_BYTES_MAX:
        blocks_of_keys = [keys.cast(pa.large_binary()) for keys in blocks_of_keys]
    return pa.concat_arrays(blocks_of_keys)


def _keys_of(schema: KeySchema, block: list[pa.Array], start: int, row_count: int) -> pa.Array:
    columns: dict[str, pa.Array] = {}
    parts: list[Cells] = []
    for column, values in zip(schema.columns, block, strict=True):
        with about(column.name):
            columns[column.name] = canonical(column.type, values)
            parts.append(cells_of(column.type, columns[column.name], column.order))
    hashes = hash_block(
        schema.distribution_types, [columns[name] for name in schema.distribution], whole=False
    )
    head = Packed(row_count, ((">u4", schema.table_id), (">u2", hashes >> np.uint64(64 - PREFIX_BITS))))
    cells = joined([head, *parts])
    try:
        check_key_bytes(int(np.max(cells.widths, initial=0)))
    except ValueOutOfRange as error:
        raise error.in_row(start + int(np.argmax(cells.widths))) from None
    data, bounds = laid_out(cells, row_count)
    buffers = [None, pa.py_buffer(bounds.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), row_count, buffers)


def _spans_of(keys: pa.Array) -> Iterator[tuple[int, Spans]]:
    for start, (block,) in blocks([keys], len(keys)):
        values = canonical(BINARY, block)
        if values.null_count:
            row = int(np.argmin(np.asarray(values.is_valid())))
            raise MalformedKey("the key is NULL; pass rows that have one").in_row(start + row)
        yield start, Spans.of(values)


def _rows_of(
    schema: KeySchema, arrow_schema: pa.Schema, keys: pa.Array, start: int, spans: Spans
) -> pa.RecordBatch:
    def refuse(row: int) -> NoReturn:
        key = keys[start + row].as_py()
        try:
            schema.decode(key)
        except StorageKeyError as error:
            raise error.in_row(start + row) from None
        raise AssertionError(key)

    ends = spans.starts + spans.lengths
    cursor = Cursor(spans.data, spans.starts, ends, np.arange(len(ends)), refuse)
    cursor.require((spans.lengths >= HEAD_BYTES) & (spans.lengths <= KEY_BYTES_MAX))
    cursor.require(cursor.words(">u4") == schema.table_id)
    cursor = cursor.moved(cursor.at + 4)
    prefixes = cursor.words(">u2")
    cursor = cursor.moved(cursor.at + 2)
    columns: dict[str, pa.Array] = {}
    for column in schema.columns:
        columns[column.name], cursor = column_of(column.type, column.order, cursor)
    cursor.require(cursor.at == cursor.end)
    types = schema.distribution_types
    hashed = [canonical(type_, columns[name]) for type_, name in zip(types, schema.distribution, strict=True)]
    cursor.require(prefixes == hash_block(types, hashed, whole=False) >> np.uint64(64 - PREFIX_BITS))
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=arrow_schema)
