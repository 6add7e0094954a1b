"""Arrow columns in one form for each key type, and the numpy arrays of their values."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage_keys.arrow.column_type import arrow_type
from storage_keys.errors import MalformedKey
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME_INTERVAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TINYINT,
    YEAR_MONTH_INTERVAL,
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

BLOCK_ROWS: Final = 1 << 15
"""Rows worked on at a time: two arrays of so many words stay in a core's second-level cache, and so many
keys of 65,535 bytes stay below the 2 GiB of one binary array."""

_MONTH_INTERVAL: Final = 21
"""Arrow's id of Spark's year-month interval, a type that pyarrow 26 can carry but not name."""


def blocks(columns: Sequence[pa.Array], row_count: int) -> Iterator[tuple[int, list[pa.Array]]]:
    """The columns in runs of `BLOCK_ROWS`, each with its first row; at least one run, so that types are checked."""
    columns = [_with_months_as_integers(column) for column in columns]
    for start in range(0, max(row_count, 1), BLOCK_ROWS):
        yield start, [column.slice(start, BLOCK_ROWS) for column in columns]


def canonical(type_: KeyType, column: pa.Array) -> pa.Array:
    """One array of the type's canonical Arrow type; what is of another type or would lose something is refused.

    boolean: uint8; integers, date, timestamps, intervals: int8 to int64; float and double: the same; decimal:
    decimal128 of precision and scale; string, binary: large_binary; array: large_list, its values as they came.
    A struct stays as it came.
    """
    column = _one_array(column)
    if not _fits(type_, column.type):
        advice = _advice(type_, column.type)
        raise MalformedKey(f"an Arrow column of {column.type} is no {type_.sql_name}; {advice}")
    try:
        for step in _casts(type_, column.type):
            column = column.cast(step)
    except pa.ArrowInvalid as error:
        problem = f"the Arrow column is no {type_.sql_name}: {error}"
        raise MalformedKey(f"{problem}; round it first, or key on a type that holds it") from None
    return column


def _one_array(column: pa.Array) -> pa.Array:
    try:
        if isinstance(column, pa.ChunkedArray):
            column = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        problem = f"Arrow cannot make one array of a column of {column.type}: {error}"
        raise MalformedKey(f"{problem}; pass it without dictionaries, in smaller batches") from None


def words(column: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """The bytes of a column of fixed width, as items of `dtype`; under a NULL there may be anything."""
    width = column.type.bit_width // 8
    buffer = column.buffers()[1]
    if buffer is None or not len(column):
        return np.empty(0, dtype)
    return np.frombuffer(
        buffer, dtype, len(column) * width // np.dtype(dtype).itemsize, column.offset * width
    )


def floats(column: pa.Array) -> npt.NDArray[np.floating[Any]]:
    """The values of a float or double column, with one NaN and no -0.0."""
    # A signalling NaN would be a warning.
    with np.errstate(invalid="ignore"):
        found = words(column, f"f{column.type.bit_width // 8}") + 0.0
    found[np.isnan(found)] = np.nan
    return found


def halves(column: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """The low and the high 64 bits of a decimal128 column's unscaled values."""
    pairs = words(column, "u8")
    return np.ascontiguousarray(pairs[::2]), np.ascontiguousarray(pairs[1::2])


def _casts(type_: KeyType, arrow: pa.DataType) -> tuple[pa.DataType, ...]:
    """What the column is cast to, one after another."""
    match type_:
        case Decimal(precision, scale):
            # By way of 256 bits: a cast of 128 overlooks some overflows, and one to the same type looks at nothing.
            return pa.decimal256(_WIDE_DIGITS, scale), pa.decimal128(precision, scale)
        case Timestamp() | TimestampNtz():
            # By way of microseconds, since other units would keep their own counts.
            return pa.timestamp("us", arrow.tz), pa.int64()
        case Array():
            return (pa.large_list(arrow.value_field),)
        case Struct():
            return ()
    return _CASTS[type_]


_WIDE_DIGITS: Final = 76

_CASTS: Final[dict[KeyType, tuple[pa.DataType, ...]]] = {
    BOOLEAN: (pa.uint8(),),
    TINYINT: (pa.int8(),),
    SMALLINT: (pa.int16(),),
    INT: (pa.int32(),),
    BIGINT: (pa.int64(),),
    FLOAT: (pa.float32(),),
    DOUBLE: (pa.float64(),),
    DATE: (pa.int32(),),
    YEAR_MONTH_INTERVAL: (pa.int32(),),
    DAY_TIME_INTERVAL: (pa.duration("us"), pa.int64()),
    STRING: (pa.large_binary(),),
    BINARY: (pa.large_binary(),),
}


def _fits(type_: KeyType, arrow: pa.DataType) -> bool:
    match type_:
        case Integer(width):
            return bool(pa.types.is_signed_integer(arrow)) and arrow.bit_width <= 8 * width
        case Floating(width):
            return bool(pa.types.is_floating(arrow)) and arrow.bit_width <= 8 * width
        case Timestamp():
            return bool(pa.types.is_timestamp(arrow)) and arrow.tz is not None
        case TimestampNtz():
            return bool(pa.types.is_timestamp(arrow)) and arrow.tz is None
        case Struct(fields):
            return bool(pa.types.is_struct(arrow)) and [field.name for field in arrow] == [
                field.name for field in fields
            ]
        case _:
            return any(is_one(arrow) for is_one in _FORMS[type(type_)])


_FORMS: Final[dict[type[KeyType], tuple[Callable[[pa.DataType], bool], ...]]] = {
    Boolean: (pa.types.is_boolean,),
    Decimal: (pa.types.is_decimal,),
    Date: (pa.types.is_date32,),
    YearMonthInterval: (pa.types.is_int32,),
    DayTimeInterval: (pa.types.is_duration,),
    String: (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view),
    Binary: (
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    ),
    Array: (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list),
}


def _advice(type_: KeyType, arrow: pa.DataType) -> str:
    match type_:
        # A cast would take the clock for UTC's, whatever zone was meant.
        case Timestamp() if pa.types.is_timestamp(arrow):
            return "say whose clock it is: pyarrow.compute.assume_timezone(column, zone)"
        case TimestampNtz() if pa.types.is_timestamp(arrow):
            return "take its zone's clock: pyarrow.compute.local_timestamp(column)"
        case YearMonthInterval():
            return "cast it to int32, months"
        case Struct():
            return "its fields must have these names, in this order"
    return f"cast it to {arrow_type(type_)} first"


def _with_months_as_integers(column: pa.Array) -> pa.Array:
    """The column with int32 in place of month intervals, which pyarrow cannot cast, nor hold in an array."""
    plain = _plain(column.type)
    if plain == column.type:
        return column
    schema = pa.schema({"column": plain})
    batches = [
        # The two types are alike in memory, and the message names neither.
        pa.ipc.read_record_batch(batch.serialize(), schema)
        for batch in pa.table({"column": column}).to_batches()
    ]
    return pa.Table.from_batches(batches, schema)["column"]


def _plain(arrow: pa.DataType) -> pa.DataType:
    if arrow.id == _MONTH_INTERVAL:
        return pa.int32()
    if pa.types.is_list(arrow) or pa.types.is_large_list(arrow):
        make = pa.list_ if pa.types.is_list(arrow) else pa.large_list
        return make(arrow.value_field.with_type(_plain(arrow.value_type)))
    if pa.types.is_struct(arrow):
        return pa.struct([field.with_type(_plain(field.type)) for field in arrow])
    return arrow
