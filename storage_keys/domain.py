"""The values that a predicate leaves of a column, as ranges of payloads (`storage_keys.place`)."""

from dataclasses import dataclass
from typing import Final

from storage_keys.column import ASCENDING, Order, decode_canonical
from storage_keys.errors import StorageKeyError
from storage_keys.place import cut_above, cut_after, payload, payload_of_greatest, payload_of_least, place
from storage_keys.predicate import Comparison, In, IsNotNull, IsNull, Like, Operator, Predicate
from storage_keys.range import KeyRange, flipped, merged, successor
from storage_keys.types import STRING, Array, Boolean, KeyType, String, Struct
from storage_keys.value import Canonical, SignedType, canonical, signed_width

_VALUE_TAG: Final = bytes((ASCENDING.tags[0],))


@dataclass(frozen=True, slots=True)
class Domain:
    """`null`: whether NULL is among the values; `values`: ranges of payloads, sorted and disjoint.

    Ranges that touch are not merged, so that the values of an IN can still be told apart.
    """

    null: bool
    values: tuple[KeyRange, ...]

    @property
    def is_empty(self) -> bool:
        return not self.null and not self.values

    def intersection(self, other: "Domain") -> "Domain":
        found, left, right = [], 0, 0
        while left < len(self.values) and right < len(other.values):
            mine, others = self.values[left], other.values[right]
            both = mine.intersection(others)
            if not both.is_empty:
                found.append(both)
            # The one that ends first meets no further range.
            if both.end == mine.end:
                left += 1
            else:
                right += 1
        return Domain(self.null and other.null, tuple(found))

    def column_ranges(self, type_: KeyType, order: Order) -> tuple[KeyRange, ...]:
        """Ranges of the column's bytes with their tags, as few as there can be.

        One without an end goes up to the end of what is before the column (`KeyRange.below`).
        """
        value_tag, null_tag = (bytes((tag,)) for tag in order.tags)
        found = [(_flipped(type_, one) if order.descending else one).below(value_tag) for one in self.values]
        if self.null:
            found.append(KeyRange(null_tag, successor(null_tag)))
        return merged(found)

    def points(self, type_: KeyType, most: int) -> tuple[Canonical | None, ...] | None:
        """The values one by one, None being NULL; None where they are more than `most`, or cannot be told."""
        found: list[Canonical | None] = [None] if self.null else []
        for one in self.values:
            inside = _points(type_, one, most - len(found))
            if inside is None:
                return None
            found += inside
        return tuple(found) if len(found) <= most else None


_ALL: Final = KeyRange(b"", None)
ANYTHING: Final = Domain(null=True, values=(_ALL,))
NOT_NULL: Final = Domain(null=False, values=(_ALL,))
NULL: Final = Domain(null=True, values=())
NOTHING: Final = Domain(null=False, values=())


def domain_of(type_: KeyType, predicate: Predicate) -> tuple[Domain, bool]:
    """Values of a column of `type_` that hold all those for which the predicate is true; whether it is no others.

    Raises `MalformedKey` for a value that is none of the type.
    """
    match predicate:
        case IsNull():
            return NULL, True
        case IsNotNull():
            return NOT_NULL, True
        case Like():
            return _like(type_, predicate)
        case In(values=values):
            ranges = {_range(type_, "=", value) for value in values if value is not None}
            return _domain(ranges), True
        case Comparison(operator=operator, value=None):
            return (NULL if operator == "<=>" else NOTHING), True
        case Comparison(operator=operator, value=value):
            found = _domain({_range(type_, operator, value)})
            # A struct's and an array's values are only looked for, not compared.
            ordered = not isinstance(type_, Struct | Array) or operator in ("=", "<=>")
            return (found, True) if ordered else (NOT_NULL, False)


def _range(type_: KeyType, operator: Operator, value: object) -> KeyRange | None:
    at = place(type_, value)
    match operator:
        case "<":
            # Bytes there are below the least payload, but no values.
            return None if at.below == payload_of_least(type_) else KeyRange(b"", at.below)
        case "<=":
            return KeyRange(b"", at.above)
        case ">":
            return None if at.above is None else KeyRange(at.above, None)
        case ">=":
            return None if at.below is None else KeyRange(at.below, None)
        case "=" | "<=>":
            return None if at.below is None else KeyRange(at.below, at.above)
    raise AssertionError(operator)


def _domain(ranges: set[KeyRange | None]) -> Domain:
    found = [one for one in ranges if one is not None and not one.is_empty]
    return Domain(null=False, values=tuple(sorted(found, key=lambda one: one.start)))


def _like(type_: KeyType, like: Like) -> tuple[Domain, bool]:
    text, rest = like.split()
    if not isinstance(type_, String):
        # Spark compares the text that it casts the value to.
        return NOT_NULL, False
    if not rest:
        return domain_of(type_, Comparison(like.column, "=", text))
    head = canonical(STRING, text)
    assert isinstance(head, bytes)
    # Of the bytes themselves, since the payload of 'abc' is no prefix of that of 'abcd'. All-FF is no UTF-8.
    beyond = successor(head)
    starting = (
        NOT_NULL if beyond is None else _domain({KeyRange(payload(type_, head), payload(type_, beyond))})
    )
    return starting, set(rest) == {"%"}


def _flipped(type_: KeyType, one: KeyRange) -> KeyRange:
    """The same values as a range of descending payloads: the ends have changed places."""
    # Flipped, what was below an end is above everything that begins with that end.
    start = b"" if one.end is None else cut_after(flipped(one.end))
    assert start is not None, "an end of zeros has nothing below it, and no such range is made"
    end = flipped(one.start)
    # Padded, the end of a struct could lie beyond a shorter one, which has a NULL.
    return KeyRange(start, successor(end) if isinstance(type_, Struct | Array) else cut_after(end))


def _points(type_: KeyType, one: KeyRange, most: int) -> list[Canonical] | range | None:
    start = one.start or payload_of_least(type_) or b""
    if isinstance(type_, Boolean | SignedType):
        greatest = payload_of_greatest(type_)
        end = cut_after(greatest) if one.end is None and greatest is not None else one.end
        return _integers(type_, start, end, most)
    try:
        value, used = decode_canonical(type_, _VALUE_TAG + start)
    except StorageKeyError:
        # The bound of a range, and no value's payload.
        return None
    if value is None or used < len(_VALUE_TAG + start):
        return None
    return [value] if one.end == cut_above(type_, value) else None


def _integers(type_: Boolean | SignedType, start: bytes, end: bytes | None, most: int) -> range | None:
    width = 1 if isinstance(type_, Boolean) else signed_width(type_)
    low = 0 if isinstance(type_, Boolean) else -(1 << (8 * width - 1))
    first = int.from_bytes(start.ljust(width, b"\0"), "big")
    beyond = 1 << (8 * width) if end is None else int.from_bytes(end.ljust(width, b"\0"), "big")
    return range(low + first, low + beyond) if beyond - first <= most else None
