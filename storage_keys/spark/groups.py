"""Groups of 8 bytes and a marker (`storage_keys.groups`) as Spark expressions."""

from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as sf

from storage_keys.range import flipped as flipped_bytes

_GROUP: Final = 8
_MORE: Final = b"\x09"
_INLINE_MAX: Final = 32
"""Bytes up to which each group is an expression of its own; longer ones are cut by a regular expression, which
costs more to begin with and less for each group."""

_PADDING: Final = b"".join(bytes(_GROUP) + bytes((used,)) for used in range(1, _GROUP + 1))
"""A cell for each number of bytes used in the last group: what follows them is the end of the cell."""


def groups(data: Column, before: tuple[bytes, bytes], *, flipped: bool) -> list[Column]:
    """`before[0]` and the payload of `data`, as BINARY to be joined; where it is NULL, `before[1]` alone.

    Flipped, all bits of the payload are, not those of `before`.
    """
    length = sf.octet_length(data)
    full, empty = ((before[0] + _bits(bytes((some,)), flipped)) for some in (1, 0))
    lead = sf.when(length > 0, sf.lit(full)).when(length == 0, sf.lit(empty)).otherwise(sf.lit(before[1]))
    body = _body(data, length)
    unused = (length - 1).bitwiseAND(sf.lit(_GROUP - 1))
    padding = sf.substring(sf.lit(_bits(_PADDING, flipped)), unused * 10 + 2, sf.lit(_GROUP) - unused)
    return [
        lead,
        sf.coalesce(flip(body) if flipped else body, sf.lit(b"")),
        sf.when(length > 0, padding).otherwise(sf.lit(b"")),
    ]


def flip(data: Column) -> Column:
    """All bits of a BINARY column flipped."""
    digits = "0123456789ABCDEF"
    return sf.unhex(sf.translate(sf.hex(data), digits, digits[::-1]))


def _body(data: Column, length: Column) -> Column:
    """The bytes with a marker after each group that another one follows."""
    # $1 is the only group of the pattern, so that 09 is text.
    cut = sf.unhex(sf.regexp_replace(sf.hex(data), sf.lit("(.{16})(?=.)"), sf.lit("$109")))
    body = sf.when(length <= _GROUP, data)
    for end in range(2 * _GROUP, _INLINE_MAX + 1, _GROUP):
        starts = range(0, end, _GROUP)
        marked = [part for start in starts for part in (sf.lit(_MORE), sf.substring(data, start + 1, _GROUP))]
        body = body.when(length <= end, sf.concat(*marked[1:]))
    return body.otherwise(cut)


def _bits(data: bytes, flipped: bool) -> bytes:
    return flipped_bytes(data) if flipped else data
