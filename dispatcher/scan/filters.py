"""What a scan is asked for, as predicates, and these as conditions of Spark and of Arrow.

Both compare as storage keys do, whatever the readers below make of -0.0, NaN and the days of 1582. A value that the
column cannot hold is compared all the same.
"""

import datetime
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import and_, eq, ge, gt, le, lt, or_
from typing import Any, Final, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from storage_keys.arrow import arrow_type
from storage_keys.column import ASCENDING, encode_canonical
from storage_keys.domain import ANYTHING, Domain, domain_of
from storage_keys.errors import MalformedKey, UnsupportedType, about, shown
from storage_keys.json_value import from_json
from storage_keys.place import floor_of
from storage_keys.predicate import Comparison, In, IsNotNull, IsNull, Like, Predicate, parse_filters
from storage_keys.spark import quoted, signed_column, types_of
from storage_keys.spark.column import has_expressions, parts_of
from storage_keys.types import (
    STRING,
    Array,
    Date,
    DayTimeInterval,
    Floating,
    KeyType,
    String,
    Struct,
    Timestamp,
    TimestampNtz,
    YearMonthInterval,
)
from storage_keys.value import Canonical, restore

_Part = TypeVar("_Part")

_COMPARE: Final[Mapping[str, Callable[[Any, Any], Any]]] = {"=": eq, "<": lt, "<=": le, ">": gt, ">=": ge}

_MICROSECOND: Final = datetime.timedelta(microseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
# Within these every calendar and every zone's rules count alike, so that Spark's Parquet filters are right.
_EVEN_DAYS: Final = range(-25_000, 2_900_000)
_DAY_MICROS: Final = 86_400_000_000


@dataclass(frozen=True, slots=True)
class Conditions:
    """A conjunction, and the types of the columns whose values it asks for."""

    predicates: tuple[Predicate, ...]
    types: Mapping[str, KeyType]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(one.column for one in self.predicates))

    @property
    def are_never_met(self) -> bool:
        """Whether the values asked for exclude each other, or are none of their column."""
        left: dict[str, Domain] = {}
        for one in self.predicates:
            domain, _ = domain_of(self._type(one), one)
            left[one.column] = left.get(one.column, ANYTHING).intersection(domain)
        return any(domain.is_empty for domain in left.values())

    def as_column(self) -> Column | None:
        """True for exactly the rows that pass; None where all do. Not for what is never met."""
        return joined(and_, [_as_column(self._type(one), one) for one in self.predicates])

    def as_expression(self) -> pc.Expression | None:
        """True for all rows that pass, and few others; None where all do. Not for what is never met."""
        return joined(and_, [_as_expression(self._type(one), one) for one in self.predicates])

    def _type(self, predicate: Predicate) -> KeyType:
        # Only a question for NULL is asked of a column without a type, and the type plays no part in it.
        return self.types.get(predicate.column, STRING)


def conditions(columns: StructType, filters: Iterable[Predicate | Sequence[object]]) -> Conditions:
    """The filters on a table's columns: predicates, or sequences of the form of `parse_filters`.

    Values of the latter are Python's own or written as in JSON. Timestamps may be a `datetime`: one with a time zone
    for a timestamp, one without for a timestamp_ntz. Raises `StorageKeyError` for what cannot be compared.
    """
    given = list(_each(filters))
    types = dict(_types(columns, given))
    found: list[Predicate] = []
    for one in given:
        found += [one] if isinstance(one, Predicate) else parse_filters([one], types, _value)
    for predicate in found:
        with about(predicate.column):
            _require_answer(types.get(predicate.column, STRING), predicate)
    return Conditions(tuple(found), types)


def _each(filters: object) -> Iterator[Predicate | list[object]]:
    for one in filters if isinstance(filters, Iterable) and not isinstance(filters, str) else [None]:
        # A filter by itself is a sequence, too: of strings, to begin with.
        if isinstance(one, str) or not isinstance(one, Predicate | Sequence):
            raise MalformedKey(f'filters are a list of filters, as [("k", "=", 5)], not {shown(filters)}')
        yield one if isinstance(one, Predicate) else list(one)


def _types(columns: StructType, filters: Iterable[Predicate | list[object]]) -> Iterator[tuple[str, KeyType]]:
    for one in filters:
        name = one.column if isinstance(one, Predicate) else one[0] if one else None
        if not isinstance(name, str):
            continue
        if name not in columns.names:
            known = ", ".join(columns.names)
            raise MalformedKey(f"no column is named {shown(name)}; the columns are {known}")
        if not isinstance(one, IsNull | IsNotNull):
            yield name, types_of(columns, [name])[0]


def _value(type_: KeyType, found: object) -> object:
    """A value of `storage_keys.value`, from one or from its JSON form."""
    match type_, found:
        case Timestamp(), datetime.datetime() if found.tzinfo is not None:
            return (found - _EPOCH) // _MICROSECOND
        case TimestampNtz(), datetime.datetime() if found.tzinfo is None:
            return (found.replace(tzinfo=datetime.UTC) - _EPOCH) // _MICROSECOND
        case _, str() | list() | dict():
            return from_json(type_, found)
    return found


def _require_answer(type_: KeyType, predicate: Predicate) -> None:
    """Refuse what `domain_of` refuses, and what neither Spark nor Arrow is asked here."""
    domain_of(type_, predicate)
    if not isinstance(type_, Struct | Array) or isinstance(predicate, IsNull | IsNotNull):
        return
    if isinstance(predicate, Like) or (
        isinstance(predicate, Comparison) and predicate.operator not in ("=", "<=>")
    ):
        raise MalformedKey(f"values of type {shown(type_.sql_name)} are only looked for; use =, <=> or in")
    if not has_expressions(type_):
        raise UnsupportedType(
            type_.sql_name, (), "filtered by while a decimal is inside", "filter the DataFrame"
        )


@dataclass(frozen=True, slots=True)
class _Compared:
    """A comparison with a value that the column can hold."""

    operator: str
    value: Canonical


def _compared(type_: KeyType, operator: str, value: object) -> _Compared | bool:
    """The same for every value of the type; True where it is true of each, False where of none."""
    floor, exact = floor_of(type_, value)
    if operator in ("=", "<=>"):
        return _Compared("=", floor) if exact and floor is not None else False
    if floor is None:
        return operator in (">", ">=")
    if not exact:
        operator = {"<": "<=", ">=": ">"}.get(operator, operator)
    return _Compared(operator, floor)


def _values(type_: KeyType, one: In) -> list[Canonical]:
    found = [_compared(type_, "=", value) for value in one.values if value is not None]
    return [compared.value for compared in found if isinstance(compared, _Compared)]


def _as_column(type_: KeyType, predicate: Predicate) -> Column:
    column = quoted(predicate.column)
    match predicate:
        case IsNull() | Comparison(operator="<=>", value=None):
            return column.isNull()
        case IsNotNull():
            return column.isNotNull()
        case Like(pattern=pattern, escape=escape):
            text = column if isinstance(type_, String) else column.cast("string")
            return sf.like(text, sf.lit(pattern), sf.lit(escape))
        case In():
            column, literals = _operands(type_, column, _values(type_, predicate))
            return column.isin(*literals)
        case Comparison():
            compared = _compared(type_, predicate.operator, predicate.value)
            if not isinstance(compared, _Compared):
                return column.isNotNull()
            column, (literal,) = _operands(type_, column, [compared.value])
            found: Column = _COMPARE[compared.operator](column, literal)
            return found


def _operands(type_: KeyType, column: Column, values: Sequence[Canonical]) -> tuple[Column, list[Column]]:
    """What to compare with what, so that Spark's Parquet filters skip no row that passes."""
    match type_:
        case Date() | Timestamp() | TimestampNtz() if all(_is_even(type_, value) for value in values):
            return column, [_date_or_time(type_, value) for value in values]
        # As numbers: a filter on dates goes through Java's old calendar, which lacks ten days of 1582.
        case Date() | Timestamp() | TimestampNtz() | YearMonthInterval() | DayTimeInterval():
            return signed_column(type_, column), [sf.lit(value).cast("bigint") for value in values]
        # A filter on the column itself goes to the Parquet reader, to whose dictionaries -0.0 is not 0.0.
        case Floating():
            return column.cast("double") + 0.0, [sf.lit(value) for value in values]
        case Struct() | Array():
            encoded = sf.concat(*parts_of(type_, column, ASCENDING))
            return encoded, [sf.lit(encode_canonical(type_, value)) for value in values]
    return column, [sf.lit(restore(type_, value)).cast(type_.sql_name) for value in values]


def _is_even(type_: Date | Timestamp | TimestampNtz, value: Canonical) -> bool:
    assert isinstance(value, int)
    return (value if isinstance(type_, Date) else value // _DAY_MICROS) in _EVEN_DAYS


def _date_or_time(type_: Date | Timestamp | TimestampNtz, value: Canonical) -> Column:
    assert isinstance(value, int)
    match type_:
        case Date():
            return sf.lit(restore(type_, value))
        case Timestamp():
            return sf.timestamp_micros(sf.lit(value))
        case TimestampNtz():
            return sf.lit((_EPOCH + value * _MICROSECOND).replace(tzinfo=None).isoformat()).cast(
                "timestamp_ntz"
            )


def _as_expression(type_: KeyType, predicate: Predicate) -> pc.Expression:
    field = pc.field(predicate.column)
    found = field.is_valid()
    match predicate:
        case IsNull() | Comparison(operator="<=>", value=None):
            found = field.is_null()
        case Like():
            text, _ = predicate.split()
            if text and isinstance(type_, String):
                found = pc.starts_with(field, text)
        case In() if _in_arrow(type_):
            found = _is_in(type_, field, _values(type_, predicate))
        case Comparison(operator=operator, value=value) if _in_arrow(type_):
            compared = _compared(type_, operator, value)
            if isinstance(compared, _Compared):
                found = _compare(type_, field, compared)
    return found


def _is_in(type_: KeyType, field: pc.Expression, values: Sequence[Canonical]) -> pc.Expression:
    if isinstance(type_, Floating):
        # To a set, -0.0 is not 0.0.
        return joined(or_, [_compare(type_, field, _Compared("=", value)) for value in values])
    return field.isin(pa.array([_scalar(type_, value) for value in values]))


def _compare(type_: KeyType, field: pc.Expression, compared: _Compared) -> pc.Expression:
    operator, value = compared.operator, compared.value
    if not isinstance(type_, Floating):
        return _COMPARE[operator](field, _scalar(type_, value))
    # NaN is above all other numbers.
    assert isinstance(value, float)
    if math.isnan(value):
        return {"<": ~field.is_nan(), "<=": field.is_valid()}.get(operator, field.is_nan())
    found = _COMPARE[operator](field, pa.scalar(value))
    return found | field.is_nan() if operator in (">", ">=") else found


def _in_arrow(type_: KeyType) -> bool:
    return not isinstance(type_, Struct | Array | YearMonthInterval | DayTimeInterval)


def _scalar(type_: KeyType, value: Canonical) -> pa.Scalar:
    ours = value if isinstance(type_, Date | Timestamp | TimestampNtz) else restore(type_, value)
    return pa.scalar(ours, arrow_type(type_))


def joined(how: Callable[[_Part, _Part], _Part], parts: Sequence[_Part]) -> _Part | None:
    """A shallow tree: a chain of a thousand overflows Spark's stack."""
    if len(parts) <= 1:
        return parts[0] if parts else None
    middle = len(parts) // 2
    left, right = joined(how, parts[:middle]), joined(how, parts[middle:])
    assert left is not None
    assert right is not None
    return how(left, right)
