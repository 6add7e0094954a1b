"""`controller` under thousands of schedules, and what the schedules see where one of its mends is left out."""

from dataclasses import replace
from itertools import islice

import pytest

from dispatcher.handover.controller import chain
from dispatcher.handover.controller.chain import Package
from dispatcher.handover.controller.protocol import controller
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Intent, Received
from dispatcher.handover.message import (
    Acquire,
    Done,
    Final,
    Flush,
    Frame,
    Message,
    Redistribute,
    Scaleup,
    Sets,
    Shutdown,
)
from dispatcher.handover.ordered.protocol import ordered
from dispatcher.handover.simulator.machine import FAMILIES
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Tally, run
from dispatcher.handover.simulator.witness import Kind
from dispatcher.handover.step import step
from dispatcher.handover.unit import started
from dispatcher.handover.version import Version
from tests.dispatcher.handover import runs

SEEDS = 1_000
SEEDS_LONG = 30_000
SEEDS_TO_CATCH = 2_000


def options(seed: int, variant: str | None = None) -> Options:
    """Every combination comes once in 9,072 seeds."""
    return replace(
        runs.options(seed, variant, protocol="controller"),
        keys_at_once=1 + seed % 4,
        operators=1 + seed // 4 % 2,
        distributors=1 if seed // 8 % 2 else None,
    )


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, SEEDS), pytest.param(SEEDS, SEEDS_LONG, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_nothing_is_broken(first: int, last: int) -> None:
    found = Tally()
    for seed in range(first, last):
        found.add(run(options(seed), seed))
    assert found.runs == last - first
    assert (found.failed_seeds, dict(found.violations)) == ([], {})
    # What has to wait does so where it was read.
    assert found.hops_max == 1


# What leaving a mend out leads to, among other things.
CAUGHT = {
    "as-written": Kind.OVERWRITTEN,
    "without-mend-a": Kind.STUCK,
    "without-mend-b": Kind.TWO_OWNERS,
    "without-mend-c": Kind.TWO_OWNERS,
    "without-mend-d": Kind.OVERWRITTEN,
    "without-mend-e": Kind.TWO_OWNERS,
    "without-mend-f": Kind.STUCK,
    "without-mend-g": Kind.TWO_OWNERS,
    "without-mend-h": Kind.STUCK,
    "without-mend-i": Kind.TWO_OWNERS,
    "without-credit": Kind.UNBOUNDED,
    "without-source-drain": Kind.ORDER,
}


@pytest.mark.parametrize("variant", FAMILIES["controller"].variants)
def test_a_mend_left_out_is_seen(variant: str) -> None:
    """With more vnodes: mend i is for what happens to one while others are held."""
    outcomes = (
        run(replace(options(seed, variant), vnodes=8, records=48), seed) for seed in range(SEEDS_TO_CATCH)
    )
    kinds = (outcome.violation.kind for outcome in outcomes if outcome.violation)
    assert CAUGHT[variant] in islice(kinds, 100)


@pytest.mark.parametrize(("distributors", "least", "most"), [(1, 0.05, 0.5), (2, 0.9, 1.0)])
def test_as_written_it_breaks_seldom_with_one_distributor_and_nearly_always_with_two(
    distributors: int, least: float, most: float
) -> None:
    plain = Options(
        "controller", units_before=3, units_after=2, variant="as-written", distributors=distributors
    )
    broken = sum(run(plain, seed).violation is not None for seed in range(60))
    assert least <= broken / 60 <= most


Z1, Z2 = frozenset({4, 5}), frozenset({5, 6})


def test_sets_are_the_union_over_the_operators() -> None:
    assert chain.sets((Z1, Z2), (4, 5, 6), 1) == Sets(frozenset({5, 6}), (4,))
    assert chain.sets((Z1, Z2), (4, 5, 6), 2) == Sets(frozenset({6}), (4, 5))
    assert chain.sets((Z1, Z2), (1, 2), 1) == Sets(frozenset(), ())


def test_two_operators_as_in_the_paper() -> None:
    # REDISTRIBUTE(4, S4, 5), which Z2 forwards unchanged.
    first = chain.passed(0, Z1, Final((4,)), (5, 6), 1)
    assert first == Package(((4, (0,)),), (5,)) == chain.passed(1, Z2, first, (5, 6), 1)
    # Z1 has given 4, and emits REDISTRIBUTE(5, S5, None); Z2 adds its own, and replaces None by 6.
    second = chain.passed(0, Z1 - {4}, Final((5,)), (6,), 1)
    assert second == Package(((5, (0,)),), ())
    assert chain.passed(1, Z2, second, (6,), 1) == Package(((5, (0, 1)),), (6,))
    # Z1 forwards FINAL(6) unchanged, and Z2 makes REDISTRIBUTE(6, S6, None) of it.
    third = chain.passed(0, frozenset(), Final((6,)), (), 1)
    assert third == Final((6,))
    assert chain.passed(1, Z2 - {5}, third, (), 1) == Package(((6, (1,)),), ())


def test_a_final_that_nobody_has_state_for_comes_out_of_the_last_operator() -> None:
    assert chain.through((Z1, Z2), Final((7,)), (5,), 1) == Final((7,))


def test_several_keys_pass_together_and_fill_the_free_slots() -> None:
    assert chain.through((Z1, Z2), Final((4, 7)), (5, 6), 2) == Package(((4, (0,)), (7, ())), (5, 6))


OLD = Version(7, "seven", {"a": 0, "b": 1}, frozenset({0, 1}))
NEW = Version(8, "eight", {"a": 1, "b": 1}, frozenset({0, 1}))


@pytest.mark.parametrize("message", [Final(("a",)), Redistribute("a", 0, 1, b"", ()), Flush()])
def test_a_word_out_of_its_turn_is_an_error(message: Message[str]) -> None:
    upgraded, _ = step(started(controller(), 0, 3, OLD), Intent(7, "seven", NEW))
    with pytest.raises(IllegalEvent):
        step(upgraded, Received(1, Frame(3, 8, "eight", 0, message)))


def test_another_protocol_has_no_rule_for_its_words() -> None:
    with pytest.raises(IllegalEvent):
        step(started(ordered(), 0, 3, OLD), Received(1, Frame(3, 8, "eight", 0, Shutdown())))


@pytest.mark.parametrize("message", [Shutdown(), Scaleup(), Done(), Acquire("a", 0, 1, b"x")])
@pytest.mark.parametrize("number", [0, 1])
def test_a_unit_that_is_no_distributor_has_no_part(number: int, message: Message[str]) -> None:
    unit, intent = started(controller(), number, 3, OLD), Intent(7, "seven", NEW)
    stranger = Received(77, Frame(3, 8, "eight", 0, message))
    with pytest.raises(IllegalEvent):
        step(step(unit, stranger)[0], intent)
    with pytest.raises(IllegalEvent):
        step(step(unit, intent)[0], stranger)


@pytest.mark.parametrize(
    "sets",
    [
        Sets(frozenset({"b"}), ("a",)),  # It stays.
        Sets(frozenset({"a"}), ("a",)),
        Sets(frozenset(), ("c",)),
    ],
)
def test_sets_are_of_keys_that_the_node_gives(sets: Sets[str]) -> None:
    upgraded, _ = step(started(controller(), 1, 3, OLD), Intent(7, "seven", NEW))
    with pytest.raises(IllegalEvent):
        step(upgraded, Received(0, Frame(3, 8, "eight", 0, sets)))
    good = Frame(3, 8, "eight", 0, Sets(frozenset(), ("a",)))
    assert step(upgraded, Received(0, good))[1]
