import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed
from meta.mapping.mapping import VNODE_COUNT_MAX, PartitionGroup, Run, VnodeMapping

owner_lists = st.lists(st.none() | st.integers(0, 4), min_size=1, max_size=40).map(tuple)


def test_a_mapping_seen_from_all_sides() -> None:
    mapping = VnodeMapping((5, 5, 0, None, None, 5))
    assert str(mapping) == "5*2 0 -*2 5"
    assert mapping.vnode_count == 6
    assert mapping.units == (0, 5)
    assert mapping.vnodes_of(5) == (0, 1, 5)
    assert mapping.runs() == (Run(0, 1, 5), Run(2, 2, 0), Run(3, 4, None), Run(5, 5, 5))
    assert mapping.partition_groups() == (
        PartitionGroup(unit=0, slot=0, runs=(Run(2, 2, 0),)),
        PartitionGroup(unit=5, slot=1, runs=(Run(0, 1, 5), Run(5, 5, 5))),
    )


def test_slots_are_ranks_so_that_gaps_in_ids_do_not_matter() -> None:
    assert VnodeMapping((7, 2, 2, 30)).slot_owners == (1, 0, 0, 2)


def test_a_vnode_without_an_owner_has_no_slot() -> None:
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        _ = VnodeMapping((0, None)).slot_owners


@given(owner_lists)
def test_text_form_and_runs_hold_the_whole_mapping(owners: tuple[int | None, ...]) -> None:
    mapping = VnodeMapping(owners)
    assert VnodeMapping.parse(str(mapping)) == mapping
    assert tuple(run.owner for run in mapping.runs() for _ in range(len(run))) == owners
    assert len(mapping.runs()) == mapping.run_count
    for group in mapping.partition_groups():
        assert mapping.units[group.slot] == group.unit
        vnodes = [v for run in group.runs for v in range(run.first, run.last + 1)]
        assert tuple(vnodes) == mapping.vnodes_of(group.unit)


@pytest.mark.parametrize(
    "text",
    ["", " ", "0  1", "a", "-1", "0*", "*3", "0*0x3", "1.5", "٣", "0*-2", "0*99999999", "0*0", "9" * 30],
)
def test_texts_that_are_no_mapping(text: str) -> None:
    with pytest.raises(Malformed):
        VnodeMapping.parse(text)


def test_a_text_is_refused_before_it_fills_the_memory() -> None:
    with pytest.raises(Malformed, match="more than 100 vnodes"):
        VnodeMapping.parse("0*60 1*41", vnode_count_max=100)
    with pytest.raises(Malformed, match="a vnode count"):
        VnodeMapping.unowned(VNODE_COUNT_MAX + 1)


@pytest.mark.parametrize("owners", [(), (True,), (0, "0"), (1.0,), (-1,), (2**63,), ([],), (10**5000,)])
def test_owners_that_cannot_be(owners: tuple[int, ...]) -> None:
    with pytest.raises(Malformed):
        VnodeMapping(owners)
