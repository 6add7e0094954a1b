"""What a unit refuses. The rules themselves are in the scenarios and under the simulator."""

from dataclasses import replace

import pytest

from dispatcher.handover.effect import (
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
    DigestConflict,
    Gap,
    HandoverError,
    IllegalEvent,
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
from dispatcher.handover.message import Acquire, Batch, Done, Frame, Message, Path, Records
from dispatcher.handover.ordered.phase import Phase
from dispatcher.handover.ordered.protocol import ordered
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
    third = Received(0, Frame(3, 8, "eight", 1, Acquire("a", 2, 3, b"z")))
    after, effects = step(unit(1), first)
    assert effects == ()
    with pytest.raises(ChunkMissing, match="chunk 2, not 1"):
        step(after, third)


@pytest.mark.parametrize(
    "event",
    [Complete(8), Complete(7), Collected("a", (b"",)), frame(replace(ORDINARY, batch=replace(A, key="b")))],
)
def test_an_error_names_state_and_event(event: Complete | Collected[str] | Received[str]) -> None:
    with pytest.raises(IllegalEvent, match="Settled has no rule for") as raised:
        step(unit(), event)
    assert isinstance(raised.value, HandoverError)
    assert raised.value.state == unit().phase


def test_a_batch_larger_than_all_credit_goes_alone() -> None:
    small = started(ordered(), 1, 3, OLD, credit_bytes=10)
    sending, (sent,) = step(small, Read(A))
    assert isinstance(sent, Send)
    _, (pause,) = step(sending, Read(A))
    assert type(pause).__name__ == "PauseSources"
