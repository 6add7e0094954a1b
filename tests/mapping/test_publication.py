import json
from contextlib import suppress
from hashlib import sha256
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed, MalformedPublication
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import (
    Base,
    Current,
    MappingVersion,
    Phase,
    current_key,
    decode_body,
    digest,
    encode_body,
    version_key,
)
from meta.mapping.unit import Unit

ETCD_REQUEST_BYTES_MAX = 1_572_864  # 1.5 MiB

THREE = (Unit(0, "w1"), Unit(1, "w1"), Unit(5, "w2", 2.0))
VERSION = MappingVersion(
    fragment="flights",
    version=2,
    hash_id="xxh64-1:utf8",
    units=THREE,
    mapping=VnodeMapping.parse("0*2 1 5*5"),
    previous=Base(1, (*THREE[:2], Unit(9, "w2")), VnodeMapping.parse("0*3 1 9*4")),
)
BODY = encode_body(VERSION)
CURRENT = Current(2, Phase.RESCALING, digest(BODY))

workers = st.text(min_size=1, max_size=5) | st.sampled_from(["\ud800", "a", "b"])
weights = st.floats(min_value=0, allow_nan=False, allow_infinity=False) | st.integers(0, 2**70)
unit_tuples = st.lists(
    st.builds(Unit, st.integers(0, 30), workers, weights),
    min_size=1,
    max_size=6,
    unique_by=lambda unit: unit.id,
).map(lambda units: tuple(sorted(units)))


@st.composite
def versions(draw: st.DrawFn) -> MappingVersion:
    def mapping_on(units: tuple[Unit, ...]) -> VnodeMapping:
        owners = st.lists(st.sampled_from([unit.id for unit in units]), min_size=1, max_size=20)
        return VnodeMapping(tuple(draw(owners)))

    units, before = draw(unit_tuples), draw(unit_tuples)
    base = Base(draw(st.integers(1, 5)), before, mapping_on(before))
    return MappingVersion(
        fragment=draw(st.from_regex(r"\A[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,10}\Z")),
        version=draw(st.integers(6, 2**63 - 1)),
        hash_id=draw(st.text(min_size=1)),
        units=units,
        mapping=mapping_on(units),
        previous=draw(st.none() | st.just(base)),
    )


def test_a_body_is_small_readable_and_always_the_same() -> None:
    assert BODY == (
        b'{"format":1,"fragment":"flights","hash_id":"xxh64-1:utf8","owners":"0*2 1 5*5",'
        b'"previous":{"owners":"0*3 1 9*4","units":{"w1":[[0,1.0],[1,1.0]],"w2":[[9,1.0]]},"version":1},'
        b'"units":{"w1":[[0,1.0],[1,1.0]],"w2":[[5,2.0]]},"version":2}'
    )
    assert digest(BODY) == sha256(BODY).hexdigest()
    assert CURRENT.encode() == (
        b'{"digest":"' + digest(BODY).encode() + b'","phase":"rescaling","version":2}'
    )


@given(versions())
def test_bodies_come_back_as_they_went(version: MappingVersion) -> None:
    body = encode_body(version)
    assert decode_body(body) == version
    assert encode_body(decode_body(body)) == body


@pytest.mark.parametrize("phase", list(Phase))
def test_current_comes_back_as_it_went(phase: Phase) -> None:
    current = Current(7, phase, "0" * 64)
    assert Current.decode(current.encode()) == current


def decode_or_refuse(value: bytes) -> None:
    """Decoding either refuses in its one way, or gives what these very bytes say."""
    with suppress(MalformedPublication):
        assert encode_body(decode_body(value)) == value
    with suppress(MalformedPublication):
        assert Current.decode(value).encode() == value


@given(st.binary(max_size=200))
@example(b"")
@example(b"null")
@example(b"\xff\xfe[\x00]\x00")
@example(b"[" * 100_000)
@example(b"1" * 10_000)
@example(b'{"digest":"","phase":{},"version":1}')
def test_any_bytes_are_refused_in_one_way(value: bytes) -> None:
    decode_or_refuse(value)


@given(st.sampled_from([BODY, CURRENT.encode()]), st.data())
def test_damaged_bytes_are_refused_or_what_they_say(good: bytes, data: st.DataObject) -> None:
    damaged = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(damaged) - 1))
        damaged[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
        damaged = damaged or bytearray(b"0")
    decode_or_refuse(bytes(damaged))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@given(st.sampled_from(sorted(json.loads(BODY))), json_values)
@example("owners", "0*99999999")
@example("owners", "0*65537")
@example("owners", "0*2 1 1 5*4")
@example("owners", "0*2 2 5*5")
@example("owners", "-*8")
@example("units", {"w1": [[0, True]]})
@example("units", {"w1": [[0, 1.0], [0, 1.0]]})
@example("units", {"w1": 3})
@example("units", {"w1": [3]})
@example("previous", {"owners": 3, "units": {}, "version": 1})
@example("version", 1)
@example(name="version", value=True)
@example("format", 2)
@example("format", 1.0)
@example("fragment", "a/b")
def test_a_field_of_another_shape_is_refused_or_what_it_says(name: str, value: Any) -> None:
    fields = json.loads(BODY)
    if fields[name] == value and type(fields[name]) is type(value):
        return
    fields[name] = value
    body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
    decode_or_refuse(body)


@pytest.mark.parametrize(
    "body",
    [
        BODY + b" ",
        BODY.replace(b"0*2 1 5*5", b"0 0 1 5*5"),
        BODY.replace(b"0*2 1 5*5", b"0*2 1*1 5*5"),
        BODY.replace(b"[5,2.0]", b"[5,2]"),
        BODY.replace(b'"version":2', b'"version":2,"version":2'),
        BODY.replace(b"0*2 1 5*5", b"0*2 1 6*5"),
        BODY.replace(b'"version":2', b'"extra":0,"version":2'),
    ],
)
def test_only_the_canonical_bytes_are_a_body(body: bytes) -> None:
    assert body != BODY
    with pytest.raises(MalformedPublication):
        decode_body(body)


def test_the_largest_body_stays_far_under_what_etcd_takes() -> None:
    """65,536 vnodes without any run, in F and in F', over 4,096 units with a worker each."""
    units = tuple(Unit(unit_id, f"worker-{unit_id:04d}") for unit_id in range(4096))
    owners = tuple(vnode % 4096 for vnode in range(65_536))
    base = Base(10**18, units, VnodeMapping(owners[::-1]))
    version = MappingVersion("f" * 200, 10**18 + 1, "xxh64-1:i64", units, VnodeMapping(owners), base)
    body = encode_body(version)
    print(f"{len(body)} bytes, {len(body) / ETCD_REQUEST_BYTES_MAX:.0%} of what etcd takes")
    assert len(body) < 0.6 * ETCD_REQUEST_BYTES_MAX
    assert decode_body(body) == version


def test_what_supersedes_what() -> None:
    story = [
        Current(1, Phase.RESCALING, "a" * 64),
        Current(1, Phase.ACCEPTED, "a" * 64),
        Current(1, Phase.SETTLED, "a" * 64),
        Current(2, Phase.RESCALING, "b" * 64),
        Current(10, Phase.RESCALING, "c" * 64),
    ]
    for earlier_at, earlier in enumerate(story):
        assert earlier.supersedes(None)
        for later_at, later in enumerate(story):
            assert later.supersedes(earlier) == (later_at > earlier_at)


def test_one_version_with_two_bodies_is_a_contradiction() -> None:
    ours, theirs = Current(3, Phase.RESCALING, "a" * 64), Current(3, Phase.SETTLED, "b" * 64)
    assert ours.contradicts(theirs)
    assert not ours.contradicts(Current(3, Phase.SETTLED, "a" * 64))
    assert not ours.contradicts(Current(4, Phase.SETTLED, "b" * 64))
    assert not ours.contradicts(None)


def test_keys_sort_by_version() -> None:
    assert current_key("flights") == "/vnodemap/v1/fragments/flights/current"
    assert version_key("flights", 3, root="/t") == "/t/fragments/flights/versions/0000000000000000003"
    keys = [version_key("f", version) for version in (1, 2, 10, 999, 2**63 - 1)]
    assert keys == sorted(keys)
    for name in ("", "a/b", "../a", ".hidden", "ä", "a" * 201, "a\n"):
        with pytest.raises(Malformed):
            current_key(name)


def test_versions_that_cannot_be() -> None:
    mapping = VnodeMapping((0, 1))
    units = (Unit(0, "a"), Unit(1, "a"))
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        MappingVersion("f", 1, "h", units, VnodeMapping((0, None)))
    with pytest.raises(Malformed, match="unit 1 owns vnodes"):
        MappingVersion("f", 1, "h", units[:1], mapping)
    with pytest.raises(Malformed, match="sorted"):
        MappingVersion("f", 1, "h", units[::-1], mapping)
    with pytest.raises(Malformed, match="cannot follow"):
        MappingVersion("f", 1, "h", units, mapping, Base(1, units, mapping))
    with pytest.raises(Malformed, match="from 1"):
        MappingVersion("f", 0, "h", units, mapping)
    with pytest.raises(Malformed, match="hash id"):
        MappingVersion("f", 1, "", units, mapping)
    with pytest.raises(Malformed, match="hex"):
        Current(1, Phase.SETTLED, "A" * 64)
