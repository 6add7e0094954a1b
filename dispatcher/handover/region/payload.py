"""The state of a key at all operators of a region, as one value.

For each operator that has state, in the order of their names: the length of the name in bytes (4 bytes), that of the
state (8 bytes), both big-endian, the name in UTF-8, the state. So no state at all is no byte.
"""

from collections.abc import Mapping
from struct import Struct
from typing import Final

from dispatcher.handover.region.errors import BadPayload

_LENGTHS: Final = Struct(">IQ")


def pack(states: Mapping[str, bytes], chunk_bytes: int) -> tuple[bytes, ...]:
    """In chunks, of which there is at least one, and none but the last is shorter than `chunk_bytes`."""
    named = sorted((operator.encode(), state) for operator, state in states.items())
    packed = b"".join(_LENGTHS.pack(len(name), len(state)) + name + state for name, state in named)
    return tuple(packed[at : at + chunk_bytes] for at in range(0, len(packed), chunk_bytes)) or (b"",)


def unpack(packed: bytes) -> dict[str, bytes]:
    """Raises `BadPayload`: the bytes may be anything."""
    states: dict[str, bytes] = {}
    at, last = 0, b""
    while at < len(packed):
        name_at = at + _LENGTHS.size
        if name_at > len(packed):
            raise BadPayload(f"it ends inside the lengths at byte {at}")
        name_bytes, state_bytes = _LENGTHS.unpack_from(packed, at)
        state_at = name_at + name_bytes
        at = state_at + state_bytes
        if at > len(packed):
            raise BadPayload(f"it is {len(packed)} bytes long, and a part of it goes on to {at}")
        name = packed[name_at:state_at]
        if states and name <= last:
            raise BadPayload(f"{name!r} comes behind {last!r}")
        states[_text(name)], last = packed[state_at:at], name
    return states


def _text(name: bytes) -> str:
    try:
        return name.decode()
    except UnicodeDecodeError as error:
        raise BadPayload(f"{name!r} is no name in UTF-8") from error
