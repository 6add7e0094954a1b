"""The payload of a string or a binary: bytes in groups of 8 that say whether more follows (memcomparable 0.2).

Empty is 00; else 01, then groups of 8 bytes, zero-padded, each with a marker: 1 to 8 = bytes used in the last
group, 9 = more follows. So a string sorts before a longer one that starts with it, whatever column comes next.
"""

from typing import Final

from storage_keys.errors import MalformedKey, Truncated

_GROUP: Final = 8
_MORE: Final = 9


def encode_groups(data: bytes) -> bytes:
    """The payload of `data`."""
    if not data:
        return b"\x00"
    # The last group is never empty: 8 bytes are one group of marker 8, not a full one and an empty one.
    last = (len(data) - 1) // _GROUP * _GROUP
    parts = [b"\x01"]
    for start in range(0, last, _GROUP):
        parts += (data[start : start + _GROUP], b"\x09")
    tail = data[last:]
    parts += (tail.ljust(_GROUP, b"\x00"), bytes((len(tail),)))
    return b"".join(parts)


def decode_groups(data: bytes, start: int) -> tuple[bytes, int]:
    """The bytes whose payload begins at `start`, and where it ends. Refuses what `encode_groups` does not write."""
    first = data[start : start + 1]
    if not first:
        raise Truncated(start + 1, len(data))
    if first == b"\x00":
        return b"", start + 1
    if first != b"\x01":
        raise MalformedKey(
            f"a string or binary starts with 00 or 01, not {first.hex()}; check type and order"
        )
    parts = []
    position = start + 1
    while True:
        group, position = data[position : position + _GROUP + 1], position + _GROUP + 1
        if len(group) <= _GROUP:
            raise Truncated(position, len(data))
        marker = group[_GROUP]
        # Anything but zeros in the padding would give one value two encodings.
        if not 1 <= marker <= _MORE or any(group[marker:_GROUP]):
            raise MalformedKey(
                f"no group of 8 bytes and a marker ends at byte {position}; check type and order"
            )
        parts.append(group[: min(marker, _GROUP)])
        if marker != _MORE:
            return b"".join(parts), position
