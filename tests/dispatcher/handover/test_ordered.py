"""`ordered` under thousands of schedules, and what the schedules see where one of its rules is left out."""

import subprocess
import sys
from itertools import islice
from pathlib import Path

import pytest

from dispatcher.handover.event import Intent
from dispatcher.handover.simulator.machine import FAMILIES
from dispatcher.handover.simulator.run import Tally, run
from dispatcher.handover.simulator.witness import Kind
from tests.dispatcher.handover.runs import options

ROOT = Path(__file__).parents[3]
SEEDS = 5_000
SEEDS_LONG = 100_000
SEEDS_TO_CATCH = 500


def tally(seeds: range) -> Tally:
    found = Tally()
    for seed in seeds:
        found.add(run(options(seed), seed))
    return found


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, SEEDS), pytest.param(SEEDS, SEEDS_LONG, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_nothing_is_broken(first: int, last: int) -> None:
    found = tally(range(first, last))
    assert found.runs == last - first
    assert (found.failed_seeds, dict(found.violations)) == ([], {})
    # By way of the old owner is the longest way.
    assert found.hops_max == 2


# What leaving a rule out leads to, among other things.
CAUGHT = {
    "without-rule-2": Kind.STUCK,  # Records come before their state, and are refused.
    "without-rule-3": Kind.TWO_OWNERS,
    "without-rule-3-for-time": Kind.WATERMARK,
    "without-rule-4": Kind.ORDER,
    "without-rule-5": Kind.ORDER,
    "without-rule-5-own": Kind.ORDER,
    "without-rule-5-early": Kind.ORDER,
    "without-rule-5-for-time": Kind.WATERMARK,
    "without-rule-6": Kind.STUCK,
    "without-rule-7": Kind.STUCK,
    "without-rule-9": Kind.UNBOUNDED,
    "without-source-drain": Kind.ORDER,
    "without-rounds": Kind.UNBOUNDED,
}


@pytest.mark.parametrize("variant", FAMILIES["ordered"].variants)
def test_a_rule_left_out_is_seen(variant: str) -> None:
    kinds = (
        outcome.violation.kind
        for outcome in (run(options(seed, variant), seed) for seed in range(SEEDS_TO_CATCH))
        if outcome.violation
    )
    assert CAUGHT[variant] in islice(kinds, 100)


RUNS = """
from dispatcher.handover.simulator.machine import FAMILIES
from dispatcher.handover.simulator.run import Run
from dispatcher.handover.simulator.transcript import transcribed
from tests.dispatcher.handover.runs import options
for protocol in FAMILIES:
    for seed in range(10):
        print(*transcribed(Run(options(seed, protocol=protocol), seed)), sep="\\n")
"""


def test_a_run_is_a_function_of_its_seed() -> None:
    """In processes that order their sets each in its own way."""
    one, other = (
        subprocess.run(
            [sys.executable, "-c", RUNS],
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
        ).stdout
        for hash_seed in ("1", "2")
    )
    assert one == other
    assert one.count(b"Outcome(seed=") == 30


@pytest.mark.parametrize("protocol", FAMILIES)
def test_units_are_renumbered_in_some_of_the_runs(protocol: str) -> None:
    """Where several rescales are wanted, of which some are aborted."""
    renumbered = False

    def trace(_: str, what: object) -> None:
        nonlocal renumbered
        renumbered |= isinstance(what, Intent) and what.next.number == what.base + 2

    for seed in range(63):
        assert run(options(seed, protocol=protocol), seed, trace).violation is None
        if renumbered:
            return
    pytest.fail("in none")
