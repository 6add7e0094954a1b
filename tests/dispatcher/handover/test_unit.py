"""What a unit refuses. The rules themselves are in the scenarios and under the simulator."""

from dataclasses import replace
from typing import Any

import pytest

from dispatcher.handover.controller.protocol import controller
from dispatcher.handover.effect import (
    Acknowledged,
    Apply,
    Collect,
    Drained,
    PauseSources,
    Refuse,
    Released,
    Send,
    StopSource,
)
from dispatcher.handover.errors import (
    ChunkMissing,
    CreditUnspent,
    DigestConflict,
    Gap,
    HandoverError,
    IllegalEvent,
    NotFollowing,
    UnknownKey,
    UnknownVersion,
    WrongBase,
)
from dispatcher.handover.event import (
    Applied,
    Barrier,
    Collected,
    Complete,
    Intent,
    Opened,
    Read,
    Received,
    ReleaseSource,
    Round,
)
from dispatcher.handover.icadd.protocol import icadd
from dispatcher.handover.message import (
    Acquire,
    Batch,
    Credit,
    Done,
    Flush,
    Flushed,
    Frame,
    Message,
    Path,
    Records,
    Watermark,
)
from dispatcher.handover.ordered.phase import Phase
from dispatcher.handover.ordered.protocol import ordered
from dispatcher.handover.protocol import Protocol
from dispatcher.handover.step import step
from dispatcher.handover.unit import Unit, started
from dispatcher.handover.version import Version

OLD = Version(7, "seven", {"a": 0, "b": 1}, frozenset({0, 1}))
NEW = Version(8, "eight", {"a": 1, "b": 1}, frozenset({0, 1}))
INTENT = Intent(7, "seven", NEW)
A = Batch("a", "p", (0,), 100)
ORDINARY = Records(A, origin=1, granter=0, path=Path.ORDINARY)


def unit(number: int = 0) -> Unit[str, Phase[str]]:
    return started(ordered(), number, 3, OLD)


def frame(message: Message[str], number: int = 0, *, version: Version[str] = OLD) -> Received[str]:
    return Received(1, Frame(3, version.number, version.digest, number, message))


def test_a_record_is_applied_and_its_credit_goes_back() -> None:
    after, effects = step(unit(), frame(ORDINARY))
    assert effects == (Apply(ORDINARY),)
    _, (credit,) = step(after, Applied(ORDINARY))
    assert isinstance(credit, Send)
    assert credit.to == 1


def test_a_snapshot_and_a_source_wait_for_what_the_operators_have_not_applied() -> None:
    reads, (apply,) = step(unit(), Read(A))
    released, effects = step(reads, ReleaseSource("p"))
    assert effects == (StopSource("p"),)
    waits, effects = step(released, Barrier(1))
    assert effects == (PauseSources(),)
    assert isinstance(apply, Apply)
    _, effects = step(waits, Applied(apply.records))
    assert effects == (Released("p"), Drained(1))


def test_a_step_leaves_the_unit_as_it_was() -> None:
    before = unit()
    after, effects = step(before, frame(ORDINARY))
    assert before == unit()
    assert (after, effects) == step(before, frame(ORDINARY))


def test_a_stream_that_skips_or_repeats_a_frame_is_broken() -> None:
    after, _ = step(unit(), frame(ORDINARY))
    for number in (0, 2):
        with pytest.raises(Gap, match=f"goes on with frame {number}, not 1"):
            step(after, frame(ORDINARY, number))
    assert step(after, frame(ORDINARY, 1))[1]
    reopened, _ = step(after, Opened(1))
    assert step(reopened, frame(ORDINARY, 0))[1]


def test_a_frame_of_another_execution_changes_nothing() -> None:
    for execution in (2, 4):
        stale = frame(ORDINARY)
        stale = replace(stale, frame=replace(stale.frame, execution=execution))
        after, (refused,) = step(unit(), stale)
        assert isinstance(refused, Refuse)
        assert after == unit()


def test_a_frame_of_a_version_that_nobody_announced_is_an_error() -> None:
    later = replace(NEW, number=9)
    with pytest.raises(UnknownVersion, match="only 7 and 8 are known"):
        step(unit(), frame(Done(), version=later))


@pytest.mark.parametrize("intent", [replace(INTENT, base=6), replace(INTENT, base_digest="six")])
def test_an_intent_from_another_base_is_not_obeyed(intent: Intent[str]) -> None:
    with pytest.raises(WrongBase, match="renumber the units first"):
        step(unit(), intent)


@pytest.mark.parametrize("order", [Round(8, 0), Round(8, 2), Round(7, 1)])
def test_only_a_round_that_comes_next_is_begun(order: Round) -> None:
    base = replace(OLD, owners={"a": 0, "b": 0})
    both = Intent(7, "seven", replace(NEW, owners={"a": 1, "b": 1}), {"a": 0, "b": 1})
    giving, _ = step(started(ordered(), 0, 3, base), both)
    with pytest.raises(IllegalEvent, match="Giving has no rule"):
        step(giving, Round(8, 1))
    between, _ = step(giving, Collected("a", (b"",)))
    with pytest.raises(IllegalEvent, match="Giving has no rule"):
        step(between, order)
    assert step(between, Round(8, 1))[1] == (Collect("b"),)


def test_one_version_with_two_digests_is_an_error_whoever_comes_first() -> None:
    other = replace(NEW, digest="another eight")
    early, _ = step(unit(1), Received(0, Frame(3, 8, "another eight", 0, Done())))
    with pytest.raises(DigestConflict, match="version 8"):
        step(early, INTENT)
    upgraded, _ = step(unit(), INTENT)
    with pytest.raises(DigestConflict, match="version 8"):
        step(upgraded, frame(Done(), version=other))


def test_state_comes_whole_and_in_order() -> None:
    first = Received(0, Frame(3, 8, "eight", 0, Acquire("a", 0, 3, b"x")))
    third = Acquire("a", 1, 3, b"z")
    after, effects = step(unit(1), first)
    assert effects == ()
    for found in (replace(third, index=2), replace(third, count=2), replace(third, count=0)):
        with pytest.raises(ChunkMissing, match=f"chunk {found.index} of {found.count}, not 1 of 3"):
            step(after, Received(0, Frame(3, 8, "eight", 1, found)))
    with pytest.raises(ChunkMissing, match="chunk 0 of 0"):
        step(unit(1), Received(0, Frame(3, 8, "eight", 0, Acquire("a", 0, 0, b""))))


@pytest.mark.parametrize(
    "event",
    [Complete(8), Complete(7), Collected("a", (b"",)), frame(replace(ORDINARY, batch=replace(A, key="b")))],
)
def test_an_error_names_state_and_event(event: Complete | Collected[str] | Received[str]) -> None:
    with pytest.raises(IllegalEvent, match="Settled has no rule for") as raised:
        step(unit(), event)
    assert isinstance(raised.value, HandoverError)
    assert raised.value.state == unit().phase


def heard(unit: Unit[str, Phase[str]], sender: int, *messages: Message[str]) -> Unit[str, Phase[str]]:
    """By version 8."""
    for number, message in enumerate(messages):
        unit, _ = step(unit, Received(sender, Frame(3, 8, "eight", number, message)))
    return unit


ACQUIRE = Acquire("a", 0, 1, b"x")


@pytest.mark.parametrize("upgraded", [True, False])
@pytest.mark.parametrize(
    ("number", "sender", "messages"),
    [
        (0, 1, [ACQUIRE]),  # It is the owner itself.
        (1, 2, [ACQUIRE]),
        (1, 0, [ACQUIRE, ACQUIRE]),
        (1, 0, [Acquire("c", 0, 1, b"x")]),
        (1, 0, [replace(ORDINARY, origin=0)]),  # Before its Acquire.
        (1, 0, [ACQUIRE, Done(), Done()]),
        (1, 0, [ACQUIRE, Flushed(0)]),  # Before its Done.
    ],
)
def test_what_a_unit_that_keeps_the_rules_never_says_is_an_error(
    upgraded: bool, number: int, sender: int, messages: list[Message[str]]
) -> None:
    hearing, _ = step(unit(number), INTENT) if upgraded else (unit(number), ())
    before = heard(hearing, sender, *messages[:-1])
    with pytest.raises(IllegalEvent):
        step(before, Received(sender, Frame(3, 8, "eight", len(messages) - 1, messages[-1])))


@pytest.mark.parametrize(
    ("sender", "messages"),
    [(1, [Done()]), (77, [Flush()]), (0, [Done()]), (0, [ACQUIRE, Done(), Flushed(77)])],
)
def test_what_came_before_intent_is_looked_at_again_with_it(
    sender: int, messages: list[Message[str]]
) -> None:
    """Then it is known who gives, and who receives; whichever is first."""
    number = 1 - sender if sender < 2 else 0
    with pytest.raises(IllegalEvent):
        step(heard(unit(number), sender, *messages), INTENT)
    with pytest.raises(IllegalEvent):
        heard(step(unit(number), INTENT)[0], sender, *messages)


def test_a_key_that_the_mapping_does_not_have_is_an_error() -> None:
    with pytest.raises(UnknownKey, match="records of c, which version 7 does not have"):
        step(unit(), frame(replace(ORDINARY, batch=replace(A, key="c"))))


def test_credit_that_was_not_spent_is_an_error() -> None:
    with pytest.raises(CreditUnspent, match="5 bytes of credit come back"):
        step(unit(), frame(Credit(1, Path.DIRECT, "p", 5)))


@pytest.mark.parametrize("version", [OLD, NEW])
def test_records_by_another_mapping_of_that_number_are_an_error(version: Version[str]) -> None:
    """Of the next version, where it was announced."""
    hearing = heard(unit(), 2, Watermark("p", 0))
    with pytest.raises(DigestConflict, match=f"version {version.number}"):
        step(hearing, frame(ORDINARY, version=replace(version, digest="other")))


def test_state_of_no_chunk_is_an_error_of_the_engine() -> None:
    giving, _ = step(unit(), INTENT)
    with pytest.raises(IllegalEvent):
        step(giving, Collected("a", ()))


@pytest.mark.parametrize(
    ("following", "reason"),
    [
        (replace(NEW, number=7), "no newer"),
        (replace(NEW, number=9), "there is one between"),
        (replace(NEW, owners={"a": 1}), "other keys"),
        (replace(NEW, owners={"a": 1, "b": 5}), "own keys, and are not of it"),
    ],
)
def test_an_intent_to_what_cannot_follow_is_not_obeyed(following: Version[str], reason: str) -> None:
    intent = Intent(7, "seven", replace(following, digest="seven" if following.number == 7 else "eight"))
    with pytest.raises(NotFollowing, match=reason):
        step(unit(), intent)


SAME = replace(OLD, number=9, digest="nine")
RENUMBERING = Intent(7, "seven", SAME)


def test_a_renumbered_unit_goes_by_the_old_number_until_all_have_the_new_one() -> None:
    renumbered, (report,) = step(unit(), RENUMBERING)
    assert report == Acknowledged(9)
    read, (sent,) = step(renumbered, Read(replace(A, key="b")))
    assert isinstance(sent, Send)
    assert (sent.frame.version, sent.frame.digest) == (7, "seven")
    # Another is before it, or behind it.
    for version in (OLD, SAME):
        assert step(read, frame(ORDINARY, version=version))[1]
    complete, _ = step(read, Complete(9))
    _, (sent,) = step(complete, Read(replace(A, key="b")))
    assert isinstance(sent, Send)
    assert (sent.frame.version, sent.frame.digest, sent.frame.number) == (9, "nine", 1)
    assert step(complete, Intent(9, "nine", replace(NEW, number=10)))[1] == (Collect("a"),)


@pytest.mark.parametrize("next_intent", [replace(RENUMBERING, base=9, base_digest="nine"), RENUMBERING])
def test_nothing_follows_a_renumbering_before_it_is_complete(next_intent: Intent[str]) -> None:
    renumbered, _ = step(unit(), RENUMBERING)
    following = replace(next_intent, next=replace(SAME, number=11, digest="eleven"))
    with pytest.raises(HandoverError):
        step(renumbered, following)


def test_nobody_is_renumbered_who_has_heard_of_the_version_between() -> None:
    with pytest.raises(IllegalEvent):
        step(heard(unit(1), 0, ACQUIRE), RENUMBERING)


def test_a_batch_larger_than_all_credit_goes_alone() -> None:
    small = started(ordered(), 1, 3, OLD, credit_bytes=10)
    sending, (sent,) = step(small, Read(A))
    assert isinstance(sent, Send)
    _, (pause,) = step(sending, Read(A))
    assert type(pause).__name__ == "PauseSources"


@pytest.mark.parametrize("protocol", [icadd(), controller()])
def test_a_protocol_without_rounds_takes_no_intent_with_some(protocol: Protocol[str, Any]) -> None:
    """The coordinator would wait for reports of what is installed."""
    with pytest.raises(IllegalEvent):
        step(started(protocol, 0, 3, OLD), replace(INTENT, rounds={"a": 0}))


def test_a_batch_of_nothing_is_no_batch() -> None:
    """Its credit would not be missed, and nobody would wait for it."""
    with pytest.raises(AssertionError):
        step(unit(), Read(replace(A, size_bytes=0)))
