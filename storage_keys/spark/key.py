"""The storage key as a Spark Column."""

import operator
from collections.abc import Mapping
from functools import reduce
from types import UnionType

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from storage_keys.arrow import storage_keys
from storage_keys.errors import SchemaMismatch
from storage_keys.key import KEY_BYTES_MAX, TOO_LONG_ADVICE, KeyColumn, KeySchema
from storage_keys.range import HEAD_BYTES
from storage_keys.spark.column import has_expressions, length_of, parts_of, payload_of
from storage_keys.spark.column_type import quoted, types_of
from storage_keys.spark.hash import prefix_column
from storage_keys.spark.word import word_bytes
from storage_keys.types import Array, Binary, KeyType, String, Struct, YearMonthInterval


def storage_key_column(schema: KeySchema, frame_schema: StructType) -> Column:
    """The storage key of each row as BINARY, never NULL: the bytes of `KeySchema.storage_key`.

    It is of the columns of the key's names in the DataFrame whose schema is `frame_schema`. `SchemaMismatch` names
    one that is not of the key's type exactly: a narrower integer too is to be cast. `MalformedKey` names one that
    the DataFrame does not have once, `UnsupportedType` one whose type no key has.

    Made by Spark's own expressions where `is_native` says so, else by a vectorised Arrow UDF, whose name in a plan is
    `storage_keys_by_arrow`. A key of more than 65,535 bytes fails the job. A string that is not UTF-8, which Spark
    can hold, goes into the key with its bytes as they are; decoding refuses it.
    """
    _check_types(schema, frame_schema)
    columns = {column.name: quoted(column.name) for column in schema.columns}
    return _by_expressions(schema, columns) if is_native(schema) else _by_arrow(schema, columns)


def is_native(schema: KeySchema) -> bool:
    """Whether `storage_key_column` runs no Python in the executors.

    So it is unless a column is a decimal or has one inside: SQL has no expressions that make base-100 digits in less
    time than Arrow and numpy take, the way to Python and back included.
    """
    return all(has_expressions(column.type) for column in schema.columns)


def prefix_of_key(column: Column) -> Column:
    """The vnode prefix, 0..65535, as an int Column, read from a column of storage keys: nothing is hashed.

    A key that is NULL or shorter than its head fails the job.
    """
    found = sf.conv(sf.hex(sf.substring(column, HEAD_BYTES - 1, 2)), 16, 10).cast("int")
    problem = sf.concat(
        sf.lit(f"a storage key has at least {HEAD_BYTES} bytes, not "),
        sf.coalesce(sf.octet_length(column).cast("string"), sf.lit("NULL")),
        sf.lit("; pass whole keys"),
    )
    return sf.when(sf.octet_length(column) >= HEAD_BYTES, found).otherwise(
        sf.raise_error(problem).cast("int")
    )


def _check_types(schema: KeySchema, frame_schema: StructType) -> None:
    found = types_of(frame_schema, [column.name for column in schema.columns])
    for column, theirs in zip(schema.columns, found, strict=True):
        if theirs != column.type:
            advice = "cast the DataFrame's column to the key's type"
            raise SchemaMismatch("the type", column.type.sql_name, theirs.sql_name, advice).in_column(
                column.name
            )


def _by_expressions(schema: KeySchema, columns: Mapping[str, Column]) -> Column:
    prefix = prefix_column(schema.distribution_types, [columns[name] for name in schema.distribution])
    parts = [_head(schema.table_id, prefix.cast("bigint"), schema.columns[:1], columns)]
    for at, column in enumerate(schema.columns):
        # The first one's tag is in the head.
        made = parts_of if at else payload_of
        parts += made(column.type, columns[column.name], column.order)
    key = sf.concat(*parts)
    if any(_has(column.type, Array) for column in schema.columns):
        return _refused_if_long(key, sf.octet_length(key))
    if any(_has(column.type, String | Binary) for column in schema.columns):
        return _refused_if_long(key, _length(schema, columns))
    return key


def _length(schema: KeySchema, columns: Mapping[str, Column]) -> Column:
    """The key's length in bytes, from the columns: to ask the key itself would have Spark keep it."""
    lengths = (length_of(column.type, columns[column.name]) for column in schema.columns)
    return reduce(operator.add, lengths) + HEAD_BYTES


def _head(
    table_id: int, prefix: Column, first: tuple[KeyColumn, ...], columns: Mapping[str, Column]
) -> Column:
    """The table's id, the prefix and the tag of the first column, if there is one, as one number: it costs least."""
    number, width = prefix + (table_id << 16), HEAD_BYTES
    for column in first:
        value_tag, null_tag = column.order.tags
        tag = sf.when(columns[column.name].isNull(), sf.lit(null_tag)).otherwise(sf.lit(value_tag))
        number, width = sf.shiftleft(number, 8) + tag, width + 1
    return word_bytes(number, width)


def _by_arrow(schema: KeySchema, columns: Mapping[str, Column]) -> Column:
    names = [column.name for column in schema.columns]
    given = [_for_arrow(column.type, columns[column.name]) for column in schema.columns]

    def storage_keys_by_arrow(*arrays: pa.Array) -> pa.Array:
        return storage_keys(schema, pa.table(list(arrays), names))

    # PySpark exports it for Python alone, not for type checkers.
    udf = sf.arrow_udf(storage_keys_by_arrow, "binary")  # type: ignore[attr-defined]
    by_arrow: Column = udf(*given)
    return by_arrow


def _for_arrow(type_: KeyType, column: Column) -> Column:
    # pyarrow has no array of months.
    return column.cast("interval month").cast("int") if isinstance(type_, YearMonthInterval) else column


def _has(type_: KeyType, kind: type[KeyType] | UnionType) -> bool:
    inside = (field.type for field in type_.fields) if isinstance(type_, Struct) else ()
    return isinstance(type_, kind) or any(_has(field, kind) for field in inside)


def _refused_if_long(key: Column, length: Column) -> Column:
    message = f"the length of a storage key in bytes must be in 0..{KEY_BYTES_MAX}, not "
    problem = sf.concat(sf.lit(message), length.cast("string"), sf.lit(f"; {TOO_LONG_ADVICE}"))
    return sf.when(length > KEY_BYTES_MAX, sf.raise_error(problem).cast("binary")).otherwise(key)
