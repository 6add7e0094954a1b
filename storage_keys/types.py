"""The column types that a storage key may have, by Spark's SQL names."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from storage_keys.errors import UnsupportedType


@dataclass(frozen=True, slots=True)
class Boolean:
    sql_name: ClassVar[str] = "boolean"


@dataclass(frozen=True, slots=True)
class Integer:
    """A signed integer of `width` bytes."""

    width: Literal[1, 2, 4, 8]

    @property
    def sql_name(self) -> str:
        return {1: "tinyint", 2: "smallint", 4: "int", 8: "bigint"}[self.width]


@dataclass(frozen=True, slots=True)
class Date:
    """Days since 1970-01-01, proleptic Gregorian."""

    sql_name: ClassVar[str] = "date"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Microseconds since 1970-01-01T00:00:00Z; the session's time zone plays no part."""

    sql_name: ClassVar[str] = "timestamp"


@dataclass(frozen=True, slots=True)
class String:
    """UTF-8, compared by its bytes (Spark's UTF8_BINARY)."""

    sql_name: ClassVar[str] = "string"


@dataclass(frozen=True, slots=True)
class Binary:
    sql_name: ClassVar[str] = "binary"


KeyType = Boolean | Integer | Date | Timestamp | String | Binary

BOOLEAN: Final = Boolean()
TINYINT: Final = Integer(1)
SMALLINT: Final = Integer(2)
INT: Final = Integer(4)
BIGINT: Final = Integer(8)
DATE: Final = Date()
TIMESTAMP: Final = Timestamp()
STRING: Final = String()
BINARY: Final = Binary()

KEY_TYPES: Final[tuple[KeyType, ...]] = (
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INT,
    BIGINT,
    DATE,
    TIMESTAMP,
    STRING,
    BINARY,
)
TYPE_NAMES: Final = tuple(type_.sql_name for type_ in KEY_TYPES)

_BY_NAME: Final[dict[str, KeyType]] = {
    **dict(zip(TYPE_NAMES, KEY_TYPES, strict=True)),
    "byte": TINYINT,
    "short": SMALLINT,
    "integer": INT,
    "long": BIGINT,
}


def parse_type(name: str) -> KeyType:
    """The type of a Spark SQL name, in any case ("bigint", "BIGINT", "long")."""
    found = _BY_NAME.get(name.strip().lower())
    if found is None:
        raise UnsupportedType(name, TYPE_NAMES)
    return found
