import datetime
import decimal
import random
import struct
from collections.abc import Callable
from typing import Any, Final

import pytest

from storage_keys.types import (
    Array,
    Binary,
    Boolean,
    Date,
    Decimal,
    Floating,
    KeyType,
    String,
    Struct,
)
from storage_keys.value import signed_width

NULL_SHARE: Final = 0.12
DAYS: Final = (1, datetime.date(1582, 10, 4).toordinal(), 719_162, 719_163, datetime.date.max.toordinal())
FLOAT_BITS: Final = {
    4: (
        "00000000",
        "80000000",
        "00000001",
        "80000001",
        "7f7fffff",
        "7f800000",
        "ff800000",
        "7fc00001",
        "ffc00000",
    ),
    8: (
        *("0000000000000000", "8000000000000000", "0000000000000001", "8000000000000001", "3ff0000000000000"),
        *("7fefffffffffffff", "7ff0000000000000", "fff0000000000000", "7ff8000000000001", "fff8000000000000"),
    ),
}
# U+FB49 is below U+1F525 in UTF-8 and above it in UTF-16; groups of the encoding have 8 bytes.
LETTERS: Final = ("\0", "a", "b", "~", "é", "\ufb49", "\U0001f525", "\U0010ffff", "c" * 6, "d" * 8)
BYTES: Final = (b"\x00", b"\x01", b"\x08", b"\x09", b"\x7f", b"\xfe", b"\xff", b"\x00" * 7, b"\xff" * 8)


@pytest.fixture(scope="session")
def draw() -> Callable[[random.Random, KeyType], Any]:
    """A random value of a type, or None: its corners come often, and so do values near each other."""
    return _draw


def _draw(source: random.Random, type_: KeyType) -> Any:
    return None if source.random() < NULL_SHARE else _value(source, type_)


def _value(source: random.Random, type_: KeyType) -> Any:  # noqa: PLR0911 - one for each type
    match type_:
        case Boolean():
            return source.random() < 0.5
        case Floating(width):
            picked = source.choice(FLOAT_BITS[width]) if source.random() < 0.4 else None
            bits = bytes.fromhex(picked) if picked else source.randbytes(width)
            return struct.unpack(">f" if width == 4 else ">d", bits)[0]
        case Decimal():
            return _decimal(source, type_)
        case Date():
            day = source.choice(DAYS) if source.random() < 0.1 else source.randint(DAYS[0], DAYS[-1])
            return datetime.date.fromordinal(day)
        case String():
            return "".join(source.choice(LETTERS) for _ in range(source.randrange(6)))
        case Binary():
            return b"".join(source.choice(BYTES) for _ in range(source.randrange(6)))
        case Struct(fields):
            return tuple(_draw(source, field.type) for field in fields)
        case Array(element):
            return tuple(_draw(source, element) for _ in range(source.randrange(4)))
        case _:
            return _integer(source, 8 * signed_width(type_))


def _integer(source: random.Random, bits: int) -> int:
    high = 2 ** (bits - 1) - 1
    if source.random() < 0.1:
        return source.choice((-high - 1, -high, -1, 0, 1, high))
    return source.randint(-high - 1, high) >> source.randrange(bits)


def _decimal(source: random.Random, type_: Decimal) -> decimal.Decimal:
    """Of any number of digits, often with zeros at the end, which the encoding leaves out."""
    digits = source.randint(0, type_.precision)
    if source.random() < 0.2:
        unscaled = 10**digits - 1
    else:
        zeros = 10 ** source.randint(0, digits)
        unscaled = source.randrange(10**digits) // zeros * zeros
    return decimal.Decimal((source.randrange(2), tuple(map(int, str(unscaled))), -type_.scale))
