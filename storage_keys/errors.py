"""What storage keys refuse. `name` is the error's identity in JSON forms and in HTTP problems."""

import decimal
import reprlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar, Final, Self


class StorageKeyError(ValueError):
    """The family's base."""

    name: ClassVar[str]
    column: str | None = None
    row: int | None = None

    @property
    def detail(self) -> str:
        """What is wrong and what to do, without the row and the column."""
        raise NotImplementedError

    def in_column(self, column: str) -> Self:
        """The same error, which now names the column it is about."""
        self.column = column
        return self

    def in_row(self, row: int) -> Self:
        """The same error, which now tells the position of its row in a batch."""
        self.row = row
        return self

    def __str__(self) -> str:
        row = "" if self.row is None else f"row {self.row}: "
        column = "" if self.column is None else f"column {self.column!r}: "
        return row + column + self.detail


@contextmanager
def about(column: str) -> Iterator[None]:
    """What is refused within is refused by the column's name."""
    try:
        yield
    except StorageKeyError as error:
        raise error.in_column(column) from None


@dataclass(eq=False)
class UnsupportedType(StorageKeyError):
    """A type that has no place in a storage key, or not the one that was wanted."""

    name = "unsupported-type"

    type_name: str
    accepted: tuple[str, ...]
    place: str = "part of a storage key"
    advice: str | None = None
    """What to do where it is not the kind of type that is wrong."""

    @property
    def detail(self) -> str:
        advice = self.advice or f"use {', '.join(self.accepted)}"
        return f"type {shown(self.type_name)} cannot be {self.place}; {advice}"


@dataclass(eq=False)
class ValueOutOfRange(StorageKeyError):
    """A number outside of `low..high`, both inclusive."""

    name = "value-out-of-range"

    what: str
    value: int | float | decimal.Decimal
    low: int | float | decimal.Decimal
    high: int | float | decimal.Decimal
    advice: str | None = None

    @property
    def detail(self) -> str:
        advice = "" if self.advice is None else f"; {self.advice}"
        return f"{self.what} must be in {self.low}..{self.high}, not {shown(self.value)}{advice}"


@dataclass(eq=False)
class BadVnodeCount(StorageKeyError):
    """A vnode count under which vnodes would be of unlike size, or none at all."""

    name = "bad-vnode-count"

    vnode_count: int

    @property
    def detail(self) -> str:
        return f"use 1 to 4096 vnodes, or a power of two up to 65536, not {shown(self.vnode_count)}"


@dataclass(eq=False)
class MalformedKey(StorageKeyError):
    """Bytes, a value or a document that is not of the agreed form."""

    name = "malformed"

    problem: str

    @property
    def detail(self) -> str:
        return self.problem


@dataclass(eq=False)
class Truncated(StorageKeyError):
    """Key bytes that end within a column."""

    name = "truncated"

    needed: int
    available: int
    what: str = "the column"

    @property
    def detail(self) -> str:
        return (
            f"{self.what} needs at least {self.needed} bytes and {self.available} are left; "
            "pass the whole key"
        )


@dataclass(eq=False)
class TrailingBytes(StorageKeyError):
    """Bytes after the end of the only column, or of the last one of a key."""

    name = "trailing-bytes"

    used: int
    total: int
    what: str = "the column"

    @property
    def detail(self) -> str:
        return f"{self.what} ends after {self.used} of {self.total} bytes; cut the rest off or decode it too"


@dataclass(eq=False)
class UnknownTag(StorageKeyError):
    """The first byte of a column, or of what is nested in one, that is neither its value tag nor its NULL tag."""

    name = "unknown-tag"

    tag: int
    value_tag: int
    null_tag: int

    @property
    def detail(self) -> str:
        return (
            f"{self.tag:02x} stands where a value starts with {self.value_tag:02x} and NULL is "
            f"{self.null_tag:02x}; check the column's type and order"
        )


@dataclass(eq=False)
class SchemaMismatch(StorageKeyError):
    """Two sides that would not agree on the bytes of a key."""

    name = "schema-mismatch"

    what: str
    ours: str
    theirs: str
    advice: str = "use the table's own key schema, or write the table anew"

    @property
    def detail(self) -> str:
        return f"{self.what} differs: {self.ours} here, {self.theirs} there; {self.advice}"


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # repr() of an int of more than 4,300 digits raises.
        return f"an integer of {x.bit_length()} bits" if x.bit_length() > 128 else super().repr_int(x, level)


shown: Final = _Short().repr
"""Any value for a message: short whatever came in."""
