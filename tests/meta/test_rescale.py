"""The use cases on a clock that the test sets: what no service could be watched doing in a second."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import TypeVar

import psycopg
import pytest
import stamina

from meta.coordination.publisher import Outcome, Publisher
from meta.errors import (
    DatabaseBehind,
    DigestConflict,
    FragmentExists,
    FragmentPublishedElsewhere,
    MetaError,
    PlanExpired,
    PlanNotFound,
    RescaleInFlight,
    StaleBase,
    UnitsNotAlive,
)
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.lifecycle import PLAN_LIFETIME_MS, KeyField, Role
from meta.mapping.errors import NotEnoughUnits
from meta.mapping.publication import Current, Phase, current_key, decode_body, digest
from meta.planning import Goal
from meta.registry import FragmentRequest, Registry
from meta.rescale import Rescales
from meta.store.database import Database

T = TypeVar("T")

APPLIER_TIMEOUT_MS = 10_000
DAY_MS = 24 * 3600 * 1000


@dataclass
class World:
    """A service without its process: fragment `flights` on three of the four units of two workers."""

    database: Database
    publisher: Publisher
    now_ms: int = 1_000_000

    def __post_init__(self) -> None:
        self.start()
        for worker in ("w1", "w2"):
            self.registry.add_worker(worker, parallelism=2, heartbeat_timeout_ms=30_000)
        key = (KeyField("tailnum", "string"),)
        self.rescales.create_fragment(FragmentRequest("flights", 256, key, 3, APPLIER_TIMEOUT_MS))

    def start(self) -> None:
        """The service, started on the database as it is now."""
        self.hearing = Hearing(lambda: self.now_ms)
        self.registry = Registry(self.database, self.hearing)
        self.rescales = Rescales(self.database, self.publisher, self.hearing)

    def plan(self, *unit_ids: int) -> str:
        return self.rescales.plan("flights", Goal(unit_ids=frozenset(unit_ids))).stored.token

    def hear(self, name: str, version: int | None, role: Role = Role.APPLIER) -> None:
        self.rescales.hear("flights", name, name=name, role=role, acknowledged=version)

    def pass_time(self, span_ms: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Time passes as for a service that runs: it reconciles each second."""
        for _ in range(span_ms // 1_000):
            self.now_ms += 1_000
            meanwhile()
            self.rescales.reconcile()

    def announce(self, version: int, body: bytes, fragment: str = "flights") -> None:
        """Another service writes into this etcd; its bodies do not matter."""
        announced = Current(version, Phase.SETTLED, digest(body))
        self.publisher.etcd.put(current_key(fragment, self.publisher.root), announced.encode())

    @property
    def current(self) -> tuple[int, Phase]:
        found = self.registry.fragment("flights").current
        return found.version, found.phase

    @property
    def published(self) -> tuple[int, Phase] | None:
        found = self.publisher.etcd.get(current_key("flights", self.publisher.root))
        current = Current.decode(found.value) if found else None
        return (current.version, current.phase) if current else None


@pytest.fixture
def world(database: Database, etcd: EtcdClient, name: str) -> World:
    return World(database, Publisher(etcd, f"/{name}"))


def test_a_plan_expires(world: World) -> None:
    token = world.plan(1, 2)
    world.now_ms += PLAN_LIFETIME_MS - 1
    other = world.plan(1, 2, 3, 4)
    world.now_ms += 1
    with pytest.raises(PlanExpired, match="plan again"):
        world.rescales.apply(token)
    assert world.current == (1, Phase.SETTLED)
    assert world.rescales.apply(other).applied_version == 2


def test_an_applied_token_answers_the_same_even_after_it_would_have_expired(world: World) -> None:
    token = world.plan(1, 2)
    first = world.rescales.apply(token)
    world.now_ms += PLAN_LIFETIME_MS
    assert world.rescales.apply(token) == first
    assert world.current == (2, Phase.SETTLED)


def test_of_many_plans_applied_at_once_exactly_one_wins(world: World) -> None:
    """No applier, so the winner settles at once: the others meet a newer version, whatever the order."""
    tokens = [world.plan(1, 2), world.plan(1, 3), world.plan(2, 3), world.plan(1, 2, 3, 4)] * 3
    ready = Barrier(len(tokens))

    def apply(token: str) -> int | type[MetaError]:
        ready.wait()
        try:
            return world.rescales.apply(token).applied_version or 0
        except (StaleBase, RescaleInFlight) as error:
            return type(error)

    with ThreadPoolExecutor(len(tokens)) as threads:
        answers = list(threads.map(apply, tokens))
    winners = {token for token, answer in zip(tokens, answers, strict=True) if answer == 2}
    assert len(winners) == 1
    assert all(
        answer == (2 if token in winners else StaleBase)
        for token, answer in zip(tokens, answers, strict=True)
    )
    assert [version.body.version for version in world.rescales.history("flights")] == [1, 2]
    assert world.published == (2, Phase.SETTLED)


def at_once(*actions: Callable[[], T]) -> list[T]:
    ready = Barrier(len(actions))

    def released(action: Callable[[], T]) -> T:
        ready.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(released, actions))


def test_one_token_applied_by_many_at_once_has_one_answer(world: World) -> None:
    token = world.plan(1, 2)
    applied = at_once(*[lambda: world.rescales.apply(token)] * 20)
    assert {plan.applied_version for plan in applied} == {2}
    assert world.current == (2, Phase.SETTLED)


def test_the_last_of_many_acknowledgements_at_once_settles(world: World) -> None:
    """Each sees those before it: were they to count side by side, none would be the last."""
    jobs = [f"job{number}" for number in range(12)]
    for version in (2, 3, 4):
        for job in jobs:
            world.hear(job, version - 1)
        world.rescales.apply(world.plan(1, 2) if version % 2 == 0 else world.plan(1, 2, 3))
        assert world.current == (version, Phase.RESCALING)
        at_once(*(lambda job=job, version=version: world.hear(job, version) for job in jobs))
        assert world.current == (version, Phase.SETTLED)


def test_who_registers_at_once_with_others_is_registered_once(world: World) -> None:
    def add_worker() -> bool:
        return world.registry.add_worker("w3", parallelism=2, heartbeat_timeout_ms=None)[1]

    assert at_once(*[add_worker] * 12).count(True) == 1
    at_once(*[lambda: world.hear("job", 1)] * 12)
    assert [subscriber.id for subscriber in world.rescales.subscribers("flights")] == ["job"]
    key = (KeyField("origin", "string"),)

    def create() -> str:
        try:
            return world.rescales.create_fragment(
                FragmentRequest("trains", 64, key, 2, APPLIER_TIMEOUT_MS)
            ).name
        except FragmentExists as error:
            return type(error).__name__

    assert sorted(at_once(*[create] * 12)) == ["FragmentExists"] * 11 + ["trains"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_deadlock_is_tried_again_and_nobody_hears_of_it(
    world: World, database_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = world.plan(1, 2)
    plan_id = token.partition(".")[0]
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database_url) as administrator:
        administrator.execute("SET deadlock_timeout = '60s'")  # so that the other one is the victim
        administrator.execute("SELECT id FROM plans WHERE id = %s FOR UPDATE", [plan_id])
        applying = threads.submit(world.rescales.apply, token)
        wait_for_a_waiter(database_url)
        administrator.execute("SELECT name FROM fragments WHERE name = 'flights' FOR UPDATE")
        administrator.commit()
        assert applying.result(10).applied_version == 2
    assert world.current == (2, Phase.SETTLED)
    assert [record.name for record in caplog.records if "DeadlockDetected" in str(vars(record))] == [
        "stamina"
    ]


@stamina.retry(on=AssertionError, attempts=None, timeout=10, wait_initial=0.02, wait_max=0.05)
def wait_for_a_waiter(url: str) -> None:
    with psycopg.connect(url) as connection:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        assert connection.execute(waiting).fetchone() == (1,)


def test_a_silent_applier_is_waited_for_and_then_counts_as_stopped(world: World) -> None:
    world.hear("alive", 1)
    world.hear("silent", 1)
    world.rescales.apply(world.plan(1, 2))
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000, lambda: world.hear("alive", 2))
    assert world.current == (2, Phase.RESCALING)
    assert [applier.name for applier in world.rescales.progress("flights").waiting_for] == ["silent"]
    world.pass_time(1_000)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_after_the_service_was_down_an_applier_has_one_timeout_to_come_back(world: World) -> None:
    world.hear("job", 1)
    world.rescales.apply(world.plan(1, 2))
    world.now_ms += 3 * DAY_MS
    world.start()
    world.rescales.reconcile()
    assert world.current == (2, Phase.RESCALING), "it could not be heard, so it is not known dead"
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000)
    assert world.current == (2, Phase.RESCALING)
    world.hear("job", 2)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_after_the_process_stood_still_an_applier_has_one_timeout_to_come_back(world: World) -> None:
    world.hear("job", 1)
    world.rescales.apply(world.plan(1, 2))
    world.now_ms += 60_000  # SIGSTOP, a sleeping laptop, a clock set forward
    world.rescales.reconcile()
    assert world.current == (2, Phase.RESCALING)
    world.pass_time(APPLIER_TIMEOUT_MS)
    assert world.current == (2, Phase.SETTLED)


def test_after_the_service_was_down_the_workers_are_not_known_dead(world: World) -> None:
    world.now_ms += 60_000
    world.start()
    token = world.plan(1, 2, 3, 4)
    world.pass_time(29_000)
    world.registry.beat("w1")
    world.pass_time(1_000)
    with pytest.raises(UnitsNotAlive, match="units 3, 4"):
        world.rescales.apply(token)
    with pytest.raises(NotEnoughUnits, match="ask for at most 2"):
        world.rescales.plan("flights", Goal(parallelism=3))


def test_the_subscribers_of_last_week_are_forgotten(world: World) -> None:
    world.hear("stopped", 1)
    for _ in range(DAY_MS // 4_000 + 1):
        world.now_ms += 4_000
        world.hearing.now()
    world.hear("alive", 1)
    world.pass_time(1_000)
    assert [subscriber.name for subscriber in world.rescales.subscribers("flights")] == ["alive"]


def test_plans_that_nobody_applied_are_forgotten_a_day_after_they_expired(world: World) -> None:
    applied, unapplied = world.plan(1, 2), world.plan(1, 3)
    first = world.rescales.apply(applied)
    world.now_ms += PLAN_LIFETIME_MS + DAY_MS
    world.rescales.reconcile()
    with pytest.raises(StaleBase):
        world.rescales.apply(unapplied)
    world.now_ms += 1
    world.rescales.reconcile()
    with pytest.raises(PlanNotFound):
        world.rescales.apply(unapplied)
    assert world.rescales.apply(applied) == first


def test_etcd_ahead_of_the_database_is_told_loudly_and_once(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.announce(9, b"of the future")
    assert world.rescales.publish("flights") is Outcome.AHEAD
    world.pass_time(3_000)
    told = [record for record in caplog.records if record.levelname == "ERROR"]
    assert [record.message.partition(":")[0] for record in told] == ["fragment flights"]
    assert "etcd is ahead of the database (version 1 here)" in told[0].message


def test_of_two_histories_nothing_is_published_and_the_other_fragments_go_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"another version 1"
    world.announce(1, body)
    key = (KeyField("origin", "string"),)
    world.rescales.create_fragment(FragmentRequest("trains", 64, key, 2, APPLIER_TIMEOUT_MS))
    world.pass_time(3_000)
    (told,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert digest(body) in told
    assert digest(world.rescales.body("flights", 1)) in told
    assert world.publisher.etcd.get(current_key("trains", world.publisher.root)) is not None


def test_a_trouble_that_comes_again_is_told_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    ours = world.rescales.body("flights", 1)
    for body in (b"another version 1", ours, b"another version 1"):
        world.announce(1, body)
        world.pass_time(2_000)
    assert [record.levelname for record in caplog.records].count("ERROR") == 2


def test_without_etcd_everything_goes_on_in_sql(database: Database) -> None:
    with EtcdClient(["127.0.0.1:1"], timeout_ms=200) as nowhere:
        world = World(database, Publisher(nowhere, "/v"))
        assert world.rescales.apply(world.plan(1, 2)).applied_version == 2
        assert world.rescales.publish("flights") is None
        world.rescales.reconcile()
        assert world.current == (2, Phase.SETTLED)


def test_a_version_carries_what_it_was_planned_on(world: World) -> None:
    """Gaps in the ids: unit 2 leaves, 1 and 4 stay."""
    world.rescales.apply(world.plan(1, 2, 4))
    world.rescales.apply(world.plan(1, 4))
    second, third = (decode_body(world.rescales.body("flights", version)) for version in (2, 3))
    assert third.previous is not None
    assert (third.previous.version, third.previous.mapping) == (2, second.mapping)
    assert [unit.id for unit in third.units] == [1, 4]
    assert set(third.mapping.owners) == {1, 4}


def test_a_database_from_an_older_backup_gives_no_published_version_a_second_meaning(world: World) -> None:
    token = world.plan(1, 2)
    world.announce(5, b"of a later life")
    with pytest.raises(DatabaseBehind) as refusal:
        world.rescales.apply(token)
    assert (refusal.value.version, refusal.value.published_version) == (1, 5)
    assert world.current == (1, Phase.SETTLED)
    assert world.published == (5, Phase.SETTLED)


def test_a_database_of_another_history_does_not_go_on(world: World) -> None:
    """Version 2 over a foreign version 1 would look like one history."""
    token = world.plan(1, 2)
    ours, foreign = world.rescales.body("flights", 1), b"another version 1"
    world.announce(1, foreign)
    with pytest.raises(DigestConflict) as refusal:
        world.rescales.apply(token)
    assert (refusal.value.held, refusal.value.offered) == (digest(foreign), digest(ours))
    assert (world.current, world.published) == ((1, Phase.SETTLED), (1, Phase.SETTLED))
    world.announce(1, ours)
    assert world.rescales.apply(token).applied_version == 2


def test_a_fragment_that_etcd_has_of_somebody_else_is_not_created(world: World) -> None:
    world.announce(1, b"of another database", fragment="trains")
    request = FragmentRequest("trains", 64, (KeyField("origin", "string"),), 2, APPLIER_TIMEOUT_MS)
    with pytest.raises(FragmentPublishedElsewhere, match="choose another name") as refusal:
        world.rescales.create_fragment(request)
    assert (refusal.value.fragment, refusal.value.published_version) == ("trains", 1)
    assert [fragment.name for fragment in world.registry.fragments()] == ["flights"]


def test_a_subscriber_ahead_of_a_restored_database_is_heard_without_its_acknowledgement(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.hear("job", 1)
    world.now_ms += 1_000
    for _ in range(3):
        world.hear("job", 7)
    (heard,) = world.rescales.subscribers("flights")
    assert (heard.acknowledged_version, heard.seen_at_ms) == (1, world.now_ms)
    (told,) = caplog.messages
    assert told.startswith("fragment flights: subscriber job (job): it acknowledges version 7")
    world.rescales.apply(world.plan(1, 2))
    assert [applier.name for applier in world.rescales.progress("flights").waiting_for] == ["job"]
