"""Vnodes in groups for tasks: each vnode once, units kept together, and the largest group as small as can be."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed
from meta.mapping.groups import TaskGroup, groups
from meta.mapping.mapping import VnodeMapping

mappings = st.lists(st.integers(0, 6), min_size=1, max_size=60).map(
    lambda owners: VnodeMapping(tuple(owners))
)


def vnodes(group: TaskGroup) -> list[int]:
    return [vnode for first, last in group.runs for vnode in range(first, last + 1)]


@given(mapping=mappings, tasks=st.integers(1, 80))
def test_every_vnode_is_in_one_group_and_no_group_has_vnodes_of_others_than_its_units(
    mapping: VnodeMapping, tasks: int
) -> None:
    found = groups(mapping, tasks)
    assert [group.task for group in found] == list(range(tasks))
    assert sorted(vnode for group in found for vnode in vnodes(group)) == list(range(mapping.vnode_count))
    for group in found:
        assert {mapping.owners[vnode] for vnode in vnodes(group)} == set(group.units)
        assert group.count == len(vnodes(group))
        assert all(last + 1 < first for (_, last), (first, _) in pairwise(group.runs)), "runs are maximal"


@given(mappings)
def test_without_a_number_of_tasks_each_unit_is_a_group(mapping: VnodeMapping) -> None:
    found = groups(mapping)
    assert found == groups(mapping, len(mapping.units))
    assert {group.unit: tuple(vnodes(group)) for group in found} == {
        unit: mapping.vnodes_of(unit) for unit in mapping.units
    }


@given(mapping=mappings, tasks=st.integers(1, 7))
def test_with_fewer_tasks_than_units_neighbours_share_one_and_no_other_cut_is_better(
    mapping: VnodeMapping, tasks: int
) -> None:
    units = mapping.units
    if tasks > len(units):
        return
    found = groups(mapping, tasks)
    assert [unit for group in found for unit in group.units] == list(units)
    sizes = [len(mapping.vnodes_of(unit)) for unit in units]
    best = min(
        max(sum(sizes[start:end]) for start, end in pairwise((0, *cuts, len(units))))
        for cuts in combinations(range(1, len(units)), tasks - 1)
    )
    assert max(group.count for group in found) == best
    assert all(group.count for group in found)


@given(mapping=mappings, more=st.integers(0, 70))
def test_with_more_tasks_than_units_a_units_pieces_differ_by_one_vnode_at_most(
    mapping: VnodeMapping, more: int
) -> None:
    tasks = len(mapping.units) + more
    found = groups(mapping, tasks)
    for unit in mapping.units:
        counts = [group.count for group in found if group.unit == unit]
        assert max(counts) - min(counts) <= 1
    assert all(len(group.units) <= 1 for group in found)
    empty = [group for group in found if not group.count]
    assert len(empty) == max(0, tasks - mapping.vnode_count)
    assert list(found[tasks - len(empty) :]) == empty
    assert all(group.unit is None for group in empty)


def fewest_pieces(sizes: list[int], largest: int) -> int:
    return sum(-(-size // largest) for size in sizes)


@given(mapping=mappings, more=st.integers(1, 70))
def test_no_division_of_units_has_a_smaller_largest_group(mapping: VnodeMapping, more: int) -> None:
    tasks = len(mapping.units) + more
    sizes = [len(mapping.vnodes_of(unit)) for unit in mapping.units]
    largest = max(group.count for group in groups(mapping, tasks))
    assert largest == 1 or fewest_pieces(sizes, largest - 1) > tasks


def test_of_units_of_one_size_all_groups_are_within_one_vnode() -> None:
    mapping = VnodeMapping.parse("3*64 1*64 2*64 7*64")
    for tasks in (4, 8, 12, 64, 256):
        counts = [group.count for group in groups(mapping, tasks)]
        assert max(counts) - min(counts) <= 1, tasks


def scattered(units: int) -> VnodeMapping:
    """16 vnodes for each."""
    return VnodeMapping.from_array(np.random.default_rng(7).permutation(np.repeat(np.arange(units), 16)))


def test_a_mapping_is_grouped_the_same_each_time() -> None:
    mapping = scattered(1024)
    for tasks in (250, 1250, 16_384):
        assert groups(mapping, tasks) == groups(mapping, tasks)


def test_the_largest_mapping_with_a_task_for_each_vnode() -> None:
    assert {group.count for group in groups(scattered(4096), 65_536)} == {1}


@pytest.mark.parametrize("tasks", [0, -1, True, 1.0, "4"])
def test_a_number_of_tasks_is_from_1(tasks: int) -> None:
    with pytest.raises(Malformed, match="a number of tasks is an integer from 1"):
        groups(VnodeMapping.parse("1*4"), tasks)


def test_a_vnode_of_nobody_is_in_no_group() -> None:
    with pytest.raises(Malformed, match="plan a mapping first"):
        groups(VnodeMapping.parse("1*4 -"), 2)
