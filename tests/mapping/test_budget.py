from collections import Counter
from itertools import pairwise
from math import ceil, inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Level, Plan, first_mapping, plan, steps
from meta.mapping.unit import Unit

few_examples = settings(max_examples=60)
budgets = st.integers(1, 12)
levels = st.sampled_from(["units", "workers"])


@st.composite
def rescales(draw: st.DrawFn) -> tuple[VnodeMapping, list[Unit]]:
    """Any previous mapping, gaps and gone owners included."""
    unit = st.builds(Unit, st.integers(0, 11), st.sampled_from("abc"), st.sampled_from([0.0, 1.0, 1.0, 2.5]))
    units = draw(st.lists(unit, min_size=1, max_size=8, unique_by=lambda unit: unit.id))
    if not any(unit.weight for unit in units):
        units[0] = Unit(units[0].id, units[0].worker)
    runs = st.tuples(st.none() | st.integers(0, 11), st.integers(1, 9))
    owners = [owner for owner, length in draw(st.lists(runs, max_size=8)) for _ in range(length)]
    owners += draw(st.lists(st.none() | st.integers(0, 11), min_size=len(units), max_size=20))
    return VnodeMapping(tuple(owners)), units


def voluntary(answer: Plan, units: list[Unit]) -> int:
    live = {unit.id for unit in units}
    return sum(move.source in live for move in answer.moves)


@few_examples
@given(rescales(), budgets, levels)
def test_steps_reach_the_plan_without_a_budget_in_the_fewest_rounds(
    rescale: tuple[VnodeMapping, list[Unit]], budget: int, level: Level
) -> None:
    previous, units = rescale
    goal = plan(previous, units, level=level)
    sequence = steps(previous, units, budget, level=level)
    assert sequence[-1].mapping == goal.mapping
    assert len(sequence) == max(1, ceil(voluntary(goal, units) / budget))
    assert sum(len(step.moves) for step in sequence) == len(goal.moves)
    for at, step in enumerate(sequence):
        assert voluntary(step, units) <= budget
        assert step.remaining_moves == sum(len(later.moves) for later in sequence[at + 1 :])
        assert step.certificate.gap == 0
        assert step.certificate.lower_bound == len(step.moves)
        assert step.certificate.runs == step.mapping.run_count
    for step, following in pairwise(sequence):
        assert following.previous == step.mapping
        assert following.remaining_moves < step.remaining_moves
    assert plan(previous, units, level=level, budget=budget) == sequence[0]


@few_examples
@given(rescales(), budgets)
def test_the_first_step_places_what_waits_whatever_the_budget(
    rescale: tuple[VnodeMapping, list[Unit]], budget: int
) -> None:
    previous, units = rescale
    live = {unit.id for unit in units}
    step = plan(previous, units, budget=budget)
    assert {owner for owner in step.mapping.owners if owner not in live} == set()
    gone = [v for v, owner in enumerate(previous.owners) if owner is not None and owner not in live]
    assert set(gone) <= {move.vnode for move in step.moves}
    assert step.certificate.assigned == previous.owners.count(None)


@few_examples
@given(rescales(), budgets, levels)
def test_planning_again_with_the_budget_takes_as_many_rounds(
    rescale: tuple[VnodeMapping, list[Unit]], budget: int, level: Level
) -> None:
    previous, units = rescale
    expected = [step.remaining_moves for step in steps(previous, units, budget, level=level)]
    found = []
    while not found or found[-1]:
        step = plan(previous, units, level=level, budget=budget)
        found.append(step.remaining_moves)
        previous = step.mapping
    assert found == expected
    assert len(plan(previous, units, level=level).moves) == 0


def relieved(counts: Counter[int], quota: Counter[int], weight: dict[int, float], moves: int) -> Counter[int]:
    """What the givers own after `moves` moves, each from the one that is then fullest."""
    left = Counter(counts)
    for _ in range(moves):
        giving = [unit for unit in weight if left[unit] > quota[unit]]
        if giving:
            fullest = max(
                giving,
                key=lambda unit: (left[unit] / weight[unit] if weight[unit] else inf, left[unit], -unit),
            )
            left[fullest] -= 1
    return left


@few_examples
@given(rescales(), budgets)
def test_each_step_relieves_the_fullest_units_first(
    rescale: tuple[VnodeMapping, list[Unit]], budget: int
) -> None:
    previous, units = rescale
    weight = {unit.id: unit.weight for unit in units}
    quota = Counter(plan(previous, units).mapping.owners)
    step = plan(previous, units, budget=budget)
    before, after = Counter(previous.owners), Counter(step.mapping.owners)
    expected = relieved(before, quota, weight, budget)
    for unit in weight:
        if before[unit] > quota[unit]:
            assert after[unit] == expected[unit]


def test_a_drained_unit_gives_before_a_full_one() -> None:
    units = [Unit(0, "a"), Unit(1, "b", 0.0), Unit(2, "c")]
    previous = VnodeMapping.parse("0*7 1*2 2*1")
    shown = [str(step.mapping) for step in steps(previous, units, 2)]
    assert shown == ["0*7 2*3", "0*5 2*5"]


def test_thirty_thousand_rounds_are_not_made_to_see_the_first() -> None:
    few, many = [[Unit(number, "a") for number in range(count)] for count in (2048, 4096)]
    step = plan(first_mapping(65_536, few), many, budget=1)
    assert (len(step.moves), step.remaining_moves) == (1, 32_767)


@pytest.mark.parametrize("budget", [0, -1, True, 1.0, "1", 1.5])
def test_budgets_that_cannot_be(budget: int) -> None:
    mapping, units = VnodeMapping((0, 0)), [Unit(0, "a"), Unit(1, "b")]
    with pytest.raises(Malformed, match="leave it out"):
        plan(mapping, units, budget=budget)
    with pytest.raises(Malformed, match="a budget is a number of moves from 1"):
        steps(mapping, units, budget)


def test_levels_that_cannot_be() -> None:
    with pytest.raises(Malformed, match='"units" or "workers"'):
        plan(VnodeMapping((0, 0)), [Unit(0, "a")], level="racks")  # type: ignore[arg-type]
