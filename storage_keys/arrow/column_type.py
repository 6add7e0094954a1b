"""The Arrow type of each key type."""

from typing import Final

import pyarrow as pa

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
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    KeyType,
    Struct,
)

_PLAIN: Final[dict[KeyType, pa.DataType]] = {
    BOOLEAN: pa.bool_(),
    TINYINT: pa.int8(),
    SMALLINT: pa.int16(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", "UTC"),
    TIMESTAMP_NTZ: pa.timestamp("us"),
    YEAR_MONTH_INTERVAL: pa.int32(),
    DAY_TIME_INTERVAL: pa.duration("us"),
    STRING: pa.string(),
    BINARY: pa.binary(),
}


def arrow_type(type_: KeyType) -> pa.DataType:
    """What Spark's `toArrow` gives a column of the type, in UTC.

    Only a year-month interval is int32, months: pyarrow has no arrays of Arrow's own type for it.
    """
    match type_:
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Struct(fields):
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
        case Array(element):
            return pa.list_(pa.field("element", arrow_type(element)))
    return _PLAIN[type_]
