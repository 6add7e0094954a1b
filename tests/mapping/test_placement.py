import re
from collections import Counter
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed, NotEnoughUnits
from meta.mapping.mapping import VnodeMapping
from meta.mapping.placement import choose_units
from meta.mapping.plan import first_mapping, plan
from meta.mapping.unit import Unit
from storage_keys.errors import shown

TWO_WORKERS = [Unit(0, "w1"), Unit(1, "w1"), Unit(2, "w2"), Unit(3, "w2")]


def chosen(available: list[Unit], current: VnodeMapping | None, parallelism: int) -> list[int]:
    return [unit.id for unit in choose_units(available, current, parallelism)]


def test_three_then_four_then_two_units_on_two_workers() -> None:
    three = choose_units(TWO_WORKERS, None, 3)
    assert [unit.id for unit in three] == [0, 1, 2]
    mapping = first_mapping(256, three)
    assert chosen(TWO_WORKERS, mapping, 4) == [0, 1, 2, 3]
    four = plan(mapping, TWO_WORKERS).mapping
    assert chosen(TWO_WORKERS, four, 2) == [0, 2]


def test_growth_spreads_over_workers_and_ignores_the_order_of_units() -> None:
    units = [Unit(9, "b"), *(Unit(unit_id, "a") for unit_id in range(4)), Unit(7, "c"), Unit(8, "c")]
    for order in (units, units[::-1]):
        assert chosen(order, None, 3) == [0, 7, 9]
        assert chosen(order, None, 5) == [0, 1, 7, 8, 9]


def test_current_units_stay_also_where_a_fresh_choice_would_be_another() -> None:
    mapping = VnodeMapping((1, 1, 3, 3))
    assert chosen(TWO_WORKERS, mapping, 2) == [1, 3]
    assert chosen(TWO_WORKERS, mapping, 3) == [0, 1, 3]


def test_a_gone_unit_is_replaced_on_the_emptiest_worker() -> None:
    assert chosen(TWO_WORKERS, VnodeMapping((0, 1, 77)), 3) == [0, 1, 2]


def test_shrinking_drops_the_unit_with_the_fewest_vnodes_of_the_fullest_worker() -> None:
    mapping = VnodeMapping.parse("0*2 1*3 4*3 2*1")
    units = [*TWO_WORKERS, Unit(4, "w1")]
    assert chosen(units, mapping, 3) == [1, 2, 4], "0 has the fewest on w1; 2 has fewer, but w2 is not fuller"
    assert chosen(units, mapping, 2) == [1, 2], "1 and 4 have as many: the higher id goes"


def test_drained_units_are_left_out() -> None:
    units = [Unit(0, "w1", weight=0), Unit(1, "w1"), Unit(2, "w2")]
    assert chosen(units, VnodeMapping((0, 0)), 2) == [1, 2]
    with pytest.raises(NotEnoughUnits) as error:
        choose_units(units, None, 3)
    assert (error.value.name, error.value.parallelism, error.value.available) == ("not-enough-units", 3, 2)
    assert str(error.value).endswith("register more workers, or ask for at most 2")
    with pytest.raises(NotEnoughUnits, match=r"0 are available; register more workers$"):
        choose_units(units[:1], None, 3)


@pytest.mark.parametrize("parallelism", [0, -1, True, 10**5000], ids=shown)
def test_a_parallelism_that_cannot_be(parallelism: int) -> None:
    with pytest.raises(Malformed, match=re.escape(f"not {shown(parallelism)}")):
        choose_units(TWO_WORKERS, None, parallelism)


def test_the_same_unit_twice_is_refused() -> None:
    with pytest.raises(Malformed):
        choose_units([Unit(0, "a"), Unit(0, "b")], None, 1)


def test_thousands_of_units_are_chosen_at_once() -> None:
    units = [Unit(unit_id, f"w{unit_id // 8:03}") for unit_id in range(4096)]
    # 7 of each of 512 workers are 3584; the first 416 give their eighth, too.
    seven = {unit_id for unit_id in range(4096) if unit_id % 8 < 7}
    assert chosen(units, None, 4000) == sorted(seven | set(range(7, 8 * 416, 8)))
    # Each keeps its first unit until the workers with the highest ids lose it.
    assert chosen(units, first_mapping(65_536, units), 100) == list(range(0, 800, 8))


GONE = 99
workers = st.lists(st.sampled_from("abc"), min_size=1, max_size=7)


@st.composite
def placements(draw: st.DrawFn) -> tuple[list[Unit], VnodeMapping | None, int]:
    units = [
        Unit(unit_id, worker, draw(st.sampled_from([1.0, 1.0, 3.0, 0.0])))
        for unit_id, worker in enumerate(draw(workers))
    ]
    owner = st.sampled_from([None, GONE, *(unit.id for unit in units)])
    current = draw(st.none() | st.lists(owner, min_size=1, max_size=9).map(lambda o: VnodeMapping(tuple(o))))
    bearing = sum(unit.weight > 0 for unit in units)
    return units, current, draw(st.integers(1, max(1, bearing)))


def unevenness(chosen: tuple[Unit, ...], workers: set[str]) -> tuple[int, int, int]:
    """Of units over workers: less is more even. The sum of squares decides where the extremes are forced."""
    counts = Counter(unit.worker for unit in chosen)
    every = [counts[worker] for worker in workers]
    return max(every) - min(every), max(every), sum(count * count for count in every)


@given(placements())
def test_no_other_choice_that_keeps_current_units_is_more_even(
    case: tuple[list[Unit], VnodeMapping | None, int],
) -> None:
    units, current, parallelism = case
    bearing = [unit for unit in units if unit.weight > 0]
    if not bearing:
        with pytest.raises(NotEnoughUnits):
            choose_units(units, current, parallelism)
        return
    owning = set() if current is None else set(current.units)
    kept = {unit for unit in bearing if unit.id in owning}
    answer = choose_units(units, current, parallelism)
    assert len(answer) == parallelism
    assert set(answer) <= set(bearing)
    assert kept <= set(answer) or set(answer) <= kept, "no unit joins while a current one leaves"
    workers = {unit.worker for unit in bearing}
    candidates = [
        chosen for chosen in combinations(bearing, parallelism) if kept <= set(chosen) or set(chosen) <= kept
    ]
    assert unevenness(answer, workers) == min(unevenness(chosen, workers) for chosen in candidates)
    assert choose_units(units[::-1], current, parallelism) == answer


@given(placements())
def test_units_join_and_leave_one_by_one_by_the_stated_order(
    case: tuple[list[Unit], VnodeMapping | None, int],
) -> None:
    units, current, parallelism = case
    bearing = {unit for unit in units if unit.weight > 0}
    vnodes = Counter(() if current is None else current.owners)
    chosen = {unit for unit in bearing if vnodes[unit.id]}
    if not bearing:
        return

    def on_worker(unit: Unit) -> int:
        return sum(other.worker == unit.worker for other in chosen)

    while len(chosen) < parallelism:
        chosen.add(min(bearing - chosen, key=lambda unit: (on_worker(unit), unit.worker, unit.id)))
    while len(chosen) > parallelism:
        chosen.remove(min(chosen, key=lambda unit: (-on_worker(unit), vnodes[unit.id], -unit.id)))
    assert choose_units(units, current, parallelism) == tuple(sorted(chosen))
