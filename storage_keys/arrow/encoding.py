"""Columns as cells: `tag | payload`, the same bytes as `storage_keys.column` gives each value."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_keys.arrow.base100 import decimal_spans
from storage_keys.arrow.canonical import canonical, floats, words
from storage_keys.arrow.cells import Cells, Copied, Nullable, Packed, joined, laid_out
from storage_keys.arrow.groups import Grouped
from storage_keys.arrow.span import Spans, padded
from storage_keys.column import ASCENDING, Order
from storage_keys.types import Array, Binary, Boolean, Decimal, Floating, KeyType, String, Struct


def cells_of(type_: KeyType, column: pa.Array, order: Order) -> Cells:
    """The cells of a canonical column."""
    value_tag, null_tag = order.tags
    return _framed(type_, column, value_tag, null_tag, order.descending)


def _framed(type_: KeyType, column: pa.Array, value_tag: int, null_tag: int, flipped: bool) -> Cells:
    if not column.null_count:
        return _present(type_, column, value_tag, flipped)
    valid = np.asarray(column.is_valid())
    return Nullable(null_tag, valid, _present(type_, column.drop_null(), value_tag, flipped))


def _present(type_: KeyType, column: pa.Array, tag: int, flipped: bool) -> Cells:
    """The cells of a column without NULLs."""
    match type_:
        case String() | Binary():
            return Grouped(tag, Spans.of(column), flipped)
        case Decimal():
            return Copied(decimal_spans(type_, column, tag, flipped))
        case Struct():
            return _fields(type_, column, tag, flipped)
        case Array():
            return Grouped(tag, _elements(type_, column), flipped)
        case Boolean():
            ordered = words(column, "u1")
        case Floating():
            ordered = _ordered(floats(column))
        case _:
            ordered = words(column, f"u{column.type.bit_width // 8}")
            ordered = ordered ^ _sign(ordered)
    if flipped:
        ordered = ~ordered
    return Packed(len(column), (("u1", tag), (f">u{ordered.itemsize}", ordered)))


def _fields(type_: Struct, column: pa.Array, tag: int, flipped: bool) -> Cells:
    value_tag, null_tag = (255 - nested if flipped else nested for nested in ASCENDING.tags)
    parts: list[Cells] = [Packed(len(column), (("u1", tag),))]
    for at, field in enumerate(type_.fields):
        values = canonical(field.type, column.field(at))
        parts.append(_framed(field.type, values, value_tag, null_tag, flipped))
    return joined(parts)


def _elements(type_: Array, column: pa.Array) -> Spans:
    """The framed elements of each array, one after another."""
    values = canonical(type_.element, column.flatten())
    data, bounds = laid_out(cells_of(type_.element, values, ASCENDING), len(values))
    counts = np.asarray(column.value_lengths()).astype(np.int64, copy=False)
    ends = np.cumsum(counts)
    starts = bounds[ends - counts]
    return Spans(padded(data), starts, bounds[ends] - starts)


def _ordered(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The bits in the order of the numbers: of a negative number all flipped, else the sign."""
    bits = values.view(f"u{values.itemsize}")
    negative = values.view(f"i{values.itemsize}") >> (8 * values.itemsize - 1)
    ordered: npt.NDArray[Any] = bits ^ (negative.view(bits.dtype) | _sign(bits))
    return ordered


def _sign(bits: npt.NDArray[Any]) -> Any:
    return bits.dtype.type(1 << 8 * bits.itemsize - 1)
