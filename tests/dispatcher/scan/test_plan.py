"""The scan planner against a brute-force look at every prefix of every file."""

import random
import time
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scan.plan import ScanGroup, ScanPlan, plan_scan
from dispatcher.table.file import DataFile, Kind
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from storage_keys.errors import BadVnodeCount
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import Comparison, In
from storage_keys.pruning import Pruned, prune
from storage_keys.range import PrefixRun
from storage_keys.types import BIGINT

PREFIXES = np.arange(65_536)
VNODE_COUNTS = [1, 12, 100, 256, 1000, 65_536]
SCHEMA = KeySchema(7, (KeyColumn("k", BIGINT),), ("k",))


def file(
    name: str, first: int, last: int, size: int = 1000, sequence: int = 1, kind: Kind = Kind.ROWS
) -> DataFile:
    return DataFile(name, 10, size, first, last, sequence, kind)


@st.composite
def mappings(draw: st.DrawFn) -> VnodeMapping:
    vnode_count = draw(st.sampled_from(VNODE_COUNTS))
    units = draw(st.lists(st.integers(0, 500), min_size=1, max_size=min(vnode_count, 9), unique=True))
    return mapped(vnode_count, units, random.Random(draw(st.integers(0, 1_000_000))))


def mapped(vnode_count: int, units: list[int], dice: random.Random) -> VnodeMapping:
    """In runs or scattered."""
    length = dice.choice([1, 7, 50])
    owners = [owner for _ in range(vnode_count // length + 1) for owner in [dice.choice(units)] * length]
    return VnodeMapping(tuple(owners[:vnode_count]))


@st.composite
def table_files(draw: st.DrawFn) -> list[DataFile]:
    """Of any sizes, some of a single prefix, which may be a hot one."""
    hot = draw(st.integers(0, 65_535))
    ends = st.one_of(
        st.just((hot, hot)), st.tuples(st.integers(0, 65_535), st.integers(0, 65_535)), st.just((0, 65_535))
    )
    found = draw(
        st.lists(
            st.tuples(
                ends,
                st.sampled_from([0, 1, 1000, 10**6, 10**9, 10**12]),
                st.integers(1, 3),
                st.sampled_from([Kind.ROWS, Kind.ROWS, Kind.CHANGES]),
            ),
            max_size=7,
        )
    )
    return [
        file(f"f{number}", min(pair), max(pair), size, sequence, kind)
        for number, (pair, size, sequence, kind) in enumerate(found)
    ]


@st.composite
def filters(draw: st.DrawFn) -> Pruned | None:
    values = draw(st.none() | st.lists(st.integers(0, 10**6), max_size=40))
    return None if values is None else prune(SCHEMA, [In("k", tuple(values))])


tasks_wanted = st.none() | st.integers(1, 500) | st.integers(1, 9)


def mask(group: ScanGroup) -> npt.NDArray[np.bool_]:
    return np.frombuffer(group.lookup, np.uint8).astype(bool)


def wanted(pruned: Pruned | None) -> npt.NDArray[np.bool_]:
    found = np.full(65_536, pruned is None)
    for run in () if pruned is None else pruned.prefixes:
        found[run.first : run.last + 1] = True
    return found


def must_merge(group: ScanGroup) -> bool:
    """Whether some change has a row of another file, of a smaller sequence, beside it at a prefix of the group."""
    here = mask(group)
    return any(
        here[max(one.first_prefix, other.first_prefix) : min(one.last_prefix, other.last_prefix) + 1].any()
        for one in group.files
        for other in group.files
        if one.kind is Kind.CHANGES and other.sequence < one.sequence
    )


questions = given(mappings(), table_files(), filters(), tasks_wanted)


@settings(max_examples=60)
@questions
def test_each_row_that_is_asked_for_is_in_exactly_one_group(
    mapping: VnodeMapping, files: list[DataFile], pruned: Pruned | None, tasks: int | None
) -> None:
    check_plan(mapping, files, pruned, tasks)


@pytest.mark.slow
@settings(max_examples=300)
@questions
def test_each_row_of_many_tables_is_in_exactly_one_group(
    mapping: VnodeMapping, files: list[DataFile], pruned: Pruned | None, tasks: int | None
) -> None:
    check_plan(mapping, files, pruned, tasks)


@pytest.mark.parametrize("vnode_count", VNODE_COUNTS)
def test_each_row_is_in_exactly_one_group_of_few_and_of_many(vnode_count: int) -> None:
    for tasks in (1, 12, 500):
        check_at_random(vnode_count, tasks)


@pytest.mark.slow
@pytest.mark.parametrize("vnode_count", VNODE_COUNTS)
def test_each_row_is_in_exactly_one_group_of_so_many(vnode_count: int) -> None:
    for tasks in range(1, 501):
        check_at_random(vnode_count, tasks)


def check_at_random(vnode_count: int, tasks: int) -> None:
    dice = random.Random(1000 * vnode_count + tasks)
    units = dice.sample(range(500), k=min(vnode_count, dice.randint(1, 60)))
    hot = dice.randrange(65_536)
    files = []
    for number in range(dice.randint(1, 12)):
        ends = dice.choice([(hot, hot), (0, 65_535), tuple(sorted(dice.choices(range(65_536), k=2)))])
        size, kind = dice.choice([0, 1, 1000, 10**6, 10**9, 10**12]), dice.choice([*Kind, Kind.ROWS])
        files.append(file(f"f{number}", *ends, size, dice.randint(1, 3), kind))
    keys = tuple(range(dice.choice([1, 40, 1000])))
    pruned = dice.choice([None, None, prune(SCHEMA, [In("k", keys)])])
    check_plan(mapped(vnode_count, units, dice), files, pruned, tasks)


def check_plan(
    mapping: VnodeMapping, files: list[DataFile], pruned: Pruned | None, tasks: int | None
) -> None:
    plan = plan_scan(mapping, files, tasks=tasks, pruned=pruned)
    times = {file.path: np.zeros(65_536, np.int16) for file in files}
    of_any_file = np.zeros(65_536, bool)
    for group in plan.groups:
        here = mask(group)
        of_any_file |= here
        for one in group.files:
            times[one.path] += here
            assert here[one.first_prefix : one.last_prefix + 1].any(), "a file that the group has no rows of"
        assert group.merges == must_merge(group)
    for one in files:
        of_file = slice(one.first_prefix, one.last_prefix + 1)
        assert (times[one.path][of_file] == wanted(pruned)[of_file]).all()
    # Where a prefix is read by its files, nobody needs to look where no file has a row.
    if not any(" files for " in said for said in plan.why):
        assert (of_any_file == wanted(pruned)).all()
    check_groups(plan, mapping, tasks)


def check_groups(plan: ScanPlan, mapping: VnodeMapping, tasks: int | None) -> None:
    owner_of_prefix = np.array(mapping.owners)[PREFIXES * mapping.vnode_count >> 16]
    assert [group.slot for group in plan.groups] == list(range(tasks or len(mapping.units)))
    assert plan.ranges_opened == sum(len(group.prefixes) for group in plan.groups)
    for group in plan.groups:
        units = np.unique(owner_of_prefix[mask(group)]).tolist()
        assert group.unit == (units[0] if len(units) == 1 else None)
        ends = [end for run in group.prefixes for end in (run.first, run.last)]
        assert ends == sorted(ends)
        assert all(after - before > 1 for before, after in zip(ends[1::2], ends[2::2], strict=False))
        assert group.needs_lookup == (len(group.prefixes) > 1024)
    if tasks is None:
        for group, unit in zip(plan.groups, mapping.units, strict=True):
            assert group.unit == (unit if group.prefixes else None)
    else:
        empty = [not group.prefixes for group in plan.groups]
        assert empty == sorted(empty), "empty groups are the last"


@settings(max_examples=20)
@given(mappings(), table_files(), tasks_wanted, st.randoms(use_true_random=False))
def test_the_order_of_the_files_changes_nothing(
    mapping: VnodeMapping, files: list[DataFile], tasks: int | None, dice: random.Random
) -> None:
    plan = plan_scan(mapping, files, tasks=tasks)
    assert plan_scan(mapping, dice.sample(files, len(files)), tasks=tasks) == plan
    assert sum(group.bytes_read for group in plan.groups) == sum(file.size_bytes for file in files)


@settings(max_examples=15)
@given(mappings(), table_files(), st.integers(1, 500))
def test_no_group_is_larger_than_a_share_and_what_cannot_be_divided(
    mapping: VnodeMapping, files: list[DataFile], tasks: int
) -> None:
    rows_only = [replace(file, kind=Kind.ROWS) for file in files]
    plan = plan_scan(mapping, rows_only, tasks=tasks)
    share = sum(file.size_bytes for file in files) / tasks
    # A piece is a file's part of one prefix, or a whole vnode or prefix that has no more than a share.
    pieces = [file.size_bytes // (file.last_prefix - file.first_prefix + 1) + 1 for file in files]
    largest = max(group.bytes_read for group in plan.groups)
    # Each prefix that is shared out by its files has a group that is not full.
    assert largest <= 2 * share + max([*pieces, share]) + 2


def test_adjacent_vnodes_are_one_range() -> None:
    first, second = plan_scan(VnodeMapping.parse("5*3 0*2 5"), []).groups
    assert (first.unit, first.prefixes) == (0, (PrefixRun(32_768, 54_613),))
    assert (second.unit, second.prefixes) == (5, (PrefixRun(0, 32_767), PrefixRun(54_614, 65_535)))


def test_a_known_key_leaves_one_prefix_of_one_group() -> None:
    pruned = prune(SCHEMA, [Comparison("k", "=", 77)])
    (run,) = pruned.prefixes
    mapping = VnodeMapping.parse("0*64 1*64 2*64 3*64")
    plan = plan_scan(mapping, [file("all", 0, 65_535), file("few", 0, 10)], pruned=pruned)
    (group,) = (group for group in plan.groups if group.prefixes)
    assert group.slot == group.unit == mapping.owners[run.first * 256 >> 16]
    assert group.prefixes == (PrefixRun(run.first, run.first),)
    assert [one.path for one in group.files] == ["all"]
    assert (len(plan.groups), plan.vnodes_pruned, plan.ranges_opened) == (4, 255, 1)
    assert "the distribution key (k) is fixed: 1 of 65536 prefixes are read" in plan.why
    assert "3 groups with nothing to read" in plan.why


def test_tasks_regroup_units_by_bytes() -> None:
    mapping = VnodeMapping.parse("0*64 1*64 2*64 3*64")
    files = [file("a", 0, 16_383, 3_000_000), file("b", 16_384, 65_535, 3_000_000)]
    first, second = plan_scan(mapping, files, tasks=2).groups
    assert (first.unit, first.prefixes) == (0, (PrefixRun(0, 16_383),))
    assert (second.unit, second.prefixes) == (None, (PrefixRun(16_384, 65_535),))
    assert first.bytes_read == second.bytes_read == 3_000_000


def test_a_vnode_that_dominates_is_split_by_prefix() -> None:
    hot = [file("hot", 512, 767, 9_000_000), file("cold", 0, 65_535, 1_000_000)]
    plan = plan_scan(VnodeMapping.parse("0*256"), hot, tasks=8)
    assert plan.skew < 1.02
    assert sum(any(512 <= run.first <= 767 for run in group.prefixes) for group in plan.groups) == 7
    assert "split by prefix, having more than a task's share of the bytes: vnode 2 (90 %)" in plan.why


def hot_prefix(kind: Kind) -> list[DataFile]:
    hot = [file(f"hot{number}", 700, 700, 1_000_000, sequence=number + 1) for number in range(8)]
    return [*hot, file("cold", 0, 65_535, 2_000_000, sequence=20, kind=kind)]


def test_a_prefix_that_dominates_is_split_by_its_files() -> None:
    plan = plan_scan(VnodeMapping.parse("0*128 1*128"), hot_prefix(Kind.ROWS), tasks=10)
    hot = [group for group in plan.groups if group.shares_prefix]
    assert len(hot) == 8
    assert {group.prefixes for group in hot} == {(PrefixRun(700, 700),)}
    # `cold` has rows of the hot prefix, too, and is in one group with its own prefixes and in one with that prefix.
    assert sorted(one.path for group in hot for one in group.files) == sorted(
        ["cold", *(f"hot{number}" for number in range(8))]
    )
    assert plan.skew < 1.02
    assert "prefix 700 has 80 % of the bytes: 9 files for 8 tasks" in plan.why


def test_a_table_of_one_prefix_is_read_by_all_tasks() -> None:
    files = [file(f"f{number}", 5, 5) for number in range(4)]
    plan = plan_scan(VnodeMapping.parse("0*256"), files, tasks=4)
    assert [[one.path for one in group.files] for group in plan.groups] == [["f0"], ["f1"], ["f2"], ["f3"]]


def test_a_prefix_whose_changes_must_be_merged_stays_whole() -> None:
    plan = plan_scan(VnodeMapping.parse("0*128 1*128"), hot_prefix(Kind.CHANGES), tasks=10)
    (hot,) = (group for group in plan.groups if any(run.first <= 700 <= run.last for run in group.prefixes))
    assert len(hot.files) == 9
    assert all(group.merges == (group is hot) for group in plan.groups)
    assert any("prefix 700 has 80 % of the bytes and stays whole, since changes" in why for why in plan.why)


def test_changes_of_one_commit_hide_nothing_of_each_other() -> None:
    changes = [file(name, 0, 65_535, sequence=4, kind=Kind.CHANGES) for name in "ab"]
    (group,) = plan_scan(VnodeMapping.parse("0"), changes).groups
    assert not group.merges
    (group,) = plan_scan(VnodeMapping.parse("0"), [*changes, file("later", 0, 65_535, sequence=5)]).groups
    assert not group.merges
    (group,) = plan_scan(VnodeMapping.parse("0"), [*changes, file("before", 3, 3, sequence=3)]).groups
    assert group.merges


def test_more_tasks_than_there_is_work_are_empty_groups() -> None:
    plan = plan_scan(VnodeMapping.parse("0*5 1*7"), [], tasks=500)
    assert [len(group.prefixes) for group in plan.groups] == [1] * 12 + [0] * 488
    assert {group.unit for group in plan.groups[12:]} == {None}
    plan = plan_scan(VnodeMapping.parse("0*256"), [file("one", 9, 9)], tasks=8)
    assert [len(group.files) for group in plan.groups] == [1] + [0] * 7


def test_many_ranges_are_one_look_up() -> None:
    mapping = VnodeMapping(tuple(vnode % 2 for vnode in range(4096)))
    plan = plan_scan(mapping, [])
    assert all(group.needs_lookup for group in plan.groups)
    assert "2 groups with more than 1024 ranges: by one look-up of the prefix" in plan.why
    assert plan.groups[1].lookup == (b"\0" * 16 + b"\1" * 16) * 2048
    assert not any(group.needs_lookup for group in plan_scan(mapping, [], ranges_max=2048).groups)


def test_what_cannot_be_planned_is_refused() -> None:
    with pytest.raises(Malformed, match="vnode 1 has no owner"):
        plan_scan(VnodeMapping.parse("0 - 1"), [])
    for tasks in (0, -1, 65_537, True, 2.0):
        with pytest.raises(Malformed, match="a number of tasks is an integer from 1 to 65536"):
            plan_scan(VnodeMapping.parse("0"), [], tasks=tasks)  # type: ignore[arg-type]
    with pytest.raises(BadVnodeCount):
        plan_scan(VnodeMapping.parse("0*5000"), [])


@pytest.mark.parametrize("width", [13, 65_535])
def test_many_vnodes_and_files_are_planned_at_once(width: int) -> None:
    dice = random.Random(3)
    mapping = VnodeMapping(tuple(dice.randrange(16) for _ in range(65_536)))
    starts = [dice.randrange(65_536 - width) for _ in range(10_000)]
    files = [
        file(f"f{number}", start, start + width, dice.randrange(10**6), number, dice.choice(list(Kind)))
        for number, start in enumerate(starts)
    ]
    for tasks in (None, 100):
        seconds = []
        for _ in range(2):
            started = time.process_time()
            plan_scan(mapping, files, tasks=tasks)
            seconds.append(time.process_time() - started)
        # 10,000 files times 65,536 vnodes would take more than a minute.
        assert min(seconds) < 3
