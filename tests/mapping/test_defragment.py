import json
import random
from collections import Counter
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import first_mapping, plan, steps
from meta.mapping.unit import Unit

WALK = json.loads((Path(__file__).parent / "walk-30.json").read_text())["steps"]

few_examples = settings(max_examples=60)
scattered = st.lists(st.none() | st.integers(0, 6), min_size=5, max_size=50).map(tuple).map(VnodeMapping)


def units_of(ids: range | list[int]) -> list[Unit]:
    return [Unit(number, f"w{number % 3}") for number in ids]


FIVE = units_of(range(5))


@few_examples
@given(scattered, st.integers(0, 12))
def test_extra_moves_buy_fewer_runs_and_quotas_stay(previous: VnodeMapping, extra: int) -> None:
    minimal = plan(previous, FIVE)
    answer = plan(previous, FIVE, defragment=extra)
    certificate = answer.certificate
    assert certificate.gap is not None
    assert 0 <= certificate.gap <= extra
    assert certificate.moves == len(answer.moves) == certificate.lower_bound + certificate.gap
    assert certificate.lower_bound == len(minimal.moves)
    assert Counter(answer.mapping.owners) == Counter(minimal.mapping.owners)
    saved = minimal.certificate.runs - answer.mapping.run_count
    assert saved > 0 or answer.mapping == minimal.mapping
    assert answer == plan(previous, FIVE[::-1], defragment=extra)


@few_examples
@given(scattered, st.integers(2, 8), st.none() | st.integers(1, 8))
def test_repeated_defragmentation_ends(previous: VnodeMapping, extra: int, budget: int | None) -> None:
    mapping = plan(previous, FIVE).mapping
    runs = mapping.run_count
    while (answer := plan(mapping, FIVE, defragment=extra, budget=budget)).moves:
        assert answer.certificate.lower_bound == 0
        assert len(answer.moves) <= min(extra, budget or extra)
        assert answer.mapping.run_count < runs
        mapping, runs = answer.mapping, answer.mapping.run_count
    assert answer.mapping == mapping


@few_examples
@given(scattered, st.integers(2, 12), st.integers(1, 9))
def test_with_a_budget_defragmentation_comes_when_nothing_else_is_left(
    previous: VnodeMapping, extra: int, budget: int
) -> None:
    goal = steps(previous, FIVE, budget)
    sequence = steps(previous, FIVE, budget, defragment=extra)
    assert [step.mapping for step in sequence[: len(goal) - 1]] == [step.mapping for step in goal[:-1]]
    gaps = [step.certificate.gap or 0 for step in sequence]
    assert not any(gaps[: len(goal) - 1])
    assert sum(gaps) <= extra
    assert sequence[-1].mapping.run_count <= goal[-1].mapping.run_count
    live = {unit.id for unit in FIVE}
    for at, step in enumerate(sequence):
        assert sum(move.source in live for move in step.moves) <= budget
        assert step.remaining_moves == sum(len(later.moves) for later in sequence[at + 1 :])
    assert plan(previous, FIVE, budget=budget, defragment=extra) == sequence[0]


def test_an_exchange_says_what_it_is_for() -> None:
    previous = VnodeMapping.parse("0*3 1 0 1*3")
    answer = plan(previous, units_of(range(2)), defragment=2)
    assert str(answer.mapping) == "0*4 1*4"
    assert (answer.certificate.moves, answer.certificate.gap) == (2, 2)
    assert [move.reason for move in answer.moves] == [
        "unit 1 gets another for it; with unit 0 it saves a run; it joins a run of unit 0",
        "unit 0 gets another for it; with unit 1 it saves a run; it joins a run of unit 1",
    ]


def test_what_saves_most_for_a_move_comes_first() -> None:
    """The single vnodes save four runs for two moves, the pairs two for four."""
    previous = VnodeMapping.parse("0*4 1*2 0*2 1*4 0*3 1 0*3 1*3 0 1*4")
    assert str(plan(previous, units_of(range(2)), defragment=2).mapping) == "0*4 1*2 0*2 1*4 0*7 1*8"


@pytest.mark.parametrize(("extra", "moves_max", "runs_max"), [(0, 412, 2.7), (4, 530, 1.8), (8, 610, 1.5)])
def test_the_walk_with_extra_moves(extra: int, moves_max: int, runs_max: float) -> None:
    mapping = first_mapping(256, [Unit(number, f"w{number}") for number in range(16)])
    moves, runs = 0, []
    for step in WALK:
        answer = plan(mapping, [Unit(number, f"w{number}") for number in step], defragment=extra)
        mapping = answer.mapping
        moves += len(answer.moves)
        runs.append(mapping.run_count / len(step))
    print(f"+{extra}: {moves} moves, {sum(runs) / len(runs):.2f} runs a unit")
    assert moves <= moves_max
    assert sum(runs) / len(runs) <= runs_max


@pytest.mark.parametrize("extra", [-1, True, 1.0, "1", None])
def test_extra_moves_that_cannot_be(extra: int) -> None:
    with pytest.raises(Malformed, match="defragment is a number of extra moves from 0"):
        plan(VnodeMapping((0, 0)), [Unit(0, "a")], defragment=extra)


def fewest_runs(every: np.ndarray, previous: VnodeMapping, after: VnodeMapping, moves: int) -> int:
    """Over all assignments with as many vnodes for each unit as `after` has, and as few moves."""
    rows = every
    for unit in after.units:
        rows = rows[(rows == unit).sum(axis=1) == after.owners.count(unit)]
    before = np.array([-1 if owner is None else owner for owner in previous.owners])
    rows = rows[((rows != before) & (before >= 0)).sum(axis=1) == moves]
    return int(1 + (rows[:, 1:] != rows[:, :-1]).sum(axis=1).min())


@pytest.mark.parametrize(("vnode_count", "unit_count"), [(6, 2), (8, 3), (10, 3), (9, 4)])
def test_runs_are_near_the_fewest_there_can_be(vnode_count: int, unit_count: int) -> None:
    every = np.array(list(product(range(unit_count), repeat=vnode_count)), dtype=np.int8)
    draw = random.Random(vnode_count * unit_count)
    units = [Unit(number, f"w{number}") for number in range(unit_count)]
    ratios = []
    for _ in range(60):
        owners: list[int | None] = []
        while len(owners) < vnode_count:
            owners += [draw.choice([None, *range(unit_count + 2)])] * draw.randint(1, 4)
        previous = VnodeMapping(tuple(owners[:vnode_count]))
        answer = plan(previous, units)
        best = fewest_runs(every, previous, answer.mapping, len(answer.moves))
        ratios.append(answer.mapping.run_count / best)
    mean, worst = sum(ratios) / len(ratios), max(ratios)
    print(
        f"{vnode_count} vnodes, {unit_count} units: runs / fewest {mean:.3f} on average, {worst:.2f} at worst"
    )
    assert min(ratios) >= 1
    assert mean <= 1.04
    assert worst <= 1.34


def test_with_a_budget_too_an_exchange_is_made() -> None:
    scattered = VnodeMapping.parse("0*3 1 0 1*3")
    (step,) = steps(scattered, [Unit(0, "a"), Unit(1, "b")], 2, defragment=2)
    assert str(step.mapping) == "0*4 1*4"
    assert (step.certificate.moves, step.certificate.gap) == (2, 2)
