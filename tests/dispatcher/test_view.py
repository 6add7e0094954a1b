"""What a reader may believe, checked against a dumb record of all that it was told."""

from dataclasses import dataclass, field, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.errors import DigestConflict, WrongBody
from dispatcher.view import Report, Source, View, accepted, checked_body, confirms, needs_body, report, taken
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Base, Current, MappingVersion, Phase, digest, encode_body
from meta.mapping.unit import Unit

UNITS = (Unit(0, "w1"), Unit(1, "w2"))
RESCALING, ACCEPTED, SETTLED = Phase


def version(number: int, *, base: int | None = None, fragment: str = "flights") -> MappingVersion:
    """Version `number`, with the owners of a mapping that no other number has."""

    def mapping(of: int) -> VnodeMapping:
        return VnodeMapping(tuple((of >> bit) & 1 for bit in range(8)))

    previous = None if base is None else Base(base, UNITS, mapping(base))
    return MappingVersion(fragment, number, "xxh64-1:utf8", UNITS, mapping(number), previous)


def current(published: MappingVersion, phase: Phase) -> Current:
    return Current(published.version, phase, digest(encode_body(published)))


def told(view: View | None, published: MappingVersion, phase: Phase, now_ms: int = 0) -> View:
    return taken(view, published, current(published, phase), Source.ETCD, now_ms)


def test_a_version_is_used_from_its_acceptance_on_and_the_one_before_until_then() -> None:
    view = told(None, version(1), SETTLED)
    view = told(view, version(2, base=1), RESCALING)
    assert (view.newest.version, view.usable) == (2, version(1))
    assert view.unaccepted == 2

    view = accepted(view, 2, ACCEPTED)
    assert (view.usable, view.unaccepted) == (version(2, base=1), None)


def test_who_starts_in_the_middle_of_a_rescale_uses_the_version_that_travels_in_the_body() -> None:
    view = told(None, version(5, base=4), RESCALING)
    assert view.usable == version(4)


def test_a_version_before_with_vnodes_of_nobody_is_not_used() -> None:
    newest = version(5, base=4)
    assert newest.previous is not None
    hole = VnodeMapping((None, *newest.previous.mapping.owners[1:]))
    assert told(None, replace(newest, previous=Base(4, UNITS, hole)), RESCALING).usable is None


def test_an_aborted_version_is_never_used() -> None:
    view = told(None, version(1), SETTLED)
    view = told(view, version(2, base=1), RESCALING)
    view = told(view, version(3, base=1), SETTLED)
    assert view.usable == version(3, base=1)
    assert accepted(view, 2, ACCEPTED) == view, "an answer that comes late"
    assert accepted(view, 4, ACCEPTED) == view, "an answer on a version that was never seen"


def test_a_superseded_rescale_does_not_bring_an_older_version_back() -> None:
    view = told(None, version(2, base=1), ACCEPTED)
    view = told(view, version(3, base=1), RESCALING)
    assert view.usable == version(2, base=1)


def test_the_past_changes_nothing_and_confirms_nothing() -> None:
    view = told(None, version(7), SETTLED, now_ms=100)
    assert told(view, version(6), SETTLED, now_ms=900) is view
    assert not confirms(view, current(version(6), SETTLED))
    assert view.age_ms(900) == 800


def test_the_same_version_confirms_even_in_a_phase_of_the_past() -> None:
    view = accepted(told(None, version(2, base=1), RESCALING, now_ms=100), 2, ACCEPTED)
    view = told(view, version(2, base=1), RESCALING, now_ms=900)
    assert view.age_ms(900) == 0
    assert view.current.phase is ACCEPTED


def test_one_version_with_two_bodies_names_both_digests() -> None:
    ours, theirs = current(version(2, base=1), SETTLED), current(version(2), SETTLED)
    view = taken(None, version(2, base=1), ours, Source.DISK, 0)
    with pytest.raises(DigestConflict) as conflict:
        taken(view, view.newest, theirs, Source.ETCD, 0)
    assert (conflict.value.held, conflict.value.offered) == (ours.digest, theirs.digest)
    assert ours.digest in str(conflict.value)
    assert theirs.digest in str(conflict.value)


def test_a_body_is_taken_only_where_it_is_the_one_announced() -> None:
    announced = current(version(2), SETTLED)
    assert checked_body("flights", announced, encode_body(version(2))) == version(2)
    with pytest.raises(WrongBody, match="its digest is"):
        checked_body("flights", announced, encode_body(version(2)) + b" ")


@pytest.mark.parametrize(
    "body",
    [
        encode_body(version(3)),
        encode_body(version(2, fragment="trains")),
        b"",
        b"[]",
        b"\xff\x00",
        encode_body(version(2)).replace(b'"format":1', b'"format":2'),
    ],
)
def test_a_body_of_something_else_is_refused_though_its_digest_is_right(body: bytes) -> None:
    with pytest.raises(WrongBody) as refused:
        checked_body("flights", Current(2, SETTLED, digest(body)), body)
    assert refused.value.version == 2


def test_the_oldest_pin_is_acknowledged_and_nothing_is_accepted_beside_a_pin() -> None:
    view = told(told(None, version(1), SETTLED), version(2, base=1), RESCALING)
    assert report(view, [], "applier") == Report(acknowledge=1, accept=2)
    assert report(view, [1], "applier") == Report(acknowledge=1, accept=None)

    view = accepted(view, 2, ACCEPTED)
    assert report(view, [2, 1], "applier") == Report(acknowledge=1, accept=None)
    assert report(view, [2], "applier") == Report(acknowledge=2, accept=None)
    assert report(view, [], "applier") == Report(acknowledge=2, accept=None)


def test_a_reader_never_asks_for_acceptance() -> None:
    view = told(told(None, version(1), SETTLED), version(2, base=1), RESCALING)
    assert report(view, [], "reader") == Report(acknowledge=1, accept=None)


def test_nothing_is_acknowledged_before_anything_is_known() -> None:
    assert report(None, [], "applier") == Report(acknowledge=None, accept=None)


@dataclass
class Enemy:
    """Sources that say anything that was ever true, in any order, and a record of it all."""

    fates: dict[int, Phase]  # the last phase of each version; RESCALING means that it was aborted
    view: View | None = None
    pins: list[int] = field(default_factory=list)
    usable_by_right: set[int] = field(default_factory=set)
    seen: list[tuple[int, int]] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)

    def publication(self, number: int) -> MappingVersion:
        base = max(
            (n for n, fate in self.fates.items() if n < number and fate is not RESCALING), default=None
        )
        return version(number, base=base)

    def say(self, number: int, phase: Phase) -> None:
        published = self.publication(number)
        announced = current(published, min(phase, self.fates[number], key=lambda each: each.rank))
        if announced.phase is not RESCALING:
            self.usable_by_right.add(number)
        if published.previous is not None:
            self.usable_by_right.add(published.previous.version)
        newest = published
        if not needs_body(self.view, announced):
            assert self.view is not None
            newest = self.view.newest
        self.view = taken(self.view, newest, announced, Source.ETCD, 0)

    def accept(self) -> None:
        asked = report(self.view, self.pins, "applier").accept
        if asked is not None and self.fates[asked] is not RESCALING:
            assert self.view is not None
            self.usable_by_right.add(asked)
            self.view = accepted(self.view, asked, ACCEPTED)

    def pin(self) -> None:
        if self.view is not None and self.view.usable is not None:
            self.pins.append(self.view.usable.version)

    def unpin(self, which: int) -> None:
        if self.pins:
            self.pins.pop(which % len(self.pins))

    def check(self) -> None:
        if self.view is None or self.view.usable is None:
            return
        usable = self.view.usable
        assert usable.version in self.usable_by_right
        assert usable.mapping == self.publication(usable.version).mapping
        self.seen.append((self.view.newest.version, usable.version))
        acknowledged = report(self.view, self.pins, "applier").acknowledge
        assert acknowledged == min([*self.pins, usable.version])
        self.acknowledged.append(acknowledged)

    def check_never_back(self) -> None:
        for values in (*map(list, zip(*self.seen, strict=True)), self.acknowledged):
            assert values == sorted(values)


FATES = st.lists(st.sampled_from([*Phase, SETTLED]), min_size=1, max_size=6).map(
    lambda later: dict(enumerate([SETTLED, *later], start=1))
)
MOVES = st.lists(
    st.one_of(
        st.tuples(st.just("say"), st.integers(0, 99), st.sampled_from(list(Phase))),
        st.just(("accept",)),
        st.just(("pin",)),
        st.tuples(st.just("unpin"), st.integers(0, 9)),
    ),
    max_size=40,
)


@given(FATES, MOVES)
def test_whatever_sources_say_in_whatever_order_no_version_goes_back(
    fates: dict[int, Phase], moves: list[tuple]
) -> None:
    enemy = Enemy(fates)
    for name, *arguments in moves:
        if name == "say":
            which, phase = arguments
            enemy.say(1 + which % len(fates), phase)
        else:
            getattr(enemy, name)(*arguments)
        enemy.check()
    enemy.check_never_back()
