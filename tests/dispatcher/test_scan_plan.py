"""The scan planner against a brute-force look at every prefix."""

import random
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scan.plan import DataFile, Interval, plan_scan
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping

PREFIXES = np.arange(65_536)


def file(name: str, first: int, last: int) -> DataFile:
    return DataFile(name, first_prefix=first, last_prefix=last)


@st.composite
def mappings(draw: st.DrawFn) -> VnodeMapping:
    vnode_count = draw(st.sampled_from([1, 2, 12, 100, 256, 1000, 65_536]))
    units = draw(st.lists(st.integers(0, 500), min_size=1, max_size=min(vnode_count, 9), unique=True))
    dice = random.Random(draw(st.integers(0, 1_000_000)))
    length = draw(st.sampled_from([1, 7, 50]))
    owners = [dice.choice(units) for _ in range(vnode_count // length + 1) for _ in range(length)]
    return VnodeMapping(tuple(owners[:vnode_count]))


@st.composite
def table_files(draw: st.DrawFn) -> list[DataFile]:
    ends = draw(st.lists(st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)), max_size=6))
    return [file(f"f{number}", min(pair), max(pair)) for number, pair in enumerate(ends)]


@settings(max_examples=60)
@given(mappings(), table_files())
def test_each_prefix_is_in_the_group_of_its_owner_and_each_file_where_it_may_have_rows(
    mapping: VnodeMapping, files: list[DataFile]
) -> None:
    groups = plan_scan(mapping, files)
    assert [(group.slot, group.unit) for group in groups] == list(enumerate(mapping.units))
    owner_of_prefix = np.array(mapping.owners)[PREFIXES * mapping.vnode_count >> 16]
    times = np.zeros(65_536, dtype=int)
    for group in groups:
        mine = np.zeros(65_536, dtype=bool)
        for run in group.prefixes:
            mine[run.first : run.last + 1] = True
            times[run.first : run.last + 1] += 1
        assert (mine == (owner_of_prefix == group.unit)).all()
        held = [f for f in files if mine[f.first_prefix : f.last_prefix + 1].any()]
        assert list(group.files) == held
    assert (times == 1).all()


@given(mappings(), table_files(), st.integers(0, 65_535))
def test_a_known_prefix_leaves_one_vnode_of_one_group(
    mapping: VnodeMapping, files: list[DataFile], prefix: int
) -> None:
    vnode = prefix * mapping.vnode_count >> 16
    for group in plan_scan(mapping, files, prefix):
        if group.unit == mapping.owners[vnode]:
            assert group.prefixes == (Interval(prefix, prefix),)
            assert list(group.files) == [f for f in files if f.first_prefix <= prefix <= f.last_prefix]
        else:
            assert (group.prefixes, group.files) == ((), ())


def test_adjacent_vnodes_are_one_range() -> None:
    first, second = plan_scan(VnodeMapping.parse("5*3 0*2 5"), [])
    assert (first.unit, first.prefixes) == (0, (Interval(32_768, 54_613),))
    assert (second.unit, second.prefixes) == (5, (Interval(0, 32_767), Interval(54_614, 65_535)))


def test_a_vnode_of_nobody_is_refused_since_its_rows_would_be_lost() -> None:
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        plan_scan(VnodeMapping.parse("0 - 1"), [])


def test_a_file_costs_one_search_and_not_a_look_at_every_run() -> None:
    dice = random.Random(3)
    mapping = VnodeMapping(tuple(dice.randrange(500) for _ in range(65_536)))
    files = [file(f"f{number}", start := dice.randrange(65_000), start + 13) for number in range(10_000)]
    seconds = []
    for _ in range(2):
        started = time.process_time()
        groups = plan_scan(mapping, files)
        seconds.append(time.process_time() - started)
    # 10,000 files times 65,536 runs would take more than a minute.
    assert min(seconds) < 10
    assert sum(len(group.files) for group in groups) > 100_000
