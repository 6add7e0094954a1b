"""The state of a key at all operators, as bytes, and bytes that are no such thing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.handover.effect import Install
from dispatcher.handover.region.errors import BadPayload, PayloadError, StrangeState
from dispatcher.handover.region.graph import Region
from dispatcher.handover.region.head import Head, step
from dispatcher.handover.region.payload import pack, unpack

NAMES = st.text(st.characters(codec="utf-8"), max_size=5)


@given(st.dictionaries(NAMES, st.binary(max_size=30)), st.integers(1, 40))
def test_states_come_back_in_chunks_of_that_size(states: dict[str, bytes], chunk_bytes: int) -> None:
    chunks = pack(states, chunk_bytes)
    assert unpack(b"".join(chunks)) == states
    assert all(len(chunk) == chunk_bytes for chunk in chunks[:-1])
    assert chunks == pack(dict(sorted(states.items(), reverse=True)), chunk_bytes)


def test_the_layout() -> None:
    assert pack({}, 10) == (b"",)
    assert pack({"b": b"", "a": b"xy"}, 100) == (
        b"\0\0\0\x01\0\0\0\0\0\0\0\x02axy\0\0\0\x01\0\0\0\0\0\0\0\0b",
    )


@given(st.binary(max_size=60))
def test_any_bytes_are_states_or_our_error(packed: bytes) -> None:
    try:
        states = unpack(packed)
    except BadPayload:
        return
    assert pack(states, 100) == (packed,)


@pytest.mark.parametrize(
    ("packed", "message"),
    [
        (b"\0\0", "ends inside the lengths at byte 0"),
        (pack({"a": b"xy"}, 100)[0][:-1], "is 14 bytes long, and a part of it goes on to 15"),
        (b"\xff" * 12, "goes on to"),
        (pack({"a": b""}, 100)[0] * 2, "b'a' comes behind b'a'"),
        (pack({"b": b""}, 100)[0] + pack({"a": b""}, 100)[0], "b'a' comes behind b'b'"),
        (b"\0\0\0\x01" + bytes(8) + b"\xff", "is no name in UTF-8"),
    ],
)
def test_what_is_wrong_with_them_is_said(packed: bytes, message: str) -> None:
    with pytest.raises(BadPayload, match=message):
        unpack(packed)


def test_state_of_another_graph_is_refused() -> None:
    head: Head[str] = Head(Region("d", {"d": ("count", "map")}, frozenset({"count"})))
    with pytest.raises(StrangeState, match="of a has parts of 'map', 'sum', which hold no state") as raised:
        step(head, Install("a", pack({"count": b"1", "sum": b"2", "map": b""}, 100)))
    assert isinstance(raised.value, PayloadError)
