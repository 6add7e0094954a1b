import random
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from meta.mapping.errors import Malformed, MoreUnitsThanVnodes, NoCapacity, NoUnits, PlanError
from meta.mapping.load import LoadCertificate, max_load_of, plan_by_load
from meta.mapping.load_bound import count_bounds, speeds_of
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Plan, plan
from meta.mapping.unit import Unit

Loads = npt.NDArray[np.float64]
GONE = 10**6


def units_of(count: int, weights: Iterable[float] = ()) -> tuple[Unit, ...]:
    given = list(weights) or [1.0] * count
    return tuple(Unit(unit, f"w{unit % 4}", weight) for unit, weight in enumerate(given))


def zipf(vnode_count: int, exponent: float, seed: int) -> Loads:
    loads = np.arange(1, vnode_count + 1) ** -exponent
    np.random.default_rng(seed).shuffle(loads)
    return loads


def owned_at_random(vnode_count: int, owners: Iterable[int | None], seed: int) -> VnodeMapping:
    return VnodeMapping(tuple(random.Random(seed).choices(list(owners), k=vnode_count)))


def level(vnode_count: int, unit_count: int) -> VnodeMapping:
    return VnodeMapping(tuple(vnode * unit_count // vnode_count for vnode in range(vnode_count)))


def figures_of(planned: Plan) -> LoadCertificate:
    assert isinstance(planned.certificate, LoadCertificate)
    return planned.certificate


def counted_moves(planned: Plan, units: Iterable[Unit]) -> int:
    """Those that a budget limits: from units that are there."""
    ids = {unit.id for unit in units}
    return sum(move.source in ids for move in planned.moves)


def drawn(seed: int) -> tuple[VnodeMapping, tuple[Unit, ...], Loads, dict[str, Any]]:
    """Any problem: gaps, gone owners, drained units, weights, budgets, skewed and even loads."""
    draw = np.random.default_rng(seed)
    unit_count = int(draw.integers(1, 20))
    vnode_count = int(draw.integers(unit_count, 200))
    weights = draw.choice([1.0, 1.0, 0.0, 2.5, 0.3], unit_count) if seed % 2 else np.ones(unit_count)
    weights[0] = max(weights[0], 0.5)
    units = units_of(unit_count, weights.tolist())
    owners = [*range(unit_count), *([GONE, None] if seed % 3 else [])]
    previous = owned_at_random(vnode_count, owners[seed % 2 * (unit_count // 2) :], seed)
    loads = zipf(vnode_count, float(draw.uniform(0, 1.5)), seed) * 1e6
    budget = None if seed % 5 == 0 else int(draw.integers(1, vnode_count))
    return previous, units, loads, {"count_slack": float(draw.choice([0.0, 0.25, 1.0])), "budget": budget}


@pytest.mark.parametrize("seed", range(60))
def test_whatever_came_before_the_plan_is_complete_within_its_limits_and_above_its_bound(seed: int) -> None:
    previous, units, loads, options = drawn(seed)
    planned = plan_by_load(previous, units, loads, **options)
    figures = figures_of(planned)
    bearing = [unit for unit in units if unit.weight > 0]
    bounds = count_bounds(
        speeds_of(np.array([unit.weight for unit in bearing])), len(loads), options["count_slack"]
    )
    owners = planned.mapping.owners
    assert set(owners) <= {unit.id for unit in units}
    assert figures.max_load >= figures.max_load_lower_bound >= 0
    assert figures.max_load == max_load_of(planned.mapping, units, loads.tolist())
    assert figures.moves == len(planned.moves)
    assert figures.assigned == previous.owners.count(None)
    count = Counter(owners)
    within = all(
        bounds.least[slot] <= count[unit.id] <= bounds.most[slot] for slot, unit in enumerate(bearing)
    ) and not any(count[unit.id] for unit in units if unit.weight == 0)
    if options["budget"] is None:
        assert within
    else:
        assert counted_moves(planned, units) <= options["budget"]
        assert within or counted_moves(planned, units) == options["budget"]


@pytest.mark.parametrize("seed", range(40))
def test_planning_again_from_the_result_moves_nothing(seed: int) -> None:
    previous, units, loads, options = drawn(seed)
    planned = plan_by_load(previous, units, loads, count_slack=options["count_slack"])
    again = plan_by_load(planned.mapping, units, loads, count_slack=options["count_slack"])
    assert list(again.moves) == []
    assert planned.remaining_moves == 0


@pytest.mark.parametrize("seed", range(40))
def test_the_order_of_the_units_does_not_matter(seed: int) -> None:
    previous, units, loads, options = drawn(seed)
    shuffled = list(units)
    random.Random(seed).shuffle(shuffled)
    assert plan_by_load(previous, shuffled, loads, **options) == plan_by_load(
        previous, units, loads, **options
    )


@pytest.mark.parametrize(
    "seed", [*(0, 3, 4), *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, *range(5, 40)))]
)
def test_with_a_budget_each_plan_goes_on_never_gets_worse_and_the_sequence_ends(seed: int) -> None:
    previous, units, loads, options = drawn(seed)
    budget = 3 + seed % 7
    slack = options["count_slack"]
    planned = plan_by_load(previous, units, loads, count_slack=slack, budget=budget)
    live = {unit.id for unit in units}
    assert set(planned.mapping.owners) <= live
    rounds = 0
    repairing = True
    while len(planned.moves) or rounds == 0:
        rounds += 1
        assert rounds < 400
        following = plan_by_load(planned.mapping, units, loads, count_slack=slack, budget=budget)
        assert len(following.moves) <= budget
        # While counts are repaired or units drained, the largest load may rise; afterwards it does not.
        repairing = repairing and any(
            "may have" in m.reason or "drained" in m.reason or "needs" in m.reason for m in following.moves
        )
        if not repairing:
            assert figures_of(following).max_load <= figures_of(planned).max_load
        planned = following
    assert planned.remaining_moves == 0


def test_a_budget_takes_the_most_gainful_moves_first() -> None:
    # Unit 0 carries 40, unit 1 carries 20, units 2 and 3 carry 4 each.
    previous = level(16, 4)
    loads = [10.0] * 4 + [5.0] * 4 + [1.0] * 8
    planned = plan_by_load(previous, units_of(4), loads, budget=1, count_slack=1)
    (move,) = planned.moves
    assert (move.source, figures_of(planned).max_load) == (0, 30)
    assert planned.remaining_moves > 0


def test_when_many_units_are_the_fullest_a_small_budget_still_goes_on() -> None:
    previous = level(80, 10)
    loads = np.where(np.arange(80) < 64, 3.0, 1.0)
    planned = plan_by_load(previous, units_of(10), loads, budget=2)
    assert figures_of(planned).max_load == 24
    assert len(planned.moves) == 2
    rounds = 0
    while planned.remaining_moves:
        planned = plan_by_load(planned.mapping, units_of(10), loads, budget=2)
        rounds += 1
        assert rounds < 30
    assert figures_of(planned).max_load < 24


def test_what_does_not_lower_the_maximum_is_not_moved() -> None:
    # One vnode outweighs all: unit 0 cannot get lighter, so the others stay uneven.
    loads = [100.0, *[1.0] * 5, *[9.0] * 6]
    previous = VnodeMapping((0,) + (1,) * 5 + (2,) * 6)
    planned = plan_by_load(previous, units_of(3), loads, count_slack=3)
    assert list(planned.moves) == []
    assert figures_of(planned).max_load == figures_of(planned).max_load_lower_bound == 100


def test_only_what_must_moves_to_relieve_one_unit() -> None:
    loads = [1.0] * 64
    loads[3] = loads[5] = 8.0
    planned = plan_by_load(level(64, 8), units_of(8), loads, count_slack=1)
    assert all(move.source == 0 or "exchange" in move.reason for move in planned.moves)
    assert len(planned.moves) <= 14
    assert figures_of(planned).max_load <= 10


def test_vnodes_of_gone_owners_and_of_nobody_are_placed_whatever_the_budget() -> None:
    previous = VnodeMapping((GONE,) * 20 + (None,) * 20 + (0,) * 20 + (1,) * 20)
    planned = plan_by_load(previous, units_of(4), zipf(80, 1.0, 1), budget=1, count_slack=1)
    assert set(planned.mapping.owners) == {0, 1, 2, 3}
    assert figures_of(planned).assigned == 20
    assert sum(move.source == GONE for move in planned.moves) == 20
    assert counted_moves(planned, units_of(4)) <= 1


def test_a_unit_is_drained_step_by_step_within_the_budget() -> None:
    units = units_of(4, [0, 1, 1, 1])
    mapping = level(40, 4)
    loads = zipf(40, 1.0, 2)
    left = []
    for _ in range(4):
        planned = plan_by_load(mapping, units, loads, budget=3)
        mapping = planned.mapping
        left.append(len(mapping.vnodes_of(0)))
    assert left == [7, 4, 1, 0]
    assert planned.moves[0].reason != ""


def test_counts_out_of_bounds_are_repaired_as_far_as_the_budget_lets() -> None:
    previous = VnodeMapping((0,) * 100)
    loads = np.ones(100)
    planned = plan_by_load(previous, units_of(4), loads, budget=10)
    assert len(planned.moves) == 10
    assert planned.remaining_moves >= 59
    assert planned.moves[0].reason.startswith("unit 0 has 100 vnodes and may have 32; unit ")
    whole = plan_by_load(previous, units_of(4), loads)
    assert all(18 <= len(whole.mapping.vnodes_of(unit)) <= 32 for unit in range(4))


def test_a_heavier_unit_carries_more_in_proportion() -> None:
    units = units_of(3, [1, 1, 2])
    loads = zipf(400, 0.5, 3)
    planned = plan_by_load(VnodeMapping.unowned(400), units, loads)
    carried = [sum(loads[vnode] for vnode in planned.mapping.vnodes_of(unit)) for unit in range(3)]
    assert carried[2] == pytest.approx(2 * carried[0], rel=0.01)
    assert figures_of(planned).max_load == pytest.approx(loads.sum() / 3, rel=0.01)
    assert figures_of(planned).max_load_lower_bound == pytest.approx(loads.sum() / 3, rel=0.01)


def test_a_tiny_share_gets_one_vnode_even_where_that_takes_from_the_others_least() -> None:
    units = units_of(5, [100, 0.01, 0.01, 0.01, 0.01])
    planned = plan_by_load(level(5, 1), units, [5.0, 4.0, 3.0, 2.0, 1.0], count_slack=0)
    assert sorted(planned.mapping.owners) == [0, 1, 2, 3, 4]
    assert planned.mapping.owners[0] == 0


def test_a_first_mapping_keeps_runs_where_loads_are_even() -> None:
    planned = plan_by_load(VnodeMapping.unowned(256), units_of(8), [3] * 256)
    assert planned.mapping == plan(VnodeMapping.unowned(256), units_of(8)).mapping
    assert len(planned.moves) == 0


def test_where_nothing_is_loaded_counts_are_levelled() -> None:
    previous = VnodeMapping((0,) * 10)
    planned = plan_by_load(previous, units_of(2), [0] * 10, budget=3)
    counted = plan(previous, units_of(2), budget=3)
    assert (planned.mapping, planned.remaining_moves) == (counted.mapping, counted.remaining_moves)
    assert (figures_of(planned).max_load, figures_of(planned).gap, figures_of(planned).lower_bound) == (
        0,
        None,
        0,
    )


def test_reasons_say_what_the_units_carry() -> None:
    loads = [6.0, 6.0, 1.0, 1.0]
    planned = plan_by_load(VnodeMapping((0, 0, 1, 1)), units_of(2), loads, count_slack=1)
    reasons = {move.reason for move in planned.moves}
    assert "unit 0 carries 1.71 times the mean; unit 1 carries 0.29 times" in reasons


def test_moves_lists_what_changed_in_order_of_vnodes() -> None:
    previous, units = owned_at_random(200, [*range(8), GONE, None], 5), units_of(8)
    planned = plan_by_load(previous, units, zipf(200, 1.0, 5))
    changed = [
        (vnode, source, target)
        for vnode, (source, target) in enumerate(zip(previous.owners, planned.mapping.owners, strict=True))
        if source not in (None, target)
    ]
    assert [(move.vnode, move.source, move.target) for move in planned.moves] == changed
    between = [(s, t) for _, s, t in changed if s == GONE or s % 4 != t % 4]
    assert figures_of(planned).cross_worker_moves == len(between)


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.2, 1.5])
@pytest.mark.parametrize(("vnode_count", "unit_count"), [(256, 8), (256, 16), (2_048, 64), (65_536, 4_096)])
@pytest.mark.parametrize("balanced", [True, False])
def test_zipf_loads_come_within_five_per_cent_of_the_bound_or_the_largest_vnode(
    vnode_count: int, unit_count: int, exponent: float, balanced: bool
) -> None:
    loads = zipf(vnode_count, exponent, unit_count)
    previous = (
        level(vnode_count, unit_count) if balanced else owned_at_random(vnode_count, range(unit_count), 1)
    )
    figures = figures_of(plan_by_load(previous, units_of(unit_count), loads))
    assert figures.max_load <= 1.05 * max(figures.max_load_lower_bound, loads.max())


@pytest.mark.parametrize("exponent", [0.8, 1.0, 1.5])
@pytest.mark.parametrize("budget", [4, 16, 64])
@pytest.mark.parametrize("unit_count", [8, 16, 64])
def test_zipf_loads_come_within_five_per_cent_of_the_bound_of_a_budget(
    exponent: float, budget: int, unit_count: int
) -> None:
    loads = zipf(2_048, exponent, budget)
    planned = plan_by_load(level(2_048, unit_count), units_of(unit_count), loads, budget=budget)
    figures = figures_of(planned)
    assert len(planned.moves) <= budget
    assert figures.max_load <= 1.05 * max(figures.max_load_lower_bound, loads.max())


def test_hot_vnodes_side_by_side_come_within_five_per_cent_of_the_bound_of_a_small_budget() -> None:
    loads = np.arange(1, 2_049) ** -0.8
    figures = figures_of(plan_by_load(level(2_048, 64), units_of(64), loads, budget=20))
    # HiGHS proves 1.5085 of a relaxation in which what units take is of any load.
    assert 1.49 < figures.max_load_lower_bound < 1.5085
    assert figures.max_load <= 1.05 * figures.max_load_lower_bound


def test_the_bound_knows_that_a_unit_at_its_least_takes_one_back_for_each_it_gives() -> None:
    # Of 4 vnodes unit 0 must keep 3: three moves are one alone and one exchange.
    loads = [10.0] * 4 + [0.0] * 4
    figures = figures_of(plan_by_load(level(8, 2), units_of(2), loads, budget=3))
    assert figures.max_load == figures.max_load_lower_bound == pytest.approx(20, rel=1e-5)


def test_the_bound_knows_that_whoever_hosts_the_heaviest_vnode_must_make_room() -> None:
    # 30 stays with 1 * 7 or joins 2 * 8; one move takes no more than one of these away.
    loads = [30.0, *[1.0] * 7, *[2.0] * 8]
    figures = figures_of(plan_by_load(level(16, 2), units_of(2), loads, budget=1))
    assert figures.max_load == 36
    assert figures.max_load_lower_bound == pytest.approx(36, rel=1e-5)


def test_a_small_plan_takes_well_under_fifty_milliseconds_and_a_large_one_seconds() -> None:
    def seconds(vnode_count: int, unit_count: int) -> float:
        previous = owned_at_random(vnode_count, range(unit_count), 7)
        loads = zipf(vnode_count, 1.0, 7)
        begun = time.process_time()
        plan_by_load(previous, units_of(unit_count), loads)
        return time.process_time() - begun

    assert min(seconds(256, 16) for _ in range(3)) < 0.05
    assert seconds(65_536, 4_096) < 5


@pytest.mark.parametrize(
    ("loads", "says"),
    [
        ([1.0, float("nan"), 1.0, 1.0], "vnode 1: a load is a finite number from 0"),
        ([1.0, 1.0, -0.5, 1.0], "vnode 2: .*give 0 where nothing is known"),
        ([1.0, 1.0, 1.0, float("inf")], "vnode 3: "),
        ([True, 1.0, 1.0, 1.0], "vnode 0: "),
        ([1.0, "7", 1.0, 1.0], "vnode 1: "),
        ([1.0, None, 1.0, 1.0], "vnode 1: "),
        ([10**400, 1.0, 1.0, 1.0], "vnode 0: "),
        ([1e308] * 4, "give loads in a larger unit"),
        ([1.0] * 3, "3 loads and 4 vnodes; give one load for each vnode"),
        (np.ones((4, 4)), "vnode 0"),
        (np.float64(3), "loads are a list"),
        (np.array(3.0), "loads are a list"),
        ("1111", "loads are a list"),
        (None, "loads are a list"),
        ({0: 1.0}, "loads are a list"),
    ],
)
def test_malformed_loads_are_refused_with_what_to_do(loads: Any, says: str) -> None:
    with pytest.raises(Malformed, match=says):
        plan_by_load(level(4, 2), units_of(2), loads)


@pytest.mark.parametrize("slack", [-0.1, float("nan"), float("inf"), None, True, "0.25"])
def test_a_malformed_count_slack_is_refused(slack: Any) -> None:
    with pytest.raises(Malformed, match="count slack"):
        plan_by_load(level(4, 2), units_of(2), [1.0] * 4, count_slack=slack)


@pytest.mark.parametrize("budget", [0, -1, 1.5, True, "3"])
def test_a_malformed_budget_is_refused(budget: Any) -> None:
    with pytest.raises(Malformed, match="budget"):
        plan_by_load(level(4, 2), units_of(2), [1.0] * 4, budget=budget)


@pytest.mark.parametrize(
    ("units", "error"),
    [((), NoUnits), (units_of(2, [0, 0]), NoCapacity), (units_of(5), MoreUnitsThanVnodes)],
)
def test_without_units_to_bear_the_loads_there_is_no_plan(
    units: tuple[Unit, ...], error: type[PlanError]
) -> None:
    with pytest.raises(error):
        plan_by_load(level(4, 2), units, [1.0] * 4)


@pytest.mark.parametrize("scale", [5e-324, 1e-300, 1.0, 2.0**60, 1e300])
def test_the_unit_of_the_loads_does_not_change_the_plan(scale: float) -> None:
    whole = [float(vnode % 7 + 1) for vnode in range(64)]
    planned = plan_by_load(level(64, 4), units_of(4), [load * scale for load in whole])
    assert planned.mapping == plan_by_load(level(64, 4), units_of(4), whole).mapping


@pytest.mark.parametrize(
    "previous", [VnodeMapping.unowned(256), VnodeMapping((9,) * 256)], ids=["nobody", "gone"]
)
def test_where_nobody_has_anything_a_budget_keeps_nobody_waiting(previous: VnodeMapping) -> None:
    units = [Unit(0, "a", 1.0), Unit(1, "b", 1000.0), Unit(2, "c", 1.0)]
    answer = plan_by_load(previous, units, [1.0] * 256, budget=1)
    assert answer.mapping.units == (0, 1, 2)
    assert answer.remaining_moves == 0
    assert answer.mapping == plan_by_load(previous, units, [1.0] * 256).mapping


def test_numbers_beyond_all_measure_are_planned_or_refused() -> None:
    units = [Unit(0, "a"), Unit(1, "b")]
    previous = VnodeMapping((0, 0))
    assert plan_by_load(previous, units, [1, 1], budget=10**400).mapping.units == (0, 1)
    with pytest.raises(Malformed, match="count slack"):
        plan_by_load(previous, units, [1, 1], count_slack=10**400)
    with pytest.raises(Malformed, match="vnode 1"):
        plan_by_load(previous, units, [1, 10**400])
