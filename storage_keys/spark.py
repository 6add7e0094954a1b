"""H and vnodes as native Spark Columns: no Python runs in an executor."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from storage_keys.errors import MalformedKey, UnsupportedType
from storage_keys.hash import SEED
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    TYPE_NAMES,
    Binary,
    Boolean,
    Date,
    Integer,
    KeyType,
    String,
    Timestamp,
)
from storage_keys.vnode import PREFIX_BITS, check_vnode_count

_KEY_TYPES: Final[dict[spark_types.DataType, KeyType]] = {
    spark_types.BooleanType(): BOOLEAN,
    spark_types.ByteType(): TINYINT,
    spark_types.ShortType(): SMALLINT,
    spark_types.IntegerType(): INT,
    spark_types.LongType(): BIGINT,
    spark_types.DateType(): DATE,
    spark_types.TimestampType(): TIMESTAMP,
    # Equal to UTF8_BINARY strings alone: under another collation equal strings hash apart.
    spark_types.StringType(): STRING,
    spark_types.BinaryType(): BINARY,
}


def hash_column(types: Sequence[KeyType], columns: Sequence[Column]) -> Column:
    """H as a bigint Column, never NULL. The columns must be of `types`; `types_of` gives them."""
    if not columns:
        return sf.lit(SEED).cast("bigint")
    return sf.xxhash64(*(_canonical(type_, column) for type_, column in zip(types, columns, strict=True)))


def prefix_column(types: Sequence[KeyType], columns: Sequence[Column]) -> Column:
    """The vnode prefix, 0..65535, as an int Column."""
    return _prefix(types, columns).cast("int")


def vnode_column(types: Sequence[KeyType], columns: Sequence[Column], vnode_count: int) -> Column:
    """The vnode, 0..vnode_count - 1, as an int Column."""
    check_vnode_count(vnode_count)
    if vnode_count == 1:
        return sf.lit(0)
    if vnode_count & (vnode_count - 1) == 0:
        # The same number without the multiplication, which shows beside a shuffle.
        bits = vnode_count.bit_length() - 1
        return sf.shiftrightunsigned(hash_column(types, columns), 64 - bits).cast("int")
    return sf.shiftright(_prefix(types, columns) * vnode_count, PREFIX_BITS).cast("int")


def types_of(schema: spark_types.StructType, names: Sequence[str]) -> tuple[KeyType, ...]:
    """The key types of a DataFrame's columns; what cannot be in a key is refused by the column's name."""
    return tuple(_type_of(schema, name) for name in names)


def _prefix(types: Sequence[KeyType], columns: Sequence[Column]) -> Column:
    # Still a bigint: 65,535 * 65,536 overflows an int, which is an error under ANSI.
    return sf.shiftrightunsigned(hash_column(types, columns), 64 - PREFIX_BITS)


def _canonical(type_: KeyType, column: Column) -> Column:
    match type_:
        case Boolean() | Integer():
            return column.cast("bigint")
        case Date():
            return sf.unix_date(column).cast("bigint")
        case Timestamp():
            return sf.unix_micros(column)
        case String() | Binary():
            return column


def _type_of(schema: spark_types.StructType, name: str) -> KeyType:
    if schema.names.count(name) != 1:
        known = ", ".join(schema.names)
        raise MalformedKey(f"the DataFrame must have it exactly once; its columns are {known}").in_column(
            name
        )
    data_type = schema[name].dataType
    found = _KEY_TYPES.get(data_type)
    if found is None:
        raise UnsupportedType(data_type.simpleString(), TYPE_NAMES).in_column(name)
    return found
