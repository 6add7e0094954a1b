"""`ordered` and `icadd` where the operators of each unit are a region, which applies records in its own time."""

from dataclasses import replace
from typing import Any

import pytest

from dispatcher.handover.effect import Apply, Effect
from dispatcher.handover.event import Applied, Event
from dispatcher.handover.region.rules import Rules
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Run, Tally, run
from dispatcher.handover.simulator.transcript import transcribed
from dispatcher.handover.simulator.witness import Kind
from dispatcher.handover.step import step
from tests.dispatcher.handover import runs

SEEDS = 100
SEEDS_LONG = 5_000
SEEDS_TO_CATCH = 100


def options(seed: int, protocol: str, rules: Rules | None = None) -> Options:
    """Two to five operators."""
    return replace(
        runs.options(seed, protocol=protocol), operators=2 + seed % 4, rules_inside=rules or Rules()
    )


@pytest.mark.parametrize("protocol", ["ordered", "icadd"])
@pytest.mark.parametrize(
    ("first", "last"),
    [(0, SEEDS), pytest.param(SEEDS, SEEDS_LONG, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_nothing_is_broken(first: int, last: int, protocol: str) -> None:
    found = Tally()
    for seed in range(first, last):
        found.add(run(options(seed, protocol), seed))
    assert (found.runs, found.failed_seeds, dict(found.violations)) == (last - first, [], {})


# Those that need states that end, or a key that is soon back, are seen in `test_region`.
SEEN_BY = {
    "copies": "ordered",
    "hurries": "ordered",
    "waits": "ordered",
    "unites": "icadd",
    "replaces": "ordered",
    "takes_first": "ordered",
    "counts": "ordered",
    "counts_by_edge": "ordered",
}


@pytest.mark.parametrize(("rule", "protocol"), SEEN_BY.items())
def test_a_rule_left_out_inside_is_seen(rule: str, protocol: str) -> None:
    rules = Rules(**{rule: False})
    assert any(run(options(seed, protocol, rules), seed).violation for seed in range(SEEDS_TO_CATCH))


def early(unit: Any, event: Event[int]) -> tuple[Any, tuple[Effect[int], ...]]:
    """Credit comes back when the operators are given the records."""
    if isinstance(event, Applied):
        return unit, ()
    unit, effects = step(unit, event)
    done: list[Effect[int]] = []
    left = list(effects)
    while left:
        done.append(left.pop(0))
        if isinstance(done[-1], Apply):
            unit, more = step(unit, Applied(done[-1].records))
            left += more
    return unit, tuple(done)


def test_credit_that_comes_back_too_early_is_seen() -> None:
    kinds = set()
    for seed in range(SEEDS_TO_CATCH):
        early_one = Run(options(seed, "ordered"), seed)
        early_one.world.machine = replace(early_one.world.machine, step=early)
        if violation := early_one.finish().violation:
            kinds.add(violation.kind)
    assert {Kind.LOST, Kind.UNBOUNDED} <= kinds


def test_the_transcript_tells_when_records_are_applied() -> None:
    lines, outcome = transcribed(Run(options(21, "ordered"), 21))
    assert outcome.violation is None
    applied = [line for line in lines if ": has applied " in line]
    assert len(applied) == len(outcome.hops)
