"""The use cases on a clock that the test sets: what no service could be watched doing in a second."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier

import pytest

from meta.coordination.publisher import Publication, Publisher
from meta.errors import (
    DatabaseBehind,
    MetaError,
    PlanExpired,
    RescaleInFlight,
    StaleBase,
    UnitsNotAlive,
)
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.lifecycle import PLAN_LIFETIME_MS, KeyField, Role, Subscriber
from meta.mapping.errors import NotEnoughUnits
from meta.mapping.publication import Current, Phase, current_key, decode_body, digest
from meta.registry import FragmentRequest, Registry
from meta.rescale import Goal, Rescales
from meta.store.database import Database

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
        self.registry.create_fragment(FragmentRequest("flights", 256, key, 3, APPLIER_TIMEOUT_MS))

    def start(self) -> None:
        """The service, started on the database as it is now."""
        self.hearing = Hearing(lambda: self.now_ms)
        self.registry = Registry(self.database, self.hearing)
        self.rescales = Rescales(self.database, self.publisher, self.hearing)

    def plan(self, *unit_ids: int) -> str:
        return self.rescales.plan("flights", Goal(unit_ids=frozenset(unit_ids)))[0].token

    def hear(self, name: str, version: int | None, role: Role = Role.APPLIER) -> None:
        self.rescales.hear(Subscriber(name, "flights", name, role, version, self.now_ms))

    def pass_time(self, span_ms: int, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Time passes as for a service that runs: it reconciles each second."""
        for _ in range(span_ms // 1_000):
            self.now_ms += 1_000
            meanwhile()
            self.rescales.reconcile()

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


def test_etcd_ahead_of_the_database_is_told_loudly(world: World, caplog: pytest.LogCaptureFixture) -> None:
    body = b"of the future"
    world.publisher.publish("flights", Current(9, Phase.SETTLED, digest(body)), body)
    assert world.rescales.publish("flights") is Publication.AHEAD
    assert "etcd is ahead of the database (version 1 here)" in caplog.text


def test_of_two_histories_nothing_is_published_and_the_other_fragments_go_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"another version 1"
    world.publisher.publish("flights", Current(1, Phase.SETTLED, digest(body)), body)
    key = (KeyField("origin", "string"),)
    world.registry.create_fragment(FragmentRequest("trains", 64, key, 2, APPLIER_TIMEOUT_MS))
    world.rescales.reconcile()
    assert digest(body) in caplog.text
    assert digest(world.rescales.body("flights")) in caplog.text
    assert world.publisher.etcd.get(current_key("trains", world.publisher.root)) is not None


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
    ahead = Current(5, Phase.SETTLED, digest(b"of a later life"))
    world.publisher.etcd.put(current_key("flights", world.publisher.root), ahead.encode())
    with pytest.raises(DatabaseBehind) as refusal:
        world.rescales.apply(token)
    assert (refusal.value.version, refusal.value.published_version) == (1, 5)
    assert world.current == (1, Phase.SETTLED)
    assert world.published == (5, Phase.SETTLED)
