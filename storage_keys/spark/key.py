"""The storage key as a Spark Column."""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as sf

from storage_keys.arrow import storage_keys
from storage_keys.errors import MalformedKey
from storage_keys.key import KEY_BYTES_MAX, KeySchema
from storage_keys.range import table_bytes
from storage_keys.spark.column import Part, digits, has_expressions, joined, parts_of
from storage_keys.spark.hash import prefix_column
from storage_keys.types import Array, Binary, KeyType, String, Struct

_HEAD_BYTES: Final = 6


def storage_key_column(schema: KeySchema, columns: Mapping[str, Column] | None = None) -> Column:
    """The storage key of each row as BINARY, never NULL: the bytes of `KeySchema.storage_key`.

    Made by Spark's own expressions where `is_native` says so, else by a vectorised Arrow UDF, whose name in a plan is
    `storage_keys_by_arrow`.

    `columns` are the key's by name, of the schema's types; left out, the DataFrame's of those names. Needs
    `spark.sql.ansi.enabled`, as Spark has it. A key of more than 65,535 bytes fails the job. A string that is not
    UTF-8, which Spark can hold, goes into the key with its bytes as they are; decoding refuses it.
    """
    found = _columns(schema, columns)
    return _by_expressions(schema, found) if is_native(schema) else _by_arrow(schema, found)


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
    found = sf.conv(sf.hex(sf.substring(column, _HEAD_BYTES - 1, 2)), 16, 10).cast("int")
    problem = sf.concat(
        sf.lit(f"a storage key has at least {_HEAD_BYTES} bytes, not "),
        sf.coalesce(sf.octet_length(column).cast("string"), sf.lit("NULL")),
        sf.lit("; pass whole keys"),
    )
    return sf.when(sf.octet_length(column) >= _HEAD_BYTES, found).otherwise(
        sf.raise_error(problem).cast("int")
    )


def _columns(schema: KeySchema, columns: Mapping[str, Column] | None) -> Mapping[str, Column]:
    if columns is None:
        # Quoted, since a name may have dots in it.
        return {column.name: sf.col("`" + column.name.replace("`", "``") + "`") for column in schema.columns}
    for column in schema.columns:
        if column.name not in columns:
            raise MalformedKey(f"no Spark column is given for it, only for {', '.join(columns)}").in_column(
                column.name
            )
    return columns


def _by_expressions(schema: KeySchema, columns: Mapping[str, Column]) -> Column:
    prefix = prefix_column(schema.distribution_types, [columns[name] for name in schema.distribution])
    parts = [
        Part(sf.lit(table_bytes(schema.table_id).hex()), is_digits=True),
        Part(digits(prefix.cast("bigint"), 2), is_digits=True),
    ]
    for column in schema.columns:
        parts += parts_of(column.type, columns[column.name], column.order)
    key = joined(parts)
    return _refused_if_long(key) if any(_is_unbounded(column.type) for column in schema.columns) else key


def _by_arrow(schema: KeySchema, columns: Mapping[str, Column]) -> Column:
    names = [column.name for column in schema.columns]

    def storage_keys_by_arrow(*arrays: pa.Array) -> pa.Array:
        return storage_keys(schema, pa.table(list(arrays), names))

    # PySpark exports it for Python alone, not for type checkers.
    udf = sf.arrow_udf(storage_keys_by_arrow, "binary")  # type: ignore[attr-defined]
    by_arrow: Column = udf(*(columns[name] for name in names))
    return by_arrow


def _is_unbounded(type_: KeyType) -> bool:
    match type_:
        case Struct(fields):
            return any(_is_unbounded(field.type) for field in fields)
        case String() | Binary() | Array():
            return True
    return False


def _refused_if_long(key: Column) -> Column:
    length = sf.octet_length(key)
    message = f"the length of a storage key in bytes must be in 0..{KEY_BYTES_MAX}, not "
    problem = sf.concat(sf.lit(message), length.cast("string"))
    # The key is in the condition and in both branches, so that Spark makes it once.
    return sf.when(length > KEY_BYTES_MAX, sf.raise_error(problem).cast("binary")).otherwise(key)
