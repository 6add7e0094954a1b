"""The key type of each Spark type."""

from collections.abc import Sequence
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql import types as spark_types

from storage_keys.errors import MalformedKey, UnsupportedType
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
    TYPE_NAMES,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    Field,
    KeyType,
    Struct,
)

_PLAIN: Final[dict[spark_types.DataType, KeyType]] = {
    spark_types.BooleanType(): BOOLEAN,
    spark_types.ByteType(): TINYINT,
    spark_types.ShortType(): SMALLINT,
    spark_types.IntegerType(): INT,
    spark_types.LongType(): BIGINT,
    spark_types.FloatType(): FLOAT,
    spark_types.DoubleType(): DOUBLE,
    spark_types.DateType(): DATE,
    spark_types.TimestampType(): TIMESTAMP,
    spark_types.TimestampNTZType(): TIMESTAMP_NTZ,
    # Equal to UTF8_BINARY strings alone: under another collation equal strings hash and sort apart.
    spark_types.StringType(): STRING,
    spark_types.BinaryType(): BINARY,
}


def types_of(schema: spark_types.StructType, names: Sequence[str]) -> tuple[KeyType, ...]:
    """The key types of a DataFrame's columns, its char and varchar being strings, as Spark presents them.

    A type that cannot be in a key, and one with such a type inside, is refused by the column's name.
    """
    return tuple(_type_of_column(schema, name) for name in names)


def quoted(name: str) -> Column:
    """The top-level column of that very name, dots included."""
    return sf.col("`" + name.replace("`", "``") + "`")


def _type_of_column(schema: spark_types.StructType, name: str) -> KeyType:
    if schema.names.count(name) != 1:
        known = ", ".join(schema.names)
        problem = f"the DataFrame must have it exactly once; its columns are {known}"
        raise MalformedKey(problem).in_column(name)
    try:
        return _type_of(schema[name].dataType)
    except UnsupportedType as error:
        raise error.in_column(name) from None


def _type_of(data_type: spark_types.DataType) -> KeyType:
    found: KeyType | None = _PLAIN.get(data_type)
    match data_type:
        case spark_types.DecimalType():
            found = Decimal(data_type.precision, data_type.scale)
        case spark_types.YearMonthIntervalType():
            found = YEAR_MONTH_INTERVAL
        case spark_types.DayTimeIntervalType():
            found = DAY_TIME_INTERVAL
        case spark_types.CharType() | spark_types.VarcharType():
            found = STRING
        case spark_types.StructType():
            found = Struct(tuple(Field(field.name, _type_of(field.dataType)) for field in data_type.fields))
        case spark_types.ArrayType():
            found = Array(_type_of(data_type.elementType))
    if found is None:
        raise UnsupportedType(data_type.simpleString(), TYPE_NAMES)
    return found
