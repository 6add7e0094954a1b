"""Appliers are waited for as long as they live, and readers never."""

import pytest

from meta.callers.request_errors import Forbidden
from meta.errors import TooMany, WorkerInUse
from meta.lifecycle import Beat, Role
from meta.mapping.publication import Phase
from meta.reconciliation.retention import HEARING_MS
from tests.meta.world import APPLIER_TIMEOUT_MS, DAY_MS, OPERATOR, READER, World, at_once


def test_the_last_of_many_acknowledgements_at_once_settles(world: World) -> None:
    """Each sees those before it: were they to count side by side, none would be the last."""
    jobs = [f"job{number}" for number in range(12)]
    for version in (2, 3, 4):
        for job in jobs:
            world.hear(job, version - 1)
        world.apply(*(1, 2) if version % 2 == 0 else (1, 2, 3))
        assert world.current == (version, Phase.RESCALING)
        at_once(*(lambda job=job, version=version: world.hear(job, version) for job in jobs))
        assert world.current == (version, Phase.SETTLED)


def test_a_silent_applier_is_waited_for_and_then_counts_as_stopped(world: World) -> None:
    world.hear("alive", 1)
    world.hear("silent", 1)
    world.apply(1, 2)
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000, lambda: world.hear("alive", 2))
    assert world.current == (2, Phase.RESCALING)
    assert world.waiting_for == ["silent"]
    world.pass_time(1_000)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_after_the_service_was_down_an_applier_has_one_timeout_to_come_back(world: World) -> None:
    world.hear("job", 1)
    world.apply(1, 2)
    world.now_ms += 3 * DAY_MS
    world.start()
    world.reconciling.run()
    assert world.current == (2, Phase.RESCALING), "it could not be heard, so it is not known dead"
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000)
    assert world.current == (2, Phase.RESCALING)
    world.hear("job", 2)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_after_the_process_stood_still_an_applier_has_one_timeout_to_come_back(world: World) -> None:
    world.hear("job", 1)
    world.apply(1, 2)
    world.now_ms += 60_000  # SIGSTOP, a sleeping laptop, a clock set forward
    world.reconciling.run()
    assert world.current == (2, Phase.RESCALING)
    world.pass_time(APPLIER_TIMEOUT_MS)
    assert world.current == (2, Phase.SETTLED)


def test_the_subscribers_of_last_week_are_forgotten(world: World) -> None:
    world.hear("stopped", 1)
    for _ in range(DAY_MS // 4_000 + 1):
        world.now_ms += 4_000
        world.hearing.now()
    world.hear("alive", 1)
    world.retention.run()
    assert world.subscribers == ["alive"]


def test_the_silent_are_forgotten_though_the_service_is_started_anew_each_day(world: World) -> None:
    world.hear("stopped", 1)
    world.now_ms += DAY_MS
    world.start()
    for _ in range(HEARING_MS // 4_000 + 2):
        world.now_ms += 4_000
        world.hearing.now()
    world.retention.run()
    assert world.subscribers == []


def test_a_subscriber_too_many_is_refused_and_those_there_are_are_heard(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta.rescaling.subscribing.SUBSCRIBERS_MAX", 1)
    world.hear("first", 1)
    with pytest.raises(TooMany, match="let each keep its id"):
        world.hear("second", 1)
    world.hear("first", 1)
    assert world.subscribers == ["first"]


def test_a_subscriber_ahead_of_a_restored_database_is_heard_without_its_acknowledgement(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.hear("job", 1)
    world.now_ms += 1_000
    for _ in range(3):
        world.hear("job", 7)
    (follower,) = world.subscribing.progress("flights").followers
    heard = follower.subscriber
    assert (heard.acknowledged_version, heard.seen_at_ms) == (1, world.now_ms)
    (told,) = caplog.messages
    assert told.startswith("fragment flights: subscriber job: job acknowledges version 7")
    world.apply(1, 2)
    assert world.waiting_for == ["job"]


def test_an_idle_applier_that_beats_is_waited_for_however_long(world: World) -> None:
    world.hear("idle", 1)
    world.apply(1, 2)
    world.pass_time(3 * APPLIER_TIMEOUT_MS, lambda: world.hear("idle", 1))
    assert world.current == (2, Phase.RESCALING)
    assert world.waiting_for == ["idle"]
    world.pass_time(APPLIER_TIMEOUT_MS)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_all_appliers_silent_at_once_count_as_stopped_one_timeout_later(world: World) -> None:
    for job in ("a", "b", "c"):
        world.hear(job, 1)
    world.apply(1, 2)
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000)
    assert (world.current, world.waiting_for) == ((2, Phase.RESCALING), ["a", "b", "c"])
    world.pass_time(1_000)
    assert world.current == (2, Phase.SETTLED)


def test_only_the_last_acknowledgement_settles(world: World) -> None:
    jobs = ["a", "b", "c"]
    for job in jobs:
        world.hear(job, 1)
    world.hear("reader", 1, Role.READER)
    world.apply(1, 2)
    while jobs:
        assert (world.current, world.waiting_for) == ((2, Phase.RESCALING), jobs)
        world.hear(jobs.pop(0), 2)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_who_deregisters_is_waited_for_no_more(world: World) -> None:
    world.hear("a", 1)
    world.hear("b", 1)
    world.apply(1, 2)
    world.hear("a", 2)
    world.subscribing.deregister("flights", "b", by=OPERATOR)
    assert world.current == world.published == (2, Phase.SETTLED)
    world.subscribing.deregister("flights", "b", by=OPERATOR)
    assert [detail for _, action, _, detail in world.audit() if action == "deregister"] == [
        {"subscriber": "b"}
    ]


def test_a_unit_that_leaves_stays_in_the_base_until_the_version_settled(world: World) -> None:
    """Drain before release: its worker is in use, and what it owned can still be fetched from it."""
    world.hear("job", 1)
    world.apply(1)
    base = world.body(2).previous
    assert base is not None
    assert [unit.id for unit in base.units] == [1, 2, 3]
    with pytest.raises(WorkerInUse) as refusal:
        world.workers.remove("w2", by=OPERATOR)
    assert refusal.value.fragments == ["flights"]
    world.hear("job", 2)
    assert world.current == (2, Phase.SETTLED)
    world.workers.remove("w2", by=OPERATOR)


def test_replicas_settle_once(world: World) -> None:
    world.hear("gone", 1)
    world.apply(1, 2)
    replicas = [world.reconciling]
    for _ in range(3):
        world.start()
        replicas.append(world.reconciling)
    for _ in range(APPLIER_TIMEOUT_MS // 1_000):
        world.now_ms += 1_000
        for replica in replicas:
            replica.hearing.now()
    at_once(*(replica.run for replica in replicas * 3))
    assert world.current == world.published == (2, Phase.SETTLED)
    phases = [change.phase for change in world.history.version("flights", 2).phases]
    assert phases == ["rescaling", "settled"]


def test_a_readers_token_makes_readers_and_touches_no_applier(world: World) -> None:
    def hear(name: str, role: Role) -> None:
        world.subscribing.hear("flights", Beat(name, name, role, 1), by=READER)

    hear("scan", Role.READER)
    with pytest.raises(Forbidden):
        hear("job", Role.APPLIER)
    world.hear("job", 1)
    # It would be waited for no more.
    with pytest.raises(Forbidden):
        hear("job", Role.READER)
    with pytest.raises(Forbidden):
        world.subscribing.deregister("flights", "job", by=READER)
    world.subscribing.deregister("flights", "scan", by=READER)
    assert world.subscribers == ["job"]
