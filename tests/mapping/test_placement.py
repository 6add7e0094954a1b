import pytest

from meta.mapping.errors import Malformed, NotEnoughUnits
from meta.mapping.mapping import VnodeMapping
from meta.mapping.placement import choose_units
from meta.mapping.plan import first_mapping, plan
from meta.mapping.unit import Unit

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


@pytest.mark.parametrize("parallelism", [0, -1, True])
def test_a_parallelism_that_cannot_be(parallelism: int) -> None:
    with pytest.raises(Malformed):
        choose_units(TWO_WORKERS, None, parallelism)


def test_the_same_unit_twice_is_refused() -> None:
    with pytest.raises(Malformed):
        choose_units([Unit(0, "a"), Unit(0, "b")], None, 1)


def test_thousands_of_units_are_chosen_at_once() -> None:
    units = [Unit(unit_id, f"w{unit_id // 8}") for unit_id in range(4096)]
    assert len(choose_units(units, None, 4000)) == 4000
    assert len(choose_units(units, first_mapping(65_536, units), 100)) == 100
