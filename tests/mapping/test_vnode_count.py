"""A mapping with more vnodes, and with fewer: no key changes its owner (storage-keys.md)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed, SiblingsDisagree, UnrelatedVnodeCounts
from meta.mapping.mapping import VNODE_COUNT_MAX, Run, VnodeMapping
from storage_keys.errors import BadVnodeCount
from storage_keys.vnode import PREFIX_COUNT, check_vnode_count, vnode_of

PREFIXES = range(PREFIX_COUNT)
mappings = st.lists(st.none() | st.integers(0, 3), min_size=1, max_size=12).map(tuple).map(VnodeMapping)


def allowed(vnode_count: int) -> bool:
    try:
        check_vnode_count(vnode_count)
    except BadVnodeCount:
        return False
    return True


def owners_of_all_prefixes(mapping: VnodeMapping) -> list[int | None]:
    owners, count = mapping.owners, mapping.vnode_count
    return [owners[vnode_of(prefix, count)] for prefix in PREFIXES]


def agree(mapping: VnodeMapping, factor: int) -> bool:
    """Whether every `factor` adjacent vnodes have one owner."""
    return all(owner == mapping.owners[v - v % factor] for v, owner in enumerate(mapping.owners))


def distinct(vnode_count: int) -> VnodeMapping:
    """Another owner for every vnode, so that a key in a wrong vnode is seen."""
    return VnodeMapping.from_array(np.arange(vnode_count) * 7 + 3)


@pytest.mark.parametrize(
    ("before", "after"),
    [(256, 512), (256, 1024), (256, 4096), (256, 65_536), (1, 65_536), (1, 3), (3, 6), (7, 4095), (300, 900)],
)
def test_every_prefix_keeps_its_owner_when_vnodes_are_multiplied(before: int, after: int) -> None:
    mapping = distinct(before)
    larger = mapping.with_vnode_count(after)
    assert larger.vnode_count == after
    assert owners_of_all_prefixes(larger) == owners_of_all_prefixes(mapping)


@pytest.mark.slow
def test_every_prefix_keeps_its_owner_for_all_counts_that_a_fragment_may_have() -> None:
    prefixes = np.arange(PREFIX_COUNT)
    pairs = 0
    for before in filter(allowed, range(1, PREFIX_COUNT + 1)):
        mapping = distinct(before)
        expected = mapping.array[vnode_of(prefixes, before)]
        for factor in range(2, PREFIX_COUNT // before + 1):
            if allowed(before * factor):
                larger = mapping.multiplied(factor)
                assert np.array_equal(larger.array[vnode_of(prefixes, before * factor)], expected)
                pairs += 1
    assert pairs > 25_000


@given(mappings, st.integers(1, 6))
def test_multiplied_vnodes_are_the_children_of_theirs_and_runs_stay_runs(
    mapping: VnodeMapping, factor: int
) -> None:
    larger = mapping.multiplied(factor)
    for vnode, owner in enumerate(mapping.owners):
        assert larger.owners[vnode * factor : (vnode + 1) * factor] == (owner,) * factor
    assert larger.vnode_count == mapping.vnode_count * factor
    assert larger.runs() == tuple(
        Run(run.first * factor, (run.last + 1) * factor - 1, run.owner) for run in mapping.runs()
    )
    assert larger.divided(factor) == mapping
    assert larger.with_vnode_count(mapping.vnode_count) == mapping
    assert mapping.with_vnode_count(larger.vnode_count) == larger


@given(mappings, st.integers(1, 6))
def test_a_mapping_is_divided_exactly_where_all_siblings_agree(mapping: VnodeMapping, factor: int) -> None:
    if mapping.vnode_count % factor:
        with pytest.raises(Malformed):
            mapping.divided(factor)
        return
    groups = [mapping.owners[at : at + factor] for at in range(0, mapping.vnode_count, factor)]
    disagreeing = [group for group, owners in enumerate(groups) if len(set(owners)) > 1]
    if not disagreeing:
        assert mapping.divided(factor).owners == tuple(owners[0] for owners in groups)
        return
    with pytest.raises(SiblingsDisagree) as error:
        mapping.divided(factor)
    assert error.value.groups == len(disagreeing)
    assert error.value.first == disagreeing[0]
    owners = tuple(dict.fromkeys(groups[disagreeing[0]]))
    assert (error.value.owners, error.value.owner_count) == (owners[:4], len(owners))
    agreeing = [divisor for divisor in range(2, factor) if factor % divisor == 0 and agree(mapping, divisor)]
    assert error.value.possible == min((mapping.vnode_count // divisor for divisor in agreeing), default=None)


def test_siblings_that_disagree_are_named_with_their_owners_and_what_to_do() -> None:
    mapping = VnodeMapping.parse("0*4 1*6 -*2 3*2 4*2")
    with pytest.raises(SiblingsDisagree) as error:
        mapping.divided(4)
    assert str(error.value) == (
        "2 of the groups of 4 sibling vnodes have more than one owner, the first being vnodes 8..11 of unit 1,"
        " nobody; move each group to one unit first, or use a count of 8"
    )
    with pytest.raises(SiblingsDisagree) as error:
        VnodeMapping.from_array(np.arange(4096)).with_vnode_count(1)
    assert "0..4095 of unit 0, unit 1, unit 2, unit 3, 4092 more; move each" in str(error.value)
    assert str(error.value).endswith("to one unit first"), "any other count than the present one is as bad"
    assert (error.value.owners, error.value.owner_count) == ((0, 1, 2, 3), 4096)


@pytest.mark.parametrize(
    ("wanted", "nearest"), [(300, (512,)), (1000, (768, 1024)), (255, (128,)), (3, (2, 4))]
)
def test_a_count_that_is_no_multiple_names_the_nearest_ones_without_the_present_one(
    wanted: int, nearest: tuple[int, ...]
) -> None:
    with pytest.raises(UnrelatedVnodeCounts) as error:
        VnodeMapping.unowned(256).with_vnode_count(wanted)
    assert error.value.nearest == nearest
    assert str(error.value).endswith(f"such as {' or '.join(map(str, nearest))}")
    for count in nearest:
        assert VnodeMapping.unowned(256).with_vnode_count(count).vnode_count == count


@pytest.mark.parametrize(
    ("vnode_count", "factor", "advice"),
    [
        (256, 3, "; use a count of 64 or 128"),
        (7, 2, "; use a count of 1"),
        (9, 2, "; use a count of 3"),
        (1, 2, ""),
    ],
)
def test_a_factor_that_is_no_divisor_names_the_nearest_counts(
    vnode_count: int, factor: int, advice: str
) -> None:
    with pytest.raises(Malformed) as error:
        VnodeMapping.unowned(vnode_count).divided(factor)
    assert str(error.value) == f"{vnode_count} vnodes cannot be divided by {factor}{advice}"


@pytest.mark.parametrize("number", [0, -1, True, 2.0])
def test_factors_and_counts_that_cannot_be(number: int) -> None:
    mapping = VnodeMapping((0, 0))
    for change in (mapping.multiplied, mapping.divided, mapping.with_vnode_count):
        with pytest.raises(Malformed):
            change(number)


def test_counts_above_any_fragment_are_refused_before_they_fill_the_memory() -> None:
    with pytest.raises(Malformed, match="a vnode count is an integer from 1"):
        VnodeMapping.unowned(256).multiplied(10**15)
    with pytest.raises(Malformed, match=r"use a count of 1$"):
        VnodeMapping.unowned(256).divided(10**5000)
    with pytest.raises(UnrelatedVnodeCounts) as error:
        VnodeMapping.unowned(3).with_vnode_count(VNODE_COUNT_MAX)
    assert error.value.nearest == (VNODE_COUNT_MAX // 3 * 3,), "the next multiple is too many"
    with pytest.raises(UnrelatedVnodeCounts, match=r"use one of either$"):
        VnodeMapping.unowned(VNODE_COUNT_MAX // 2 + 1).with_vnode_count(VNODE_COUNT_MAX)
