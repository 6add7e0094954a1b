"""The column types that a storage key may have."""

from dataclasses import dataclass
from typing import ClassVar, Final, Literal

from storage_keys.errors import UnsupportedType, ValueOutOfRange

DECIMAL_DIGITS_MAX: Final = 38
LONG_DIGITS_MAX: Final = 18
"""A decimal of so many digits has an unscaled value of 64 bits; beyond, it is hashed in another way."""

DEPTH_MAX: Final = 32
"""Deeper than a real table's nesting, and shallow enough for every walk over a type."""


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
class Floating:
    """An IEEE 754 number of `width` bytes. All NaNs are one value, above infinity; -0.0 is 0.0."""

    width: Literal[4, 8]

    @property
    def sql_name(self) -> str:
        return {4: "float", 8: "double"}[self.width]


@dataclass(frozen=True, slots=True)
class Decimal:
    """Up to `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int

    def __post_init__(self) -> None:
        if not 1 <= self.precision <= DECIMAL_DIGITS_MAX:
            raise ValueOutOfRange("the precision of a decimal", self.precision, 1, DECIMAL_DIGITS_MAX)
        if not 0 <= self.scale <= self.precision:
            raise ValueOutOfRange("the scale of a decimal", self.scale, 0, self.precision)

    @property
    def sql_name(self) -> str:
        return f"decimal({self.precision},{self.scale})"


@dataclass(frozen=True, slots=True)
class Date:
    """Days since 1970-01-01, proleptic Gregorian."""

    sql_name: ClassVar[str] = "date"


@dataclass(frozen=True, slots=True)
class Timestamp:
    """Microseconds since 1970-01-01T00:00:00Z; the session's time zone plays no part."""

    sql_name: ClassVar[str] = "timestamp"


@dataclass(frozen=True, slots=True)
class TimestampNtz:
    """A wall clock without a zone, as microseconds since 1970-01-01T00:00:00 on that clock."""

    sql_name: ClassVar[str] = "timestamp_ntz"


@dataclass(frozen=True, slots=True)
class YearMonthInterval:
    """A 32-bit number of months."""

    sql_name: ClassVar[str] = "interval year to month"


@dataclass(frozen=True, slots=True)
class DayTimeInterval:
    """A 64-bit number of microseconds."""

    sql_name: ClassVar[str] = "interval day to second"


@dataclass(frozen=True, slots=True)
class String:
    """UTF-8, compared by its bytes (Spark's UTF8_BINARY)."""

    sql_name: ClassVar[str] = "string"


@dataclass(frozen=True, slots=True)
class Binary:
    sql_name: ClassVar[str] = "binary"


@dataclass(frozen=True, slots=True)
class Field:
    name: str
    type: "KeyType"


@dataclass(frozen=True, slots=True)
class Struct:
    """Compared field by field; a nested NULL is smallest, as in Spark."""

    fields: tuple[Field, ...]

    @property
    def sql_name(self) -> str:
        return "struct<" + ",".join(f"{_quoted(of.name)}:{of.type.sql_name}" for of in self.fields) + ">"


@dataclass(frozen=True, slots=True)
class Array:
    """Compared element by element, a shorter one first; a nested NULL is smallest, as in Spark."""

    element: "KeyType"

    @property
    def sql_name(self) -> str:
        return f"array<{self.element.sql_name}>"


FlatType = (
    Boolean
    | Integer
    | Floating
    | Decimal
    | Date
    | Timestamp
    | TimestampNtz
    | YearMonthInterval
    | DayTimeInterval
    | String
    | Binary
)
"""What a distribution column may be: a struct and an array have no H."""

KeyType = FlatType | Struct | Array

BOOLEAN: Final = Boolean()
TINYINT: Final = Integer(1)
SMALLINT: Final = Integer(2)
INT: Final = Integer(4)
BIGINT: Final = Integer(8)
FLOAT: Final = Floating(4)
DOUBLE: Final = Floating(8)
DATE: Final = Date()
TIMESTAMP: Final = Timestamp()
TIMESTAMP_NTZ: Final = TimestampNtz()
YEAR_MONTH_INTERVAL: Final = YearMonthInterval()
DAY_TIME_INTERVAL: Final = DayTimeInterval()
STRING: Final = String()
BINARY: Final = Binary()

PLAIN_TYPES: Final[tuple[FlatType, ...]] = (
    BOOLEAN,
    TINYINT,
    SMALLINT,
    INT,
    BIGINT,
    FLOAT,
    DOUBLE,
    DATE,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    YEAR_MONTH_INTERVAL,
    DAY_TIME_INTERVAL,
    STRING,
    BINARY,
)
"""The types without parameters."""

FLAT_TYPE_NAMES: Final = (*(type_.sql_name for type_ in PLAIN_TYPES), "decimal(p,s)")
TYPE_NAMES: Final = (*FLAT_TYPE_NAMES, "struct<...>", "array<...>")


def check_depth(type_: KeyType) -> None:
    """Refuse a type with another more than 32 deep inside."""
    # Level by level: a walk that calls itself would end in a RecursionError.
    level: list[KeyType] = [type_]
    for _ in range(DEPTH_MAX + 1):
        level = [inner for one in level for inner in _inside(one)]
    if level:
        raise too_deep("array<...>" if isinstance(type_, Array) else "struct<...>")


def too_deep(name: str) -> UnsupportedType:
    return UnsupportedType(name, TYPE_NAMES, advice=f"it is nested more than {DEPTH_MAX} deep; flatten it")


def _inside(type_: KeyType) -> tuple[KeyType, ...]:
    match type_:
        case Struct(fields):
            return tuple(field.type for field in fields)
        case Array(element):
            return (element,)
    return ()


def _quoted(name: str) -> str:
    return name if name.isidentifier() else "`" + name.replace("`", "``") + "`"
