"""Rows go where `route` says, whatever the phase; rows of a vnode stay in order."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import get_args, get_origin

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.handover.errors import ForeignVnodes
from dispatcher.handover.message import Path
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.ordered.phase import Acknowledged, Given, Giving, Gone, Leaving, Phase, Settled
from dispatcher.handover.ordered.records import route
from dispatcher.handover.ordered.rules import Rules
from dispatcher.handover.rules import Here
from dispatcher.handover.version import Rescale, Version
from dispatcher.handover.ways import Way, Ways

HERE = Here(0, Rules())
UNITS = st.integers(0, 5)
PHASES: dict[type, Callable[[Rescale[int], frozenset[int]], Phase[int]]] = {
    Settled: lambda rescale, _: Settled(rescale.base),
    Giving: lambda rescale, done: Giving(rescale, Arrivals(done=done), {}, 0, {}, {}),
    Given: lambda rescale, done: Given(rescale, Arrivals(done=done)),
    Acknowledged: lambda rescale, _: Acknowledged(rescale),
    Leaving: lambda rescale, _: Leaving(rescale.next),
    Gone: lambda rescale, _: Gone(rescale.next),
}


def rescaled(owners: list[tuple[int, int]]) -> Rescale[int]:
    """Of the owner of each vnode before and after."""
    before, after = (dict(enumerate(units)) for units in zip(*owners, strict=True))
    old = Version(7, "seven", before, frozenset(before.values()))
    return Rescale.between(old, Version(8, "eight", after, frozenset(after.values())))


RESCALES = st.lists(st.tuples(UNITS, UNITS), min_size=1, max_size=30).map(rescaled)


def ways(rescale: Rescale[int], phase: Phase[int]) -> Ways:
    return Ways.by(partial(route, HERE, phase), len(rescale.base.owners))


def numbered(count: int) -> pa.RecordBatch:
    return pa.record_batch({"place": np.arange(count)})


@pytest.mark.parametrize("kind", PHASES)
@settings(max_examples=30)
@given(RESCALES, st.frozensets(UNITS), st.integers(0, 400), st.integers(0, 2**32))
def test_shares_are_what_route_says_of_each_row(
    kind: type, rescale: Rescale[int], done: frozenset[int], count: int, seed: int
) -> None:
    phase = PHASES[kind](rescale, done)
    vnodes = np.random.default_rng(seed).integers(0, len(rescale.base.owners), count, np.int32)
    expected = defaultdict(list)
    for place, vnode in enumerate(vnodes.tolist()):
        expected[Way(vnode, *route(HERE, phase, vnode))].append(place)
    shares = ways(rescale, phase).split(numbered(count), vnodes)
    assert {share.way: share.positions.tolist() for share in shares} == expected
    assert all(share.rows["place"].to_pylist() == share.positions.tolist() for share in shares)


def test_every_phase_is_asked() -> None:
    assert {get_origin(phase) for phase in get_args(Phase)} == PHASES.keys()


def to_three(vnode_count: int) -> Ways:
    return Ways.by(lambda _: (3, Path.ORDINARY), vnode_count)


def test_rows_of_one_way_are_not_copied() -> None:
    rows = numbered(5)
    (share,) = to_three(4).split(rows, np.array([2, 2, 2, 2, 2]))
    assert share.way == Way(2, 3, Path.ORDINARY)
    assert share.rows["place"].buffers()[1].address == rows["place"].buffers()[1].address


@pytest.mark.parametrize("vnode_count", [256, 257])
def test_there_may_be_more_ways_than_a_byte_can_number(vnode_count: int) -> None:
    each = Ways.by(lambda vnode: (vnode % 7, Path.DIRECT), vnode_count)
    shares = each.split(numbered(vnode_count), np.arange(vnode_count)[::-1])
    assert [share.way.vnode for share in shares] == sorted(range(vnode_count), key=lambda vnode: vnode % 7)


def test_no_rows_are_no_shares() -> None:
    assert to_three(1).split(numbered(0), np.array([], int)) == []


@pytest.mark.parametrize("vnode", [-1, 4])
def test_vnodes_of_another_mapping_are_refused(vnode: int) -> None:
    with pytest.raises(ForeignVnodes, match="the mapping has 4"):
        to_three(4).split(numbered(2), np.array([0, vnode], np.int32))
