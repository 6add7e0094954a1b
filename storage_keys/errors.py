"""What storage keys refuse. `name` is the error's identity in JSON forms and in HTTP problems."""

import reprlib
from typing import ClassVar, Final, Self


class StorageKeyError(ValueError):
    """The family's base. `args` are the fields, so that an error survives the pickle of a Spark worker."""

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


class UnsupportedType(StorageKeyError):
    """A type that has no place in a storage key, or none yet."""

    name = "unsupported-type"

    def __init__(self, type_name: str, accepted: tuple[str, ...]) -> None:
        super().__init__(type_name, accepted)
        self.type_name = type_name
        self.accepted = accepted

    @property
    def detail(self) -> str:
        return f"type {shown(self.type_name)} cannot be part of a storage key; use {', '.join(self.accepted)}"


class ValueOutOfRange(StorageKeyError):
    """An integer outside of `low..high`, both inclusive."""

    name = "value-out-of-range"

    def __init__(self, what: str, value: int, low: int, high: int) -> None:
        super().__init__(what, value, low, high)
        self.what = what
        self.value = value
        self.low = low
        self.high = high

    @property
    def detail(self) -> str:
        return f"{self.what} must be in {self.low}..{self.high}, not {shown(self.value)}"


class BadVnodeCount(StorageKeyError):
    """A vnode count under which vnodes would be of unlike size, or none at all."""

    name = "bad-vnode-count"

    def __init__(self, vnode_count: int) -> None:
        super().__init__(vnode_count)
        self.vnode_count = vnode_count

    @property
    def detail(self) -> str:
        return f"use 1 to 4096 vnodes, or a power of two up to 65536, not {shown(self.vnode_count)}"


class MalformedKey(StorageKeyError):
    """Bytes, a value or a document that is not of the agreed form."""

    name = "malformed"

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem

    @property
    def detail(self) -> str:
        return self.problem


class Truncated(StorageKeyError):
    """Key bytes that end within a column."""

    name = "truncated"

    def __init__(self, needed: int, available: int) -> None:
        super().__init__(needed, available)
        self.needed = needed
        self.available = available

    @property
    def detail(self) -> str:
        return (
            f"the column needs at least {self.needed} bytes and {self.available} are left; pass the whole key"
        )


class TrailingBytes(StorageKeyError):
    """Bytes after the end of the only column."""

    name = "trailing-bytes"

    def __init__(self, used: int, total: int) -> None:
        super().__init__(used, total)
        self.used = used
        self.total = total

    @property
    def detail(self) -> str:
        return f"the column ends after {self.used} of {self.total} bytes; cut the rest off or decode it too"


class UnknownTag(StorageKeyError):
    """A column's first byte that is neither its value tag nor its NULL tag."""

    name = "unknown-tag"

    def __init__(self, tag: int, value_tag: int, null_tag: int) -> None:
        super().__init__(tag, value_tag, null_tag)
        self.tag = tag
        self.value_tag = value_tag
        self.null_tag = null_tag

    @property
    def detail(self) -> str:
        return (
            f"the column starts with {self.tag:02x}, but under this order a value starts with "
            f"{self.value_tag:02x} and NULL is {self.null_tag:02x}; check the column's order"
        )


class SchemaMismatch(StorageKeyError):
    """Two sides that would not agree on the bytes of a key."""

    name = "schema-mismatch"

    def __init__(self, what: str, ours: str, theirs: str) -> None:
        super().__init__(what, ours, theirs)
        self.what = what
        self.ours = ours
        self.theirs = theirs

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
