import copy
import itertools
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.diff import ChangedRun, Changes, Diff, apply
from meta.mapping.errors import NotTheBase, UnrelatedVnodeCounts
from meta.mapping.mapping import VnodeMapping
from meta.mapping.unit import UNIT_ID_MAX

OWNERS = st.none() | st.integers(0, 3) | st.just(UNIT_ID_MAX)


@st.composite
def pairs_of_mappings(draw: st.DrawFn) -> tuple[VnodeMapping, VnodeMapping]:
    """Of one vnode count, or of two where either is a multiple of the other."""
    small = draw(st.integers(1, 8))
    counts = [small, small * draw(st.integers(1, 4))]
    before, after = draw(st.permutations(counts))
    owners = [draw(st.lists(OWNERS, min_size=n, max_size=n)) for n in (before, after)]
    return VnodeMapping(tuple(owners[0])), VnodeMapping(tuple(owners[1]))


def test_a_diff_tells_moved_assigned_and_released_vnodes_apart() -> None:
    before = VnodeMapping.parse("0*4 1*4 -*2")
    after = VnodeMapping.parse("0*2 2*2 1*3 -*1 3*2")
    answer = Diff(before, after)
    assert answer.changes.vnodes.tolist() == [2, 3, 7, 8, 9]
    assert answer.moves.vnodes.tolist() == [2, 3]
    assert (answer.moves.sources.tolist(), answer.moves.targets.tolist()) == ([0, 0], [2, 2])
    assert (answer.assigned.vnodes.tolist(), answer.assigned.targets.tolist()) == ([8, 9], [3, 3])
    assert (answer.released.vnodes.tolist(), answer.released.sources.tolist()) == ([7], [1])
    assert answer.changes.runs() == (
        ChangedRun(2, 3, 0, 2),
        ChangedRun(7, 7, 1, None),
        ChangedRun(8, 9, None, 3),
    )


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda d: pickle.loads(pickle.dumps(d))])
def test_what_a_diff_or_its_copy_says_cannot_be_changed(copied: Any) -> None:
    original = Diff(VnodeMapping((0, 0, None)), VnodeMapping((0, 1, 2)))
    assert len(original.moves) == 1
    answer: Diff = copied(original)
    assert answer == original
    for changes, vnodes in ((answer.changes, [1, 2]), (answer.moves, [1]), (answer.assigned, [2])):
        assert changes.vnodes.tolist() == vnodes
        for column in (changes.vnodes, changes.sources, changes.targets):
            with pytest.raises(ValueError, match="read-only"):
                column[0] = 0


def test_changes_leave_the_columns_that_they_are_made_of_as_they_are() -> None:
    column = np.array([1, 2])
    changes = Changes(column, column, column)
    column[0] = 7
    assert changes.vnodes.tolist() == [1, 2]


@given(pairs_of_mappings())
def test_the_diff_is_what_differs_vnode_by_vnode(pair: tuple[VnodeMapping, VnodeMapping]) -> None:
    before, after = pair
    answer = Diff(before, after)
    larger = max(before.vnode_count, after.vnode_count)
    differing = {
        vnode: (
            before.owners[vnode * before.vnode_count // larger],
            after.owners[vnode * after.vnode_count // larger],
        )
        for vnode in range(larger)
    }
    differing = {vnode: owners for vnode, owners in differing.items() if owners[0] != owners[1]}
    told = {
        v: (run.source, run.target) for run in answer.changes.runs() for v in range(run.first, run.last + 1)
    }
    assert told == differing
    assert list(told) == answer.changes.vnodes.tolist() == sorted(differing)
    assert len(answer.moves) == sum(None not in owners for owners in differing.values())
    assert len(answer.moves) + len(answer.assigned) + len(answer.released) == len(differing)


@given(pairs_of_mappings())
def test_runs_of_changes_are_maximal(pair: tuple[VnodeMapping, VnodeMapping]) -> None:
    changes = Diff(*pair).changes
    runs = changes.runs()
    assert [changes.runs(runs_max) for runs_max in range(4)] == [runs[:runs_max] for runs_max in range(4)]
    assert changes.vnodes[changes.run_starts].tolist() == [run.first for run in runs]
    for run, following in itertools.pairwise(runs):
        assert run.last < following.first
        if run.last + 1 == following.first:
            assert (run.source, run.target) != (following.source, following.target)


@given(pairs_of_mappings())
def test_before_and_the_changes_make_after_and_the_inverse_leads_back(
    pair: tuple[VnodeMapping, VnodeMapping],
) -> None:
    before, after = pair
    answer = Diff(before, after)
    rebuilt = before.with_vnode_count(answer.vnode_count).array.copy()
    for part in (answer.moves, answer.assigned, answer.released):
        assert np.array_equal(rebuilt[part.vnodes], part.sources)
        rebuilt[part.vnodes] = part.targets
    assert VnodeMapping.from_array(rebuilt) == after.with_vnode_count(answer.vnode_count)
    assert apply(answer.inverse(), apply(answer, VnodeMapping(before.owners))) == before
    assert answer.inverse().inverse() == answer
    back = answer.inverse().changes
    assert np.array_equal(back.vnodes, answer.changes.vnodes)
    assert np.array_equal(back.sources, answer.changes.targets)
    assert len(answer.inverse().released) == len(answer.assigned)


def test_a_diff_is_refused_by_another_mapping_also_where_only_an_unchanged_vnode_differs() -> None:
    answer = Diff(VnodeMapping((0, 0, 1, None)), VnodeMapping((0, 2, 1, None)))
    with pytest.raises(NotTheBase, match="vnode 2 is owned by nobody and the diff starts from unit 1; make"):
        apply(answer, VnodeMapping((0, 0, None, 5)))
    with pytest.raises(NotTheBase, match="8 vnodes and the diff starts from 4"):
        apply(answer, answer.before.multiplied(2))
    with pytest.raises(NotTheBase, match="vnode 1 is owned by unit 2"):
        apply(answer, answer.after)


@pytest.mark.parametrize(("before", "after", "nearest"), [(6, 9, 12), (9, 6, 3)])
def test_vnode_counts_that_no_common_vnode_fits_are_refused(before: int, after: int, nearest: int) -> None:
    told = f"{after} is neither a multiple nor a divisor of {before} vnodes; use one of either, such as {nearest}$"
    with pytest.raises(UnrelatedVnodeCounts, match=told) as error:
        Diff(VnodeMapping.unowned(before), VnodeMapping.unowned(after))
    assert error.value.nearest == (nearest,)


def test_a_multiplied_mapping_differs_in_nothing() -> None:
    mapping = VnodeMapping.parse("0*3 1*2 -*3")
    assert len(Diff(mapping, mapping.multiplied(32)).changes) == 0
    assert len(Diff(mapping.multiplied(32), mapping).changes) == 0


def test_the_text_is_runs_and_its_length_has_a_bound() -> None:
    before = VnodeMapping.parse("0*64 1*63 -*1")
    after = VnodeMapping.parse("0*60 2*4 1*4 2*1 1*58 2*1")
    assert Diff(before, after).text() == (
        "128 vnodes: moves 5, assigned 1, released 0, runs 3\n"
        "  vnodes 60..63: unit 0 -> unit 2\n"
        "  vnode 68: unit 1 -> unit 2\n"
        "  vnode 127: nobody -> unit 2"
    )
    assert Diff(before, after).text(runs_max=1) == (
        "128 vnodes: moves 5, assigned 1, released 0, runs 3\n"
        "  vnodes 60..63: unit 0 -> unit 2\n"
        "  and more: runs 2, vnodes 2"
    )
    assert Diff(before, before).text() == "128 vnodes: moves 0, assigned 0, released 0, runs 0"
    assert Diff(VnodeMapping((0, 1)), VnodeMapping((0, 0, 1, 3))).text() == (
        "2 -> 4 vnodes, counted as 4: moves 1, assigned 0, released 0, runs 1\n  vnode 3: unit 1 -> unit 3"
    )


def test_a_large_diff_has_a_short_text() -> None:
    every = np.arange(65_536)
    text = Diff(VnodeMapping.from_array(every % 4096), VnodeMapping.from_array((every + 1) % 4096)).text()
    assert len(text.splitlines()) == 42
    assert text.splitlines()[-1] == "  and more: runs 65496, vnodes 65496"
