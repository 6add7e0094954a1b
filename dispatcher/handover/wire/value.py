"""How the values of a message are written: little-endian, each length before its content, one form for each value."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from struct import Struct, pack, unpack
from typing import Any, Final, Generic, Protocol, TypeVar

from dispatcher.handover.errors import Malformed

T = TypeVar("T")
N = TypeVar("N")
E = TypeVar("E", bound=Enum)


class Input:
    """Bytes from outside, read from the front."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> memoryview:
        """Raises `Malformed` where fewer are left."""
        at = self._pass(size)
        return self._data[at : self._at]

    def unpack(self, layout: Struct) -> tuple[Any, ...]:
        """Raises `Malformed` where too few are left."""
        return layout.unpack_from(self._data, self._pass(layout.size))

    def _pass(self, size: int) -> int:
        """Where the bytes begin that are read now."""
        at = self._at
        if size > len(self._data) - at:
            raise Malformed(f"ends after {len(self._data)} bytes, in the midst of {size} from {at} on")
        self._at = at + size
        return at

    def end(self) -> None:
        """Raises `Malformed` where anything is left."""
        if self._at != len(self._data):
            raise Malformed(f"has {len(self._data)} bytes, but what it says ends after {self._at}")


class Form(Protocol[T]):
    def write(self, value: T, out: bytearray) -> None:
        """Raises `TypeError`, `ValueError` and `struct.error` for a value without a form."""

    def read(self, data: Input) -> T:
        """Raises `Malformed`."""


@dataclass(frozen=True, slots=True)
class Number:
    layout: Struct

    def write(self, value: int, out: bytearray) -> None:
        out += self.layout.pack(value)

    def read(self, data: Input) -> int:
        (value,) = data.unpack(self.layout)
        assert isinstance(value, int)
        return value


class Blob:
    def write(self, value: bytes, out: bytearray) -> None:
        LENGTH.write(len(value), out)
        out += value

    def read(self, data: Input) -> bytes:
        return bytes(data.take(LENGTH.read(data)))


class Text:
    def write(self, value: str, out: bytearray) -> None:
        BLOB.write(value.encode(), out)

    def read(self, data: Input) -> str:
        try:
            return str(data.take(LENGTH.read(data)), "utf-8")
        except UnicodeDecodeError as error:
            raise Malformed(f"has a text that is not UTF-8 ({error.reason})") from error


class Key:
    """A vnode, or a key of the seeds' examples."""

    def write(self, value: int | str, out: bytearray) -> None:
        match value:
            case int():
                KIND.write(0, out)
                TIME.write(value, out)
            case str():
                KIND.write(1, out)
                TEXT.write(value, out)
            case _:
                raise TypeError(f"{value!r} is no key")

    def read(self, data: Input) -> int | str:
        match KIND.read(data):
            case 0:
                return TIME.read(data)
            case 1:
                return TEXT.read(data)
            case kind:
                raise Malformed(f"has a key of kind {kind}")


@dataclass(frozen=True, slots=True)
class Choice(Generic[E]):
    """The place of a member in `members`, to which others may be added behind."""

    members: tuple[E, ...]

    def write(self, value: E, out: bytearray) -> None:
        KIND.write(self.members.index(value), out)

    def read(self, data: Input) -> E:
        at = KIND.read(data)
        if at >= len(self.members):
            raise Malformed(f"has choice {at} of {len(self.members)}")
        return self.members[at]


class Numbers:
    """Written out, though they may be runs: a run of a few bytes could say more numbers than memory holds."""

    def write(self, value: tuple[int, ...], out: bytearray) -> None:
        LENGTH.write(len(value), out)
        out += pack(f"<{len(value)}q", *value)

    def read(self, data: Input) -> tuple[int, ...]:
        count = LENGTH.read(data)
        taken = data.take(8 * count)
        return unpack(f"<{count}q", taken)


@dataclass(frozen=True, slots=True)
class Entries(Generic[N, T]):
    """A mapping, by ascending names."""

    name: Form[N]
    value: Form[T]

    def write(self, value: Mapping[N, T], out: bytearray) -> None:
        LENGTH.write(len(value), out)
        for name in sorted(value):  # type: ignore[type-var]
            self.name.write(name, out)
            self.value.write(value[name], out)

    def read(self, data: Input) -> dict[N, T]:
        entries = {}
        last = None
        for _ in range(LENGTH.read(data)):
            name = self.name.read(data)
            if last is not None and not last < name:  # type: ignore[operator]
                raise Malformed(f"names {name!r} after {last!r}")
            entries[name] = self.value.read(data)
            last = name
        return entries


@dataclass(frozen=True, slots=True)
class Row(Generic[T]):
    """Values in an order of their own."""

    value: Form[T]

    def write(self, value: tuple[T, ...], out: bytearray) -> None:
        LENGTH.write(len(value), out)
        for one in value:
            self.value.write(one, out)

    def read(self, data: Input) -> tuple[T, ...]:
        return tuple(self.value.read(data) for _ in range(LENGTH.read(data)))


class KeySet:
    """As a row of keys: the numbers ascending, and then the texts."""

    def write(self, value: frozenset[int | str], out: bytearray) -> None:
        KEYS.write(tuple(sorted(value, key=_rank)), out)

    def read(self, data: Input) -> frozenset[int | str]:
        keys = KEYS.read(data)
        for last, key in pairwise(keys):
            if _rank(last) >= _rank(key):
                raise Malformed(f"has key {key!r} of a set after {last!r}")
        return frozenset(keys)


def _rank(key: int | str) -> tuple[bool, int | str]:
    return isinstance(key, str), key


@dataclass(frozen=True, slots=True)
class Maybe(Generic[T]):
    """None, or a value."""

    value: Form[T]

    def write(self, value: T | None, out: bytearray) -> None:
        KIND.write(value is not None, out)
        if value is not None:
            self.value.write(value, out)

    def read(self, data: Input) -> T | None:
        match KIND.read(data):
            case 0:
                return None
            case 1:
                return self.value.read(data)
            case kind:
                raise Malformed(f"has {kind} where 0 is for nothing, and 1 for a value")


@dataclass(frozen=True, slots=True)
class Fields(Generic[T]):
    """A class of values: its fields one after the other, without their names."""

    type: type[T]
    fields: Mapping[str, Form[Any]]

    def write(self, value: T, out: bytearray) -> None:
        for name, form in self.fields.items():
            form.write(getattr(value, name), out)

    def read(self, data: Input) -> T:
        return self.type(**{name: form.read(data) for name, form in self.fields.items()})


KIND: Final = Number(Struct("<B"))
LENGTH: Final = Number(Struct("<I"))
COUNT: Final = Number(Struct("<Q"))
TIME: Final = Number(Struct("<q"))
BLOB: Final = Blob()
TEXT: Final = Text()
KEY: Final = Key()
NUMBERS: Final = Numbers()
KEYS: Final = Row(KEY)
KEY_SET: Final = KeySet()
