"""What storage keys refuse. `name` is the error's identity in JSON forms and in HTTP problems."""

import reprlib
from dataclasses import dataclass
from typing import ClassVar, Final, Self


class StorageKeyError(ValueError):
    """The family's base."""

    name: ClassVar[str]
    column: str | None = None

    @property
    def detail(self) -> str:
        """What is wrong and what to do, without the column."""
        raise NotImplementedError

    def in_column(self, column: str) -> Self:
        """The same error, which now names the column it is about."""
        self.column = column
        return self

    def __str__(self) -> str:
        return self.detail if self.column is None else f"column {self.column!r}: {self.detail}"


@dataclass(eq=False)
class UnsupportedType(StorageKeyError):
    """A type that has no place in a storage key, or none yet."""

    name = "unsupported-type"

    type_name: str
    accepted: tuple[str, ...]

    @property
    def detail(self) -> str:
        return f"type {shown(self.type_name)} cannot be part of a storage key; use {', '.join(self.accepted)}"


@dataclass(eq=False)
class ValueOutOfRange(StorageKeyError):
    """An integer outside of `low..high`, both inclusive."""

    name = "value-out-of-range"

    what: str
    value: int
    low: int
    high: int

    @property
    def detail(self) -> str:
        return f"{self.what} must be in {self.low}..{self.high}, not {shown(self.value)}"


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

    @property
    def detail(self) -> str:
        return (
            f"the column needs at least {self.needed} bytes and {self.available} are left; pass the whole key"
        )


@dataclass(eq=False)
class TrailingBytes(StorageKeyError):
    """Bytes after the end of the only column."""

    name = "trailing-bytes"

    used: int
    total: int

    @property
    def detail(self) -> str:
        return f"the column ends after {self.used} of {self.total} bytes; cut the rest off or decode it too"


@dataclass(eq=False)
class UnknownTag(StorageKeyError):
    """A column's first byte that is neither its value tag nor its NULL tag."""

    name = "unknown-tag"

    tag: int
    value_tag: int
    null_tag: int

    @property
    def detail(self) -> str:
        return (
            f"the column starts with {self.tag:02x}, but under this order a value starts with "
            f"{self.value_tag:02x} and NULL is {self.null_tag:02x}; check the column's order"
        )


@dataclass(eq=False)
class SchemaMismatch(StorageKeyError):
    """Two sides that would not agree on the bytes of a key."""

    name = "schema-mismatch"

    what: str
    ours: str
    theirs: str

    @property
    def detail(self) -> str:
        return (
            f"{self.what} differs: {self.ours} here, {self.theirs} there; "
            "use the table's own key schema, or write the table anew"
        )


class _Short(reprlib.Repr):
    def repr_int(self, x: int, level: int) -> str:
        # repr() of an int of more than 4,300 digits raises.
        return f"an integer of {x.bit_length()} bits" if x.bit_length() > 128 else super().repr_int(x, level)


shown: Final = _Short().repr
"""Any value for a message: short whatever came in."""
