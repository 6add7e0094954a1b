"""Plans with every goal: what they choose, what they refuse, what they warn of, and what they lead to."""

from collections import Counter
from typing import Any

import numpy as np
import pytest

from meta.errors import (
    BadGoal,
    MetaError,
    NoLoads,
    PlanNotFound,
    UnitsNotAlive,
    UnitsNotLabelled,
    VersionNotFound,
)
from meta.lifecycle import Cause
from meta.mapping.errors import MappingError, NotEnoughUnits, SiblingsDisagree, UnrelatedVnodeCounts
from meta.mapping.load import LoadCertificate
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Phase
from meta.rescaling.goal import (
    Aim,
    ByCount,
    ByLoad,
    ChangedUnits,
    Goal,
    OnUnits,
    SameUnits,
    ToParallelism,
    ToVersion,
    ToVnodeCount,
)
from meta.rescaling.loading import Loading
from meta.rescaling.planning import DryRun, dry_run
from tests.meta.world import OPERATOR, WORKER_TIMEOUT_MS, World


def plan(world: World, aim: Aim, **how: object) -> DryRun:
    return world.rescales.plan("flights", Goal(aim, **how), by=OPERATOR)  # type: ignore[arg-type]


def rescale(world: World, aim: Aim, **how: object) -> VnodeMapping:
    """Plans and applies; without an applier it settles at once."""
    world.apply_token(plan(world, aim, **how).stored.token)
    version, phase = world.current
    assert phase is Phase.SETTLED
    return world.body(version).mapping


def units(planned: DryRun) -> list[int]:
    return [unit.id for unit in planned.stored.units]


def vnodes(mapping: VnodeMapping) -> dict[int | None, int]:
    return dict(Counter(mapping.owners))


def lose(world: World, worker: str) -> None:
    others = [name for name in world.fleet if name != worker]
    world.pass_time(WORKER_TIMEOUT_MS, lambda: world.beat(*others))


def test_no_connection_is_held_while_a_plan_is_made(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    held = []

    def watched(*asked: Any) -> DryRun:
        held.append(world.database.engine.pool.status())
        return dry_run(*asked)

    before = world.database.engine.pool.status()
    monkeypatch.setattr("meta.rescaling.rescale.dry_run", watched)
    world.plan(1, 2)
    assert held == [before]


@pytest.mark.parametrize(
    ("aim", "expected"),
    [
        (ToParallelism(4), [1, 2, 3, 4]),
        (ToParallelism(2), [1, 3]),
        (OnUnits(frozenset({2, 4})), [2, 4]),
        (ChangedUnits(frozenset({4}), frozenset({1})), [2, 3, 4]),
        (ChangedUnits(frozenset(), frozenset({3})), [1, 2]),
        (SameUnits(), [1, 2, 3]),
    ],
)
def test_units_that_a_goal_comes_to(world: World, aim: Aim, expected: list[int]) -> None:
    planned = plan(world, aim)
    assert units(planned) == expected
    assert planned.stored.certificate.gap == 0
    assert sorted(set(planned.stored.mapping.owners)) == expected
    assert len(planned.reasons) == len(planned.moves) == planned.stored.certificate.moves


@pytest.mark.parametrize(
    ("goal", "error", "words"),
    [
        (Goal(ToParallelism(5)), NotEnoughUnits, "at most 4"),
        (Goal(OnUnits(frozenset({1, 9}))), UnitsNotAlive, "units 9"),
        (Goal(ChangedUnits(frozenset({3}), frozenset())), BadGoal, "runs on units 3 already"),
        (Goal(ChangedUnits(frozenset(), frozenset({4}))), BadGoal, "does not run on units 4"),
        (Goal(SameUnits(), weights=((4, 2.0),)), BadGoal, "units 4 are none of this plan's"),
        (Goal(ToVersion(2)), VersionNotFound, "no version 2"),
        (Goal(ToVnodeCount(300)), UnrelatedVnodeCounts, "300"),
        (Goal(ToVnodeCount(256 * 17)), BadGoal, "vnode_count"),
        (Goal(ToVnodeCount(128)), SiblingsDisagree, "sibling"),
        (Goal(SameUnits(), ByLoad()), NoLoads, "nobody has reported any"),
    ],
)
def test_a_goal_that_cannot_be_planned(
    world: World, goal: Goal, error: type[MetaError | MappingError], words: str
) -> None:
    with pytest.raises(error, match=words):
        world.rescales.plan("flights", goal, by=OPERATOR)


@pytest.mark.parametrize("aim", [ToVersion(1), ToVnodeCount(512)])
@pytest.mark.parametrize(
    "how", [{"budget": 3}, {"weights": ((1, 2.0),)}, {"labels": (("zone", "a"),)}, {"measure": ByLoad()}]
)
def test_a_goal_that_says_the_whole_mapping_goes_alone(aim: Aim, how: dict[str, object]) -> None:
    with pytest.raises(BadGoal, match="nothing is left to choose"):
        Goal(aim, **how)  # type: ignore[arg-type]


def test_weights_last_until_others_are_given(world: World) -> None:
    weighed = rescale(world, SameUnits(), weights=((1, 2.0),))
    assert vnodes(weighed) == {1: 128, 2: 64, 3: 64}
    assert rescale(world, ToParallelism(4)).vnodes_of(1) != ()
    assert vnodes(world.body(3).mapping) == {1: 103, 2: 51, 3: 51, 4: 51}
    assert [unit.weight for unit in world.body(3).units] == [2.0, 1.0, 1.0, 1.0]


def test_a_budget_takes_several_plans_and_says_so(world: World) -> None:
    first = plan(world, OnUnits(frozenset({1, 2})), budget=50)
    assert (first.stored.certificate.moves, first.stored.remaining_moves) == (50, 35)
    assert first.stored.warnings == (
        "35 moves are left by the budget: apply this plan, and plan again with the same goal when it has settled",
    )
    # Unit 3 still owns something, so it is still one of the units.
    assert [(unit.id, unit.weight) for unit in first.stored.units] == [(1, 1.0), (2, 1.0), (3, 0.0)]
    world.apply_token(first.stored.token)
    second = plan(world, OnUnits(frozenset({1, 2})), budget=50)
    assert (second.stored.certificate.moves, second.stored.remaining_moves) == (35, 0)
    assert second.stored.warnings == ()
    world.apply_token(second.stored.token)
    assert vnodes(world.body(3).mapping) == {1: 128, 2: 128}
    assert [unit.id for unit in world.body(3).units] == [1, 2]


def test_a_unit_that_a_budget_is_still_draining_may_come_back(world: World) -> None:
    rescale(world, ToParallelism(2), budget=10)
    assert [unit.weight for unit in world.body(2).units].count(0.0) == 1
    rescale(world, ToParallelism(4))
    assert sorted(vnodes(world.body(3).mapping).values()) == [64] * 4


def test_a_workers_level_and_a_defragmentation_are_passed_on(world: World) -> None:
    before = rescale(world, ToParallelism(4))
    assert before.run_count > 4
    tidied = plan(world, SameUnits(), measure=ByCount(defragment=64))
    assert 0 < (tidied.stored.certificate.gap or 0) <= 64
    assert tidied.stored.mapping.run_count < before.run_count
    assert plan(world, SameUnits(), measure=ByCount(level="workers")).stored.certificate.spread == 0


@pytest.fixture
def labelled(world: World) -> World:
    for worker, zone in (("w1", "a"), ("w2", "b")):
        world.workers.register(
            worker,
            parallelism=2,
            heartbeat_timeout_ms=WORKER_TIMEOUT_MS,
            labels={"zone": zone, "disk": "ssd"},
            by=OPERATOR,
        )
    return world


def test_labels_choose_only_units_of_workers_that_have_all_of_them(labelled: World) -> None:
    assert units(plan(labelled, ToParallelism(2), labels=(("disk", "ssd"), ("zone", "b")))) == [3, 4]
    assert units(plan(labelled, SameUnits(), labels=(("zone", "a"),))) == [1, 2]
    with pytest.raises(NotEnoughUnits):
        plan(labelled, ToParallelism(3), labels=(("zone", "b"),))
    with pytest.raises(UnitsNotLabelled, match="zone=b") as refusal:
        plan(labelled, OnUnits(frozenset({1, 3})), labels=(("zone", "b"),))
    assert refusal.value.units == [1]


def test_no_plan_chooses_a_unit_of_a_draining_worker(world: World) -> None:
    world.workers.drain("w2", draining=True, by=OPERATOR)
    with pytest.raises(UnitsNotAlive, match="w2"):
        plan(world, OnUnits(frozenset({1, 3})))
    leaving = plan(world, SameUnits())
    assert units(leaving) == [1, 2]
    assert leaving.stored.warnings == ("workers w2 are draining: their units leave",)
    assert [unit.id for unit in leaving.stored.leaving] == [3]


def test_lost_units_are_told_of(world: World) -> None:
    lose(world, "w2")
    planned = plan(world, SameUnits())
    assert units(planned) == [1, 2]
    assert planned.stored.warnings == ("units 3 are lost: their vnodes go to others",)


def test_more_vnodes_move_nothing_and_later_plans_go_on_with_them(world: World) -> None:
    planned = plan(world, ToVnodeCount(1024))
    assert (planned.stored.certificate.moves, len(planned.moves)) == (0, 0)
    world.apply_token(planned.stored.token)
    version = world.body(2)
    assert version.mapping == world.body(1).mapping.multiplied(4)
    assert version.previous is not None
    assert version.previous.mapping.vnode_count == 256
    assert world.fragments.get("flights").vnode_count == 1024
    assert vnodes(rescale(world, ToParallelism(4))) == dict.fromkeys((1, 2, 3, 4), 256)
    assert rescale(world, ToVersion(1)) == world.body(1).mapping
    assert world.fragments.get("flights").vnode_count == 256


def test_fewer_vnodes_where_all_siblings_agree(world: World) -> None:
    rescale(world, ToVnodeCount(512))
    assert rescale(world, ToVnodeCount(256)) == world.body(1).mapping


def test_the_same_vnode_count_is_nothing_to_do(world: World) -> None:
    applied = world.apply_token(plan(world, ToVnodeCount(256)).stored.token)
    assert not applied.changed


def test_another_vnode_count_leaves_lost_units_and_warns(world: World) -> None:
    lose(world, "w2")
    planned = plan(world, ToVnodeCount(512))
    assert planned.stored.warnings == (
        "units 3 are lost: they keep their vnodes in this plan; plan again when it has settled",
    )
    world.apply_token(planned.stored.token)
    assert world.body(2).mapping.vnode_count == 512


def test_a_rollback_gives_everybody_what_it_had(world: World) -> None:
    rescale(world, ToParallelism(1))
    planned = plan(world, ToVersion(1))
    assert planned.stored.mapping == world.body(1).mapping
    assert (
        planned.stored.certificate.moves == planned.stored.certificate.lower_bound == len(planned.moves) > 0
    )
    assert set(planned.reasons) <= {f"unit {unit} had it in version 1" for unit in (1, 2, 3)}


def test_a_rollback_to_what_there_is_changes_nothing(world: World) -> None:
    assert not world.apply_token(plan(world, ToVersion(1)).stored.token).changed
    assert world.current == (1, Phase.SETTLED)


def test_a_rollback_brings_the_weights_of_then_back(world: World) -> None:
    rescale(world, SameUnits(), weights=((2, 3.0),))
    rescale(world, SameUnits(), weights=((2, 1.0),))
    assert rescale(world, ToVersion(2)) == world.body(2).mapping
    assert world.body(4).units == world.body(2).units


def test_in_a_rollback_a_new_unit_stands_in_for_one_that_is_gone(world: World) -> None:
    rescale(world, OnUnits(frozenset({1, 3})))
    world.workers.register("w5", parallelism=2, heartbeat_timeout_ms=None, by=OPERATOR)
    world.workers.drain("w2", draining=True, by=OPERATOR)
    planned = plan(world, ToVersion(1))
    then = world.body(1).mapping
    now = planned.stored.mapping
    assert (now.vnodes_of(1), now.vnodes_of(2), now.vnodes_of(5)) == tuple(map(then.vnodes_of, (1, 2, 3)))
    assert "unit 5 takes the place of unit 3, which had it in version 1" in planned.reasons
    assert planned.stored.warnings == ("workers w2 are draining: their units leave",)


def test_in_a_rollback_without_units_enough_the_planner_places_the_rest(world: World) -> None:
    rescale(world, ToParallelism(4))
    lose(world, "w2")
    planned = plan(world, ToVersion(1))
    assert vnodes(planned.stored.mapping) == {1: 128, 2: 128}
    then = world.body(1).mapping
    assert all(set(then.vnodes_of(unit)) <= set(planned.stored.mapping.vnodes_of(unit)) for unit in (1, 2))
    assert planned.stored.warnings == ("units 3 are lost: others take their place",)


def report(world: World, loads: np.ndarray, reporter: str = "job") -> None:  # type: ignore[type-arg]
    Loading(world.database, world.hearing).report("flights", reporter, loads, 1_000)


def test_loads_are_levelled_and_their_certificate_kept(world: World) -> None:
    loads = np.ones(256)
    loads[:10] = 100.0
    report(world, loads)
    planned = plan(world, SameUnits(), measure=ByLoad(0.5))
    certificate = planned.stored.certificate
    assert isinstance(certificate, LoadCertificate)
    assert certificate.max_load < certificate.max_load_before
    assert certificate.max_load >= certificate.max_load_lower_bound
    kept = world.history.plan(planned.stored.id)
    assert kept.stored == planned.stored
    assert kept.reasons == planned.reasons
    assert world.apply_token(planned.stored.token).certificate == certificate


def test_loads_that_are_old_are_left_out_with_a_warning(world: World) -> None:
    report(world, np.ones(256), "gone")
    world.now_ms += 11 * 60_000
    with pytest.raises(NoLoads, match="the newest report is 660 s old"):
        plan(world, SameUnits(), measure=ByLoad())
    report(world, np.ones(256))
    (warning,) = plan(world, SameUnits(), measure=ByLoad()).stored.warnings
    assert warning.startswith("the loads of gone are 11 min old")


def test_loads_of_another_vnode_count_do_not_count(world: World) -> None:
    report(world, np.ones(256))
    rescale(world, ToVnodeCount(512))
    with pytest.raises(NoLoads):
        plan(world, SameUnits(), measure=ByLoad())


@pytest.mark.parametrize(
    "goal",
    [
        Goal(ToParallelism(4), ByCount("workers", 7), 50, ((1, 2.0), (2, 0.5)), (("disk", "ssd"),)),
        Goal(OnUnits(frozenset({1, 2}))),
        Goal(ChangedUnits(frozenset({4}), frozenset({1, 2}))),
        Goal(SameUnits(), ByLoad(0.5)),
        Goal(ToVersion(1)),
        Goal(ToVnodeCount(512)),
    ],
)
def test_a_plan_is_kept_as_it_was_made(labelled: World, goal: Goal) -> None:
    report(labelled, np.arange(256.0))
    planned = labelled.rescales.plan("flights", goal, by=OPERATOR, cause=Cause.ADAPTIVE)
    assert labelled.history.plan(planned.stored.id) == planned
    assert planned.stored.goal == goal
    with pytest.raises(PlanNotFound):
        labelled.history.plan("0")


def test_the_token_stands_for_the_base_the_units_with_their_weights_and_the_owners(world: World) -> None:
    def digest(**how: object) -> str:
        return plan(world, SameUnits(), **how).stored.digest

    first = digest()
    assert digest() == first
    assert digest(weights=((1, 2.0),)) != digest(weights=((1, 2.0001),)) != first
    rescale(world, ToParallelism(4))
    rescale(world, ToVersion(1))
    assert digest() != first, "the same owners, on another base"


def test_the_plans_of_a_fragment_are_listed_the_last_one_first(world: World) -> None:
    made = []
    for parallelism in (1, 2, 3, 4):
        world.now_ms += 1
        made.append(plan(world, ToParallelism(parallelism)).stored)
    made.reverse()
    first = world.history.plans("flights", after=None, limit=3)
    assert first == made[:3]
    after = first[-1].created_at_ms, first[-1].id
    assert world.history.plans("flights", after=after, limit=3) == made[3:]
