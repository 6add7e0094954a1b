"""Columns from key bytes: the inverse of `encoding`, for all rows of a block at once.

What is found here is only whether a row's bytes are right. A row that is not goes to the codec of single
rows, which knows what to say about it.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_keys.arrow.base100 import decimals_of
from storage_keys.arrow.column_type import arrow_type
from storage_keys.arrow.groups import groups_at
from storage_keys.arrow.span import Bytes, Places, Spans, windows
from storage_keys.column import ASCENDING, Order, decode_canonical
from storage_keys.errors import StorageKeyError
from storage_keys.groups import encode_groups
from storage_keys.types import (
    Array,
    Binary,
    Boolean,
    Date,
    Decimal,
    Floating,
    KeyType,
    String,
    Struct,
)
from storage_keys.value import Canonical, SignedType, restore, signed_width

_STEPPED_BYTES: Final = 2_048
"""Of the elements of an array; one of more would take more steps than it is worth."""

_Mask = npt.NDArray[np.bool_]
Refuse = Callable[[int], NoReturn]


@dataclass(frozen=True, slots=True)
class Cursor:
    """Where reading stands in some rows of a block: the next byte and the end of each row's key in `data`.

    `data` is readable for `PADDING` bytes beyond every end; `rows` are the rows' numbers for `refuse`.
    """

    data: Bytes
    at: Places
    end: Places
    rows: Places
    refuse: Refuse

    def require(self, good: _Mask) -> None:
        """Refuse the first row that is not good."""
        if not good.all():
            self.refuse(int(self.rows[np.argmin(good)]))

    def moved(self, at: Places) -> "Cursor":
        """The same rows from `at` on; a row that ends before is refused."""
        self.require(at <= self.end)
        return replace(self, at=at)

    def of(self, which: _Mask) -> "Cursor":
        """Only these rows."""
        return replace(self, at=self.at[which], end=self.end[which], rows=self.rows[which])

    def words(self, dtype: str) -> npt.NDArray[Any]:
        """The next bytes of each row, as one item."""
        return windows(self.data, np.dtype(dtype).itemsize, dtype)[self.at]


def column_of(type_: KeyType, order: Order, cursor: Cursor) -> tuple[pa.Array, Cursor]:
    """The column whose tags are next, as `arrow_type` has it, and the cursor behind it."""
    value_tag, null_tag = order.tags
    if order.descending:
        flipped = replace(cursor, data=~cursor.data)
        values, behind = _framed(type_, flipped, 255 - value_tag, 255 - null_tag)
        return values, replace(behind, data=cursor.data)
    return _framed(type_, cursor, value_tag, null_tag)


def _framed(type_: KeyType, cursor: Cursor, value_tag: int, null_tag: int) -> tuple[pa.Array, Cursor]:
    tags = cursor.words("u1")
    behind = cursor.moved(cursor.at + 1)
    valid = tags == value_tag
    if valid.all():
        return _present(type_, behind)
    cursor.require(valid | (tags == null_tag))
    values, ends = _present(type_, behind.of(valid))
    at = behind.at.copy()
    at[valid] = ends.at
    places = pa.array(np.cumsum(valid) - 1, mask=~valid)
    return values.take(places), replace(behind, at=at)


def _present(type_: KeyType, cursor: Cursor) -> tuple[pa.Array, Cursor]:  # noqa: PLR0911 - one for each form
    """The column of the payloads that are next."""
    match type_:
        case Boolean():
            return _booleans(cursor)
        case Floating(width):
            return _floats(type_, width, cursor)
        case Decimal():
            return _decimals(type_, cursor)
        case String() | Binary():
            spans, cursor = _groups(cursor)
            return _bytes(type_, spans, cursor), cursor
        case Struct():
            return _fields(type_, cursor)
        case Array():
            return _arrays(type_, cursor)
    return _integers(type_, cursor)


def _integers(type_: SignedType, cursor: Cursor) -> tuple[pa.Array, Cursor]:
    width = signed_width(type_)
    found = cursor.words(f">u{width}").astype(f"u{width}")
    return _fixed(type_, found ^ found.dtype.type(1 << 8 * width - 1)), cursor.moved(cursor.at + width)


def _booleans(cursor: Cursor) -> tuple[pa.Array, Cursor]:
    found = cursor.words("u1")
    behind = cursor.moved(cursor.at + 1)
    cursor.require(found <= 1)
    return pa.array(found == 1), behind


def _floats(type_: Floating, width: int, cursor: Cursor) -> tuple[pa.Array, Cursor]:
    found = cursor.words(f">u{width}").astype(f"u{width}")
    behind = cursor.moved(cursor.at + width)
    sign = found.dtype.type(1 << 8 * width - 1)
    bits = np.where(found >= sign, found ^ sign, ~found)
    values = bits.view(f"f{width}")
    one_nan = np.array(np.nan, f"f{width}").view(bits.dtype)
    cursor.require((~np.isnan(values) | (bits == one_nan)) & (bits != sign))
    return _fixed(type_, bits), behind


def _decimals(type_: Decimal, cursor: Cursor) -> tuple[pa.Array, Cursor]:
    low, high, ends, good = decimals_of(type_, cursor.data, cursor.at)
    cursor.require(good)
    return _fixed(type_, np.stack((low, high), axis=1)), cursor.moved(ends)


def _groups(cursor: Cursor) -> tuple[Spans, Cursor]:
    found = groups_at(cursor.data, cursor.at, cursor.end)
    cursor.require(found.good)
    return found.joined(cursor.data, cursor.at), cursor.moved(found.ends)


def _bytes(type_: String | Binary, spans: Spans, cursor: Cursor) -> pa.Array:
    bounds = np.zeros(len(spans.lengths) + 1, np.int32)
    np.cumsum(spans.lengths, out=bounds[1:])
    body = np.empty(int(bounds[-1]), np.uint8)
    spans.write(body, bounds[:-1].astype(np.int64))
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(body)]
    column = pa.Array.from_buffers(arrow_type(type_), len(spans.lengths), buffers)
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        cursor.require(np.array([_is_text(value) for value in column.cast(pa.binary()).to_pylist()]))
    return column


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _fields(type_: Struct, cursor: Cursor) -> tuple[pa.Array, Cursor]:
    value_tag, null_tag = ASCENDING.tags
    columns = []
    for field in type_.fields:
        column, cursor = _framed(field.type, cursor, value_tag, null_tag)
        columns.append(column)
    if not columns:
        return pa.array([{}] * len(cursor.at), arrow_type(type_)), cursor
    return pa.StructArray.from_arrays(columns, fields=list(arrow_type(type_))), cursor


def _arrays(type_: Array, cursor: Cursor) -> tuple[pa.Array, Cursor]:
    """The first elements of all arrays, then their second ones, and so on; of long arrays one after another."""
    spans, behind = _groups(cursor)
    elements = replace(cursor, data=spans.data, at=spans.starts, end=spans.starts + spans.lengths)
    long = spans.lengths > _STEPPED_BYTES
    owners = [np.empty(0, np.int64)]
    values = [pa.array([], arrow_type(type_.element))]
    for row in np.flatnonzero(long).tolist():
        values.append(_long_array(type_, elements, row))
        owners.append(np.full(len(values[-1]), row))
    elements, owner = elements.of(~long), np.flatnonzero(~long)
    while (more := elements.at < elements.end).any():
        elements, owner = elements.of(more), owner[more]
        value, elements = _framed(type_.element, elements, *ASCENDING.tags)
        values.append(value)
        owners.append(owner)
    owner = np.concatenate(owners)
    bounds = np.zeros(len(spans.lengths) + 1, np.int32)
    np.cumsum(np.bincount(owner, minlength=len(spans.lengths)), out=bounds[1:])
    joined = pa.concat_arrays(values).take(pa.array(np.argsort(owner, kind="stable")))
    return pa.ListArray.from_arrays(pa.array(bounds), joined, type=arrow_type(type_)), behind


def _long_array(type_: Array, elements: Cursor, row: int) -> pa.Array:
    """The elements of one array."""
    joined = elements.data[int(elements.at[row]) : int(elements.end[row])].tobytes()
    try:
        found, _ = decode_canonical(type_, bytes(ASCENDING.tags[:1]) + encode_groups(joined))
        assert isinstance(found, tuple)
        return pa.array([_value(type_.element, value) for value in found], arrow_type(type_.element))
    except StorageKeyError:
        elements.refuse(int(elements.rows[row]))


def _value(type_: KeyType, value: Canonical | None) -> Any:
    """What pyarrow takes for a value of the type."""
    if value is None:
        return None
    match type_, value:
        case Date(), int():
            # As days: Arrow has more of them than Python's date.
            return value
        case Struct(fields), tuple():
            return tuple(_value(field.type, inner) for field, inner in zip(fields, value, strict=True))
        case Array(element), tuple():
            return [_value(element, inner) for inner in value]
    return restore(type_, value)


def _fixed(type_: KeyType, values: npt.NDArray[Any]) -> pa.Array:
    return pa.Array.from_buffers(arrow_type(type_), len(values), [None, pa.py_buffer(values)])
