"""Predicates on columns, with SQL's logic: a row that a predicate is NULL for does not pass, as one it is false for.

A filter is a conjunction, a sequence of predicates. Values are those of `storage_keys.value`, but may lie beyond
what the column can hold: `k = 300` on a tinyint is a predicate that no row passes.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, get_args

from storage_keys.errors import MalformedKey, StorageKeyError, shown
from storage_keys.json_value import from_json
from storage_keys.place import place
from storage_keys.types import KeyType

Operator = Literal["=", "<=>", "<", "<=", ">", ">="]


@dataclass(frozen=True, slots=True)
class Comparison:
    """`column operator value`, in the column's order of values: -0.0 is 0.0 and NaN is above infinity.

    With None (NULL) no row passes, except those that are NULL under `<=>`.
    """

    column: str
    operator: Operator
    value: object

    def __post_init__(self) -> None:
        if self.operator not in get_args(Operator):
            known = ", ".join(get_args(Operator))
            raise MalformedKey(f"no comparison is {shown(self.operator)}; use {known}").in_column(self.column)


@dataclass(frozen=True, slots=True)
class In:
    """`column IN values`, which may be any iterable but text and bytes; a None among them is equal to nothing."""

    column: str
    values: tuple[object, ...]

    def __post_init__(self) -> None:
        given: object = self.values
        if isinstance(given, str | bytes | bytearray) or not isinstance(given, Iterable):
            problem = f"IN takes a tuple of values, not {shown(given)}; pass a tuple of that one value"
            raise MalformedKey(problem).in_column(self.column)
        object.__setattr__(self, "values", tuple(given))


@dataclass(frozen=True, slots=True)
class IsNull:
    column: str


@dataclass(frozen=True, slots=True)
class IsNotNull:
    column: str


@dataclass(frozen=True, slots=True)
class Like:
    """`column LIKE pattern ESCAPE escape`, case-sensitive: `%` is any text, `_` any one character.

    As in Spark, the escape stands before `%`, `_` or itself and nowhere else; other patterns are malformed.
    """

    column: str
    pattern: str
    escape: str = "\\"

    def __post_init__(self) -> None:
        if len(self.escape) != 1:
            raise MalformedKey(f"LIKE takes one character as its escape, not {shown(self.escape)}")
        self.split()

    def split(self) -> tuple[str, str]:
        """The text before the first wildcard, unescaped, and the pattern from that wildcard on."""
        text, rest_at, at = "", len(self.pattern), 0
        while at < len(self.pattern):
            char = self.pattern[at]
            if char == self.escape:
                char = self._escaped(at + 1)
                at += 1
            elif char in "%_":
                rest_at = min(rest_at, at)
            if rest_at > at:
                text += char
            at += 1
        return text, self.pattern[rest_at:]

    def _escaped(self, at: int) -> str:
        char = self.pattern[at : at + 1]
        if not char or char not in ("%", "_", self.escape):
            raise MalformedKey(
                f"the pattern {shown(self.pattern)} has {self.escape!r} before what is no wildcard; "
                f"write {self.escape * 2!r} for the character itself"
            )
        return char


Predicate = Comparison | In | IsNull | IsNotNull | Like


def between(column: str, low: object, high: object) -> tuple[Comparison, Comparison]:
    """`column BETWEEN low AND high`, both ends included."""
    return Comparison(column, ">=", low), Comparison(column, "<=", high)


def parse_filters(
    document: object, types: Mapping[str, KeyType], read: Callable[[KeyType, object], object] = from_json
) -> tuple[Predicate, ...]:
    """The predicates of a JSON array of filters, whose values are written as for `vnodectl key`.

    `["k", "=", 5]`, also with `<=>`, `<`, `<=`, `>` and `>=`; `["k", "in", [1, 2]]`; `["k", "between", 1, 5]`;
    `["s", "like", "abc%"]`; `["t", "is null"]`; `["t", "is not null"]`. Operators may be in any case. `types` are
    those of the table's columns; `read` takes values of another form. Raises `MalformedKey`, which tells which filter
    it is.
    """
    if not isinstance(document, list):
        raise MalformedKey(f"the filters must be an array of filters, not {shown(document)}")
    found: list[Predicate] = []
    for position, item in enumerate(document):
        try:
            found += _parsed(item, types, read)
        except StorageKeyError as error:
            raise MalformedKey(f"filter {position}, {shown(item)}: {error}") from None
    return tuple(found)


def _parsed(
    item: object, types: Mapping[str, KeyType], read: Callable[[KeyType, object], object]
) -> tuple[Predicate, ...]:
    match item:
        case [str(column), str(written), *operands]:
            operator = " ".join(written.lower().split())
        case _:
            raise MalformedKey('a filter is an array of a column, an operator and its values: ["k", "=", 5]')
    if column not in types:
        raise MalformedKey(f"no column is named {shown(column)}; the columns are {', '.join(types)}")

    def value(found: object) -> object:
        return _value(types[column], read(types[column], found))

    match operator, operands:
        case (("=" | "<=>" | "<" | "<=" | ">" | ">="), [operand]):
            return (Comparison(column, operator, value(operand)),)
        case "in", [list(values) | tuple(values)]:
            return (In(column, tuple(value(one) for one in values)),)
        case "between", [low, high] | [[low, high]]:
            return between(column, value(low), value(high))
        case "like", [str(pattern)]:
            return (Like(column, pattern),)
        case "is null", []:
            return (IsNull(column),)
        case "is not null", []:
            return (IsNotNull(column),)
    raise MalformedKey(_wanted(operator))


def _value(type_: KeyType, value: object) -> object:
    if value is not None:
        # Refuses what cannot be compared with the column.
        place(type_, value)
    return _frozen(value)


def _frozen(value: object) -> object:
    return tuple(_frozen(inner) for inner in value) if isinstance(value, list) else value


def _wanted(operator: str) -> str:
    known = dict.fromkeys(get_args(Operator), "one value") | _OPERANDS
    if operator in known:
        return f"{operator!r} takes {known[operator]}"
    return f"no operator is {shown(operator)}; use {', '.join(known)}"


_OPERANDS: Final = {
    "in": "an array of values",
    "between": "two values, the low one first",
    "like": "a pattern, which is a string",
    "is null": "no value",
    "is not null": "no value",
}
