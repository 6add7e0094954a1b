"""The columns of a state table, and of what is written to it: refused here before anything is."""

import json
from collections.abc import Iterable, Iterator

import pyarrow as pa
from deltalake import Schema
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    CharType,
    DataType,
    DayTimeIntervalType,
    IntegerType,
    LongType,
    MapType,
    NullType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimeType,
    VarcharType,
    YearMonthIntervalType,
)

from dispatcher.routing import ROUTING_COLUMNS, refuse_reserved
from dispatcher.table.errors import MissingKeyColumns, TableMismatch, UnknownColumns
from dispatcher.table.file import DELETED, KIND, PREFIX, SEQUENCE, STORAGE_KEY
from storage_keys.errors import StorageKeyError, UnsupportedType
from storage_keys.key import KeySchema
from storage_keys.spark import types_of
from storage_keys.types import DayTimeInterval, YearMonthInterval

_OURS = StructType(
    [
        StructField(PREFIX, IntegerType()),
        StructField(STORAGE_KEY, BinaryType()),
        StructField(DELETED, BooleanType()),
        StructField(SEQUENCE, LongType()),
        StructField(KIND, StringType()),
    ]
)


def stored(columns: StructType) -> StructType:
    """The columns in all files: the user's, the prefix and the storage key."""
    return StructType([*columns.fields, _OURS[PREFIX], _OURS[STORAGE_KEY]])


def logged(columns: StructType) -> StructType:
    """The columns of the Delta table.

    Ours come first: deltalake loses the statistics of a column that stands behind a struct.
    """
    return StructType([*_OURS.fields, *columns.fields])


def users(struct: StructType) -> StructType:
    """The user's columns of those of the Delta table."""
    return StructType([column for column in struct.fields if column.name not in _OURS.names])


def in_arrow(struct: StructType) -> pa.Schema:
    """As files have them. Timestamps are in UTC, whatever the session's time zone."""
    return to_arrow_schema(struct, timezone="UTC")


def nullable(struct: StructType) -> StructType:
    """The same columns, in which all may be NULL, inside of structs, arrays and maps too."""
    found = _nullable(struct)
    assert isinstance(found, StructType)
    return found


def _nullable(type_: DataType) -> DataType:
    match type_:
        case StructType():
            return StructType([StructField(one.name, _nullable(one.dataType)) for one in type_.fields])
        case ArrayType():
            return ArrayType(_nullable(type_.elementType))
        case MapType():
            return MapType(_nullable(type_.keyType), _nullable(type_.valueType))
    return type_


def require_creatable(uri: str, schema: KeySchema, columns: StructType) -> None:
    refuse_reserved(columns.names, (*ROUTING_COLUMNS, *_OURS.names))
    for field in columns.fields:
        for name, type_, in_map in _leaves(field.name, field.dataType):
            _require_storable(name, type_, in_map=in_map)
    names = [column.name for column in schema.columns]
    for column, found in zip(schema.columns, types_of(columns, names), strict=True):
        if column.type != found:
            what = f"the type of key column {column.name}"
            raise TableMismatch(uri, what, ours=found.sql_name, theirs=column.type.sql_name)
        if isinstance(found, YearMonthInterval | DayTimeInterval):
            accepted = ("int for months", "bigint for microseconds")
            raise UnsupportedType(found.sql_name, accepted, "a key column of a Delta table").in_column(
                column.name
            )


def _require_storable(column: str, type_: DataType, *, in_map: bool) -> None:
    if isinstance(type_, TimestampNTZType) and in_map:
        # deltalake creates such a table, and cannot open it.
        place = "part of a map in a Delta table"
        raise UnsupportedType(type_.simpleString(), ("timestamp",), place).in_column(column)
    alone = StructType([StructField("c", type_)])
    try:
        in_arrow(alone)
        found = StructType.fromJson(json.loads(Schema.from_json(alone.json()).to_json()))
    except (ValueError, PySparkException):
        found = None
    # Parquet has no struct of nothing.
    if found != alone or isinstance(type_, NullType | StructType):
        place = "a column of a Delta table"
        raise UnsupportedType(type_.simpleString(), _instead_of(type_), place).in_column(column)


def _leaves(name: str, type_: DataType, *, in_map: bool = False) -> Iterator[tuple[str, DataType, bool]]:
    """The types that have no others within, the path to each as Delta writes it, and whether that is through a map."""
    match type_:
        case StructType() if type_.fields:
            for field in type_.fields:
                yield from _leaves(f"{name}.{field.name}", field.dataType, in_map=in_map)
        case ArrayType():
            yield from _leaves(f"{name}.element", type_.elementType, in_map=in_map)
        case MapType():
            yield from _leaves(f"{name}.key", type_.keyType, in_map=True)
            yield from _leaves(f"{name}.value", type_.valueType, in_map=True)
        case _:
            yield name, type_, in_map


def _instead_of(type_: DataType) -> tuple[str, ...]:
    match type_:
        case CharType() | VarcharType():
            return ("string",)
        case TimeType():
            return ("bigint for microseconds", "string")
        case YearMonthIntervalType():
            return ("int for months",)
        case DayTimeIntervalType():
            return ("interval day to second", "bigint for microseconds")
        case NullType():
            return ("the type that its values will have",)
    return ("binary", "string", "a struct of other types")


def require_same_key(uri: str, wanted: KeySchema, found: KeySchema) -> None:
    try:
        wanted.require_same(found)
    except StorageKeyError as error:
        ours, theirs = (json.dumps(schema.to_json(), sort_keys=True) for schema in (wanted, found))
        raise TableMismatch(uri, "the key schema", ours=ours, theirs=theirs) from error


def require_same_columns(uri: str, wanted: StructType, found: StructType) -> None:
    ours, theirs = _described(wanted), _described(found)
    if ours != theirs:
        raise TableMismatch(uri, "the columns", ours=ours, theirs=theirs)


def require_rows(uri: str, columns: StructType, given: StructType) -> None:
    """Refuse rows that would lose a column or change a type on their way into the table."""
    require_same_columns(uri, _own(uri, columns, given, columns.names, "columns to write"), columns)


def require_keys(uri: str, columns: StructType, given: StructType, schema: KeySchema) -> None:
    """Refuse rows whose keys would be no keys of the table."""
    names = tuple(column.name for column in schema.columns)
    found = _own(uri, columns, given, names, "columns to delete by")
    if missing := tuple(name for name in names if name not in found.names):
        raise MissingKeyColumns(uri, missing, names)
    require_same_columns(uri, found, StructType([columns[name] for name in names]))


def _own(uri: str, columns: StructType, given: StructType, names: Iterable[str], what: str) -> StructType:
    """Those of the given columns that are named, in the order of the names."""
    by_name = {column.name: column for column in given.fields if column.name not in ROUTING_COLUMNS}
    known = tuple(columns.names)
    strange = tuple(name for name in by_name if name not in known)
    if strange:
        raise UnknownColumns(uri, what, strange, known)
    return StructType([by_name[name] for name in names if name in by_name])


def _described(struct: StructType) -> str:
    # Without nullability, which Spark drops and adds on the way.
    return ", ".join(f"{column.name} {column.dataType.simpleString()}" for column in struct.fields)
