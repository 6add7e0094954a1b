"""Groups of 8 bytes and a marker (`storage_keys.groups`) as Spark expressions."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from storage_keys.range import flipped as flipped_bytes

_GROUP: Final = 8
_MORE: Final = b"\x09"
_FLAT: Final = 2
"""Groups that are parts of the key itself, at no cost where there are none."""

_INLINE: Final = 4
"""Groups up to which each is an expression of its own; longer data is cut by a regular expression, which costs more
to begin with and less for each group."""

_LONGEST: Final = (1 << 31) - 1

_PADDING: Final = b"".join(bytes(_GROUP) + bytes((used,)) for used in range(1, _GROUP + 1))
"""A cell for each number of bytes used in the last group: what follows them is the end of the cell."""


def groups(data: Column, before: tuple[bytes, bytes], *, flipped: bool) -> list[Column]:
    """`before[0]` and the payload of `data`, as BINARY to be joined; where it is NULL, `before[1]` alone.

    Flipped, all bits of the payload are, not those of `before`.
    """
    length = sf.coalesce(sf.octet_length(data), sf.lit(0))
    full, empty = ((before[0] + _bits(bytes((some,)), flipped)) for some in (1, 0))
    lead = sf.when(length > 0, sf.lit(full)).when(data.isNull(), sf.lit(before[1])).otherwise(sf.lit(empty))
    # Of NULL too, the substrings below have no bytes.
    found = sf.coalesce(flip(data) if flipped else data, sf.lit(b""))
    more = _bits(_MORE, flipped)
    last = (length - 1).bitwiseAND(sf.lit(_GROUP - 1))
    unused = sf.when(length > 0, sf.lit(_GROUP) - last).otherwise(sf.lit(0))
    padding = sf.substring(sf.lit(_bits(_PADDING, flipped)), last * (_GROUP + 1) + last + 2, unused)
    inline = sf.concat(*_inline(found, length, range(_FLAT, _INLINE), more), padding)
    tail = (
        sf.when(length <= _FLAT * _GROUP, padding)
        .when(length <= _INLINE * _GROUP, inline)
        .otherwise(
            sf.concat(sf.lit(more), _cut(sf.substring(found, _FLAT * _GROUP + 1, _LONGEST), more), padding)
        )
    )
    return [lead, *_inline(found, length, range(_FLAT), more), tail]


def groups_length(data: Column) -> Column:
    """How many bytes `groups` gives behind `before`, as a bigint; NULL for NULL."""
    # A bigint: 9/8 of the longest string is no int.
    return sf.shiftright(sf.octet_length(data).cast("bigint") + (_GROUP - 1), 3) * (_GROUP + 1) + 1


def flip(data: Column) -> Column:
    """All bits of a BINARY column flipped."""
    digits = "0123456789ABCDEF"
    return sf.unhex(sf.translate(sf.hex(data), digits, digits[::-1]))


def _inline(data: Column, length: Column, at: range, more: bytes) -> list[Column]:
    """Groups by number, each with the marker before it that says that there is one."""
    parts = []
    for group in at:
        start = group * _GROUP
        if group:
            parts.append(sf.when(length > start, sf.lit(more)).otherwise(sf.lit(b"")))
        parts.append(sf.substring(data, start + 1, _GROUP))
    return parts


def _cut(data: Column, more: bytes) -> Column:
    """The bytes with a marker after each group that another one follows."""
    # $1 is the only group of the pattern, so that what follows it is text.
    return sf.unhex(sf.regexp_replace(sf.hex(data), sf.lit("(.{16})(?=.)"), sf.lit("$1" + more.hex())))


def _bits(data: bytes, flipped: bool) -> bytes:
    return flipped_bytes(data) if flipped else data
