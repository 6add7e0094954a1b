"""How far a rescale is: by subscriber, and by vnode where the appliers tell."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from meta.errors import NotMoving
from meta.lifecycle import HandedOver, Role
from meta.mapping.diff import Diff
from meta.mapping.publication import Phase
from meta.rescaling.progress import Follower, VnodeProgress, runs_of, vnodes_of
from storage_keys.vnode import PREFIX_COUNT
from tests.meta.world import APPLIER_TIMEOUT_MS, OPERATOR, World


def progress(world: World) -> VnodeProgress:
    return world.subscribing.progress("flights")


def follower(world: World, name: str) -> Follower:
    (found,) = [one for one in progress(world).followers if one.subscriber.id == name]
    return found


def moving_to(world: World, version: int) -> list[int]:
    body = world.body(version)
    assert body.previous is not None
    moving: list[int] = Diff(body.previous.mapping, body.mapping).moves.vnodes.tolist()
    return moving


def one_by_one(vnodes: list[int]) -> tuple[tuple[int, int], ...]:
    return tuple((vnode, vnode) for vnode in vnodes)


def begin(world: World, *jobs: str) -> list[int]:
    """A rescale that these appliers hold up; the vnodes that move."""
    for job in jobs:
        world.hear(job, world.current[0])
    world.apply(1, 2, 3, 4)
    return moving_to(world, world.current[0])


def test_a_vnode_is_handed_over_when_every_awaited_applier_says_so(world: World) -> None:
    moving = begin(world, "a", "b")
    assert (progress(world).moving, progress(world).handed_over) == (len(moving), 0)
    world.hear("a", 1, handed_over=HandedOver(2, one_by_one(moving[:10])))
    world.hear("b", 1, handed_over=HandedOver(2, one_by_one(moving[7:20])))
    assert progress(world).handed_over == 3
    assert (follower(world, "a").handed_over, follower(world, "b").handed_over) == (10, 13)
    world.hear("a", 2)
    assert (follower(world, "a").handed_over, progress(world).handed_over) == (len(moving), 13)
    world.hear("b", 2)
    assert world.current == (2, Phase.SETTLED)
    assert progress(world).handed_over == len(moving)


def test_a_beat_that_says_nothing_of_vnodes_takes_nothing_back(world: World) -> None:
    moving = begin(world, "job")
    world.hear("job", 1, handed_over=HandedOver(2, one_by_one(moving[:5])))
    world.hear("job", 1)
    assert progress(world).handed_over == 5


def test_a_vnode_that_does_not_move_cannot_be_handed_over(world: World) -> None:
    moving = begin(world, "job")
    staying = sorted(set(range(256)) - set(moving))
    world.now_ms += 1_000
    with pytest.raises(NotMoving, match="report as handed over only vnodes whose owner changes") as refusal:
        world.hear("job", 1, handed_over=HandedOver(2, ((moving[0], moving[0]), *one_by_one(staying))))
    assert refusal.value.vnodes == staying[:10]
    assert follower(world, "job").silent_ms == 1_000, "it is not heard at all"
    with pytest.raises(NotMoving):
        world.hear("job", 1, handed_over=HandedOver(2, ((256, PREFIX_COUNT - 1),)))


def test_a_report_of_another_version_counts_for_nothing_and_harms_nothing(world: World) -> None:
    """An applier may not have read yet that its rescale was superseded or aborted."""
    moving = begin(world, "job")
    rescale = world.rescales.newest(1, after=None, fragment="flights")[0]
    world.hear("job", 1, handed_over=HandedOver(2, one_by_one(moving[:5])))
    world.rescales.abort(rescale.id, by=OPERATOR)
    for version in (2, 7):
        world.hear("job", 1, handed_over=HandedOver(version, one_by_one(moving[:6])))
    assert (progress(world).moving, progress(world).handed_over) == (0, 0)
    again = begin(world)
    assert (progress(world).moving, progress(world).handed_over) == (len(again), 0)


def test_a_follower_is_shown_with_its_lag_and_its_silence(world: World) -> None:
    world.hear("new", None)
    world.hear("old", 1)
    world.hear("reader", 1, Role.READER)
    world.apply(1, 2, 3, 4)
    world.now_ms += 2_000
    world.hear("new", None)
    shown = {one.subscriber.id: (one.lag, one.silent_ms, one.waited_for) for one in progress(world).followers}
    assert shown == {"new": (None, 0, True), "old": (1, 2_000, True), "reader": (1, 2_000, False)}


def test_an_applier_that_is_gone_hinders_no_vnode(world: World) -> None:
    moving = begin(world, "alive", "gone")

    def meanwhile() -> None:
        world.hear("alive", 1, handed_over=HandedOver(2, one_by_one(moving[:4])))

    world.pass_time(APPLIER_TIMEOUT_MS - 1_000, meanwhile)
    assert progress(world).handed_over == 0
    world.pass_time(1_000, meanwhile)
    assert progress(world).handed_over == 4
    assert not follower(world, "gone").waited_for


RUNS = st.lists(
    st.tuples(st.integers(0, PREFIX_COUNT - 1), st.integers(0, 300)).map(
        lambda run: (run[0], min(run[0] + run[1], PREFIX_COUNT - 1))
    ),
    max_size=12,
)


@settings(max_examples=40)
@given(RUNS)
def test_runs_in_any_order_become_maximal_ones(runs: list[tuple[int, int]]) -> None:
    vnodes = {vnode for first, last in runs for vnode in range(first, last + 1)}
    merged = runs_of(vnodes_of(runs))
    assert [vnode for first, last in merged for vnode in range(first, last + 1)] == sorted(vnodes)
    assert all(left[1] + 1 < right[0] for left, right in pairwise(merged))
    assert np.array_equal(vnodes_of(merged), vnodes_of(runs))
