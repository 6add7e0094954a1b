"""Types by Spark's SQL names, as `DataType.simpleString` writes them: bigint, array<struct<a:int>>."""

import re
from itertools import pairwise
from typing import Final

from storage_keys.errors import UnsupportedType
from storage_keys.types import (
    BIGINT,
    DAY_TIME_INTERVAL,
    DEPTH_MAX,
    INT,
    PLAIN_TYPES,
    SMALLINT,
    TINYINT,
    TYPE_NAMES,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    Field,
    KeyType,
    Struct,
    too_deep,
)


def _intervals() -> dict[str, KeyType]:
    """Spark's names of intervals, such as `interval day` and `interval hour to second`; the bytes are the same."""
    names: dict[str, KeyType] = {}
    year_month, day_time = ("year", "month"), ("day", "hour", "minute", "second")
    for units, type_ in ((year_month, YEAR_MONTH_INTERVAL), (day_time, DAY_TIME_INTERVAL)):
        for at, first in enumerate(units):
            names[f"interval {first}"] = type_
            names |= {f"interval {first} to {last}": type_ for last in units[at + 1 :]}
    return names


_BY_NAME: Final[dict[str, KeyType]] = {
    **{type_.sql_name: type_ for type_ in PLAIN_TYPES},
    **_intervals(),
    "byte": TINYINT,
    "short": SMALLINT,
    "integer": INT,
    "long": BIGINT,
}

_DECIMAL: Final = re.compile(r"decimal\s*\(\s*([0-9]{1,4})\s*,\s*([0-9]{1,4})\s*\)", re.IGNORECASE)
# No two neighbours take the same character: a hostile name must not make the search try every split of it.
_FIELD: Final = re.compile(r"(?:`((?:[^`]|``)*)`\s*|([^`:<>,]+)):")
_TOKEN: Final = re.compile(r"`(?:[^`]|``)*`|[<>(),]")


def parse_type(name: str) -> KeyType:
    """The type of a Spark SQL name, in any case ("bigint", "BIGINT", "long", "array<decimal(10,2)>").

    Raises `UnsupportedType`, and `ValueOutOfRange` for a decimal of too many digits.
    """
    return _parsed(name, 0)


def _parsed(name: str, depth: int) -> KeyType:
    if depth > DEPTH_MAX:
        raise too_deep(name)
    plain = " ".join(name.lower().split())
    if plain in _BY_NAME:
        return _BY_NAME[plain]
    if found := _DECIMAL.fullmatch(name.strip()):
        return Decimal(int(found[1]), int(found[2]))
    if plain.startswith("array<") and plain.endswith(">"):
        return Array(_parsed(_inside(name), depth + 1))
    if plain.startswith("struct<") and plain.endswith(">"):
        return Struct(tuple(_field(part, depth + 1) for part in _parts(_inside(name))))
    raise UnsupportedType(name, TYPE_NAMES)


def _inside(name: str) -> str:
    """What is between the outermost angle brackets."""
    return name[name.index("<") + 1 : name.rindex(">")]


def _parts(fields: str) -> list[str]:
    """The text between the commas that are in no bracket and in no name."""
    if not fields.strip():
        return []
    cuts, depth = [-1], 0
    for token in _TOKEN.finditer(fields):
        match token[0]:
            case "<" | "(":
                depth += 1
            case ">" | ")":
                depth -= 1
            case "," if depth == 0:
                cuts.append(token.start())
    return [fields[start + 1 : end] for start, end in pairwise([*cuts, len(fields)])]


def _field(part: str, depth: int) -> Field:
    part = part.strip()
    named = _FIELD.match(part)
    if named is None:
        raise UnsupportedType(part, TYPE_NAMES)
    quoted, bare = named.groups()
    name = bare.strip() if quoted is None else quoted.replace("``", "`")
    return Field(name, _parsed(part[named.end() :], depth))
