"""`icadd` under thousands of schedules, and its holes by their letters, each in a build without its mend.

The shortest schedule of each is in `scenarios/icadd-*.txt`.
"""

from dataclasses import replace

import pytest

from dispatcher.handover.errors import ChunkMissing, DigestConflict, IllegalEvent, WrongBase
from dispatcher.handover.event import Complete, Intent, Interrogated, Received
from dispatcher.handover.icadd.phase import Phase
from dispatcher.handover.icadd.protocol import icadd
from dispatcher.handover.message import Acquire, Done, Flush, Flushed, Frame, Message
from dispatcher.handover.simulator.machine import FAMILIES
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Tally, run
from dispatcher.handover.simulator.witness import Kind
from dispatcher.handover.step import step
from dispatcher.handover.unit import Unit, started
from dispatcher.handover.version import Version
from tests.dispatcher.handover.runs import options

SEEDS = 1_000
SEEDS_LONG = 30_000
SEEDS_TO_CATCH = 300
HOPS_MAX = 4
"""Three in one handover, and one more where the next begins meanwhile."""


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, SEEDS), pytest.param(SEEDS, SEEDS_LONG, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_nothing_but_order_is_broken(first: int, last: int) -> None:
    found = Tally()
    for seed in range(first, last):
        found.add(run(options(seed, protocol="icadd"), seed))
    assert (found.runs, found.failed_seeds, dict(found.violations)) == (last - first, [], {})
    # C and D are open.
    assert found.disordered > 0
    assert found.hops_max <= HOPS_MAX


# What each build leads to, among other things, by the letter of the hole.
CAUGHT = {
    "as-written": Kind.STUCK,  # H
    "as-written-self-send-passes": Kind.TWO_OWNERS,  # A
    "without-mend-a": Kind.TWO_OWNERS,
    "exit-on-all-done": Kind.LOST,  # E
    "keep-acquired-in-whitelist": Kind.LOST,  # F
    "new-unit-normal": Kind.TWO_OWNERS,  # G
    "without-mend-h": Kind.STUCK,
    "without-flush": Kind.LOST,
    "non-fifo": Kind.TWO_OWNERS,  # I
}


@pytest.mark.parametrize("variant", FAMILIES["icadd"].variants)
def test_a_mend_left_out_is_seen(variant: str) -> None:
    outcomes = (
        run(options(seed, variant, protocol="icadd"), seed).violation for seed in range(SEEDS_TO_CATCH)
    )
    assert CAUGHT[variant] in (violation.kind for violation in outcomes if violation)


def test_b_alone_is_seen_among_two_units() -> None:
    """There is no third unit, as A needs it; and with mend B alone the same run is clean."""
    written = Options(
        protocol="icadd",
        units_after=2,
        remap=True,
        overlap=True,
        records=72,
        vnodes=24,
        variant="as-written-self-send-passes",
    )
    seed = next(seed for seed in range(SEEDS_TO_CATCH) if run(written, seed).violation)
    assert run(replace(written, variant="without-mend-a"), seed).violation is None


@pytest.mark.parametrize(("letter", "units"), [("C", 3), ("D", 2)])
@pytest.mark.parametrize("variant", [None, "as-written", "as-written-self-send-passes"])
def test_order_is_not_kept(letter: str, units: int, variant: str | None) -> None:
    remapped = Options(
        protocol="icadd", units_before=units, units_after=units, remap=True, vnodes=2, variant=variant
    )
    assert any(run(remapped, seed).overtaking for seed in range(SEEDS_TO_CATCH)), letter


def test_a_run_is_a_function_of_its_seed() -> None:
    first, again = ([run(options(seed, protocol="icadd"), seed) for seed in range(20)] for _ in range(2))
    assert first == again


OLD = Version(7, "seven", {"a": 0, "b": 1}, frozenset({0, 1}))
NEW = Version(8, "eight", {"a": 1, "b": 1}, frozenset({0, 1}))
INTENT = Intent(7, "seven", NEW)


def unit(number: int) -> Unit[str, Phase[str]]:
    return started(icadd(), number, 3, OLD)


def frame(message: Message[str], number: int = 0, *, digest: str = "eight") -> Received[str]:
    return Received(0, Frame(3, 8, digest, number, message))


def test_an_intent_from_another_base_is_not_obeyed() -> None:
    with pytest.raises(WrongBase, match="renumber the units first"):
        step(unit(0), replace(INTENT, base_digest="six"))


def test_one_version_with_two_digests_is_an_error() -> None:
    early, _ = step(unit(1), frame(Done(), digest="another eight"))
    with pytest.raises(DigestConflict, match="version 8"):
        step(early, INTENT)
    interrogating, _ = step(unit(1), INTENT)
    after, _ = step(interrogating, frame(Done()))
    with pytest.raises(DigestConflict, match="version 8"):
        step(after, frame(Done(), 1, digest="another eight"))


def test_state_comes_whole_and_in_order() -> None:
    after, effects = step(unit(1), frame(Acquire("a", 0, 3, b"x")))
    assert effects == ()
    with pytest.raises(ChunkMissing, match="chunk 2 of 3, not 1 of 3"):
        step(after, frame(Acquire("a", 2, 3, b"z"), 1))


@pytest.mark.parametrize("event", [Complete(8), Interrogated(frozenset({"a"})), frame(Flushed(0))])
def test_what_no_rule_is_for_is_an_error(event: Complete | Interrogated[str] | Received[str]) -> None:
    with pytest.raises(IllegalEvent, match="no rule for"):
        step(unit(1), event)


@pytest.mark.parametrize("upgraded", [True, False])
@pytest.mark.parametrize(
    "messages",
    [
        [Acquire("b", 0, 1, b"x")],  # Of which it is the owner itself.
        [Acquire("a", 0, 1, b"x"), Acquire("a", 0, 1, b"x")],
        [Done(), Acquire("a", 0, 1, b"x")],
        [Done(), Done()],
    ],
)
def test_what_a_unit_that_keeps_the_rules_never_says_is_an_error(
    upgraded: bool, messages: list[Message[str]]
) -> None:
    hearing, _ = step(unit(1), INTENT) if upgraded else (unit(1), ())
    for number, message in enumerate(messages[:-1]):
        hearing, _ = step(hearing, frame(message, number))
    with pytest.raises(IllegalEvent):
        step(hearing, frame(messages[-1], len(messages) - 1))


@pytest.mark.parametrize("message", [Done(), Flush()])
def test_a_unit_that_is_not_of_the_job_has_no_part(message: Message[str]) -> None:
    stranger = replace(frame(message), sender=77)
    with pytest.raises(IllegalEvent):
        step(step(unit(1), stranger)[0], INTENT)
    with pytest.raises(IllegalEvent):
        step(step(unit(1), INTENT)[0], stranger)
