"""A unit that is lost under way: the rescale goes on without it, as one more version."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from meta.callers.access import ITSELF
from meta.coordination.publisher import Publisher
from meta.errors import AlreadyAccepted
from meta.etcd.client import EtcdClient
from meta.lifecycle import Cause, Moment, Rescale, RescalePhase, Worker
from meta.mapping.diff import Diff
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Base, MappingVersion, Phase
from meta.mapping.unit import Unit
from meta.rescaling.proposal import Fleet, recounted
from meta.rescaling.superseding import lost_units, too_many, without
from meta.store.database import Database
from tests.meta.world import OPERATOR, WORKER_TIMEOUT_MS, World, at_once

FOUR = {"w1": 1, "w2": 1, "w3": 1, "w4": 1}


@pytest.fixture
def world(database: Database, etcd: EtcdClient, name: str) -> World:
    """Each of four workers has one unit; `flights` is on units 1 to 3."""
    return World(database, Publisher(etcd, f"/{name}"), fleet=FOUR)


def begun(world: World, *unit_ids: int) -> Rescale:
    """A rescale that an applier holds up."""
    world.hear("job", world.current[0])
    return world.apply(*unit_ids)


def lose(world: World, *lost: str) -> None:
    """They are silent until they count as lost; everybody else goes on, an applier too."""
    acknowledged = world.current[0] - 1

    def meanwhile() -> None:
        world.beat(*(worker for worker in world.fleet if worker not in lost))
        world.hear("job", acknowledged)

    world.pass_time(WORKER_TIMEOUT_MS, meanwhile)


def causes(world: World) -> list[tuple[Cause, list[RescalePhase]]]:
    return [
        (version.cause, [change.phase for change in version.phases])
        for version in world.history.versions("flights")
    ]


def moved(source: VnodeMapping, target: VnodeMapping) -> dict[int, int]:
    """How many vnodes move, by who gives them."""
    moves = Diff(source, target).moves
    return {int(unit): int((moves.sources == unit).sum()) for unit in set(moves.sources.tolist())}


def test_a_rescale_goes_on_without_a_unit_that_was_lost(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    lose(world, "w4")
    assert world.current == world.published == (3, Phase.RESCALING)
    second, third = world.body(2), world.body(3)
    assert [unit.id for unit in third.units] == [1, 2, 3]
    assert moved(second.mapping, third.mapping) == {4: 64}, "nothing but what it was to own"
    assert causes(world) == [
        (Cause.CREATED, ["settled"]),
        (Cause.RESCALE, ["rescaling", "superseded"]),
        (Cause.SUPERSEDING, ["rescaling"]),
    ]
    again = world.rescales.rescale(rescale.id)
    assert (again.applied_version, again.version, again.phase) == (2, 3, "rescaling")
    world.hear("job", 2)
    assert world.current == (3, Phase.RESCALING), "the version that was superseded is not enough"
    world.hear("job", 3)
    assert world.current == world.published == (3, Phase.SETTLED)
    assert world.rescales.rescale(rescale.id).phase is RescalePhase.SETTLED


def test_the_audit_log_says_which_units_were_lost(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    lose(world, "w4")
    caller, action, _, detail = world.audit()[0]
    assert (caller, action) == ("vnodemap", "supersede")
    assert detail == {
        "rescale": rescale.id,
        "lost_units": [4],
        "superseded_version": 2,
        "version": 3,
        "moves": world.history.version("flights", 3).moves,
    }


def test_what_nobody_accepted_nobody_used_so_the_base_stays(world: World) -> None:
    begun(world, 1, 2, 3, 4)
    lose(world, "w4")
    base = world.body(3).previous
    assert base is not None
    assert (base.version, base.mapping) == (1, world.body(1).mapping)


def test_what_was_accepted_may_be_in_use_so_it_is_the_base(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    world.rescales.accept("flights", 2, by=ITSELF)
    lose(world, "w4")
    base = world.body(3).previous
    assert base is not None
    assert (base.version, base.mapping) == (2, world.body(2).mapping)
    assert world.current == (3, Phase.RESCALING)
    with pytest.raises(AlreadyAccepted):
        world.rescales.abort(rescale.id, by=OPERATOR)


def test_one_unit_after_the_other(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    lose(world, "w4")
    lose(world, "w4", "w3")
    assert world.current == (4, Phase.RESCALING)
    fourth = world.body(4)
    assert [unit.id for unit in fourth.units] == [1, 2]
    assert fourth.previous is not None
    assert fourth.previous.version == 1
    assert [step.version for step in world.rescales.rescale(rescale.id).steps] == [2, 3, 4]


def test_a_superseded_rescale_is_aborted_like_any_other(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    lose(world, "w4")
    aborted = world.rescales.abort(rescale.id, by=OPERATOR)
    assert (aborted.version, aborted.phase) == (4, RescalePhase.ABORTED)
    assert world.current == (4, Phase.SETTLED)
    assert world.body(4).mapping == world.body(1).mapping


def test_more_than_half_at_once_are_waited_for_and_that_is_told_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    begun(world, 1, 2, 3, 4)
    lose(world, "w2", "w3", "w4")
    assert world.current == (2, Phase.RESCALING)
    (told,) = [record.message for record in caplog.records if "lost at once" in record.message]
    assert told.startswith("fragment flights: rescale: units 2, 3, 4 of version 2")
    world.beat("w2", "w3")
    world.reconciling.run()
    assert world.current == (3, Phase.RESCALING), "one is lost for good"
    assert [unit.id for unit in world.body(3).units] == [1, 2, 3]


def test_all_workers_silent_at_once_change_nothing(world: World) -> None:
    begun(world, 1, 2, 3, 4)
    lose(world, *FOUR)
    assert world.current == (2, Phase.RESCALING)


def test_a_unit_that_leaves_is_no_loss(world: World) -> None:
    begun(world, 1, 2)
    lose(world, "w3", "w4")
    assert world.current == (2, Phase.RESCALING)


def test_after_the_service_was_down_no_unit_is_known_lost(world: World) -> None:
    begun(world, 1, 2, 3, 4)
    world.now_ms += 10 * WORKER_TIMEOUT_MS
    world.start()

    def meanwhile() -> None:
        world.beat("w1", "w2", "w3")
        world.hear("job", 1)

    world.pass_time(WORKER_TIMEOUT_MS - 1_000, meanwhile)
    assert world.current == (2, Phase.RESCALING)
    world.pass_time(1_000, meanwhile)
    assert world.current == (3, Phase.RESCALING)


def test_a_lost_unit_of_a_settled_version_is_not_the_rescales_business(world: World) -> None:
    world.apply(1, 2, 3, 4)
    lose(world, "w4")
    assert world.current == (2, Phase.SETTLED)


def test_what_drains_takes_nothing_over(world: World) -> None:
    begun(world, 1, 2, 3, 4)
    world.workers.drain("w3", draining=True, by=OPERATOR)
    lose(world, "w4")
    second, third = world.body(2), world.body(3)
    assert set(Diff(second.mapping, third.mapping).moves.targets.tolist()) == {1, 2}


def test_two_replicas_supersede_once(world: World) -> None:
    begun(world, 1, 2, 3, 4)
    world.now_ms += WORKER_TIMEOUT_MS - 1_000
    world.beat("w1", "w2", "w3")
    replicas = [world.reconciling]
    for _ in range(3):
        world.start()
        replicas.append(world.reconciling)
    # For the new ones w4 is silent only since they started.
    for _ in range(WORKER_TIMEOUT_MS // 1_000 - 1):
        world.now_ms += 1_000
        world.beat("w1", "w2", "w3")
        world.hear("job", 1)
        world.hearing.now()
    world.now_ms += 1_000
    at_once(*(replica.run for replica in replicas[1:]))
    assert world.current == (3, Phase.RESCALING)
    assert [action for _, action, _, _ in world.audit()].count("supersede") == 1


def version_on(owners: str, weights: Iterable[float], previous: str | None = None) -> MappingVersion:
    units = tuple(Unit(number, f"w{number}", weight) for number, weight in enumerate(weights, 1))
    base = Base(4, units, VnodeMapping.parse(previous)) if previous else None
    return MappingVersion("flights", 5, "h", units, VnodeMapping.parse(owners), base)


@pytest.mark.parametrize(
    ("units", "lost", "waits"),
    [(1, 1, True), (2, 1, False), (3, 1, False), (3, 2, True), (4, 2, False), (4, 3, True), (5, 3, True)],
)
def test_how_many_may_be_lost(units: int, lost: int, waits: bool) -> None:
    version = version_on(" ".join(f"{unit}*4" for unit in range(1, units + 1)), [1.0] * units)
    assert too_many(lost_units(version, set(range(1, units - lost + 1))), version) is waits


def test_what_was_left_uneven_stays_uneven() -> None:
    """By a budget or by loads: 90 vnodes of 10 are not levelled because a third unit is lost."""
    version = version_on("1*90 2*10 3*5", [1.0, 1.0, 1.0], previous="1*100 2*5")
    left = without(version, version.units[:2], Phase.RESCALING)
    assert str(left.mapping) == "1*90 2*15"
    assert (left.version, left.previous) == (6, version.previous)


def test_a_unit_is_lost_where_there_were_more_units_than_vnodes_are_left() -> None:
    """It ended the service: what it could not plan for was there again after each restart."""
    heavy = version_on("1*4 2*4 3*4 4*4", [1_000.0] * 4)
    idle = tuple(Unit(number, f"w{number}") for number in range(5, 17))
    base = replace(heavy, units=(*heavy.units, *idle))
    workers = [Worker(unit.worker, (unit.id,), None, 0, 0) for unit in base.units]
    recounted_ = recounted(base, 8, Fleet(workers, Moment(1, 0)))
    assert [unit.id for unit in recounted_.units] == [1, 2, 3, 4]
    after = replace(heavy, units=recounted_.units, mapping=recounted_.mapping)
    left = without(after, after.units[1:], Phase.RESCALING)
    assert set(left.mapping.units) == {2, 3, 4}
