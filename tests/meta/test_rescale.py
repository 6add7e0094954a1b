"""Plans and their tokens: applied in time, once, and one of many."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import psycopg
import pytest
import stamina
from stamina.instrumentation import RetryDetails, get_on_retry_hooks, set_on_retry_hooks

from meta.errors import (
    FragmentExists,
    MetaError,
    PlanExpired,
    PlanNotFound,
    RescaleInFlight,
    StaleBase,
    UnitsNotAlive,
)
from meta.lifecycle import PLAN_LIFETIME_MS
from meta.mapping.errors import NotEnoughUnits
from meta.mapping.publication import Phase
from meta.rescaling.goal import Goal, ToParallelism
from tests.meta.world import DAY_MS, OPERATOR, WORKER_TIMEOUT_MS, World, at_once


@pytest.fixture
def retries() -> Iterator[list[str]]:
    """What stamina tried again, told in the way that the service would tell it."""
    told: list[str] = []

    def tell(retry: RetryDetails) -> None:
        told.append(f"{retry.name} after {type(retry.caused_by).__name__}")

    hooks = get_on_retry_hooks()
    set_on_retry_hooks([tell])
    yield told
    set_on_retry_hooks(hooks)


def test_a_plan_expires(world: World) -> None:
    token = world.plan(1, 2)
    world.now_ms += PLAN_LIFETIME_MS - 1
    other = world.plan(1, 2, 3, 4)
    world.now_ms += 1
    with pytest.raises(PlanExpired, match="plan again"):
        world.apply_token(token)
    assert world.current == (1, Phase.SETTLED)
    assert world.apply_token(other).applied_version == 2


def test_an_applied_token_answers_the_same_even_after_it_would_have_expired(world: World) -> None:
    token = world.plan(1, 2)
    first = world.apply_token(token)
    world.now_ms += PLAN_LIFETIME_MS
    assert world.apply_token(token) == first
    assert world.current == (2, Phase.SETTLED)


def test_of_many_plans_applied_at_once_exactly_one_wins(world: World) -> None:
    """No applier, so the winner settles at once: the others meet a newer version, whatever the order."""
    tokens = [world.plan(1, 2), world.plan(1, 3), world.plan(2, 3), world.plan(1, 2, 3, 4)] * 3
    ready = Barrier(len(tokens))

    def apply(token: str) -> int | type[MetaError]:
        ready.wait()
        try:
            return world.apply_token(token).applied_version or 0
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
    assert [version.version for version in world.history.versions("flights")] == [1, 2]
    assert world.published == (2, Phase.SETTLED)


def test_one_token_applied_by_many_at_once_has_one_answer(world: World) -> None:
    token = world.plan(1, 2)
    applied = at_once(*[lambda: world.apply_token(token)] * 20)
    assert {plan.applied_version for plan in applied} == {2}
    assert world.current == (2, Phase.SETTLED)


def test_who_registers_at_once_with_others_is_registered_once(world: World) -> None:
    def add_worker() -> bool:
        return world.workers.register("w3", parallelism=2, heartbeat_timeout_ms=None, by=OPERATOR)[1]

    assert at_once(*[add_worker] * 12).count(True) == 1
    at_once(*[lambda: world.hear("job", 1)] * 12)
    assert world.subscribers == ["job"]

    def create() -> str:
        try:
            world.create("trains")
        except FragmentExists as error:
            return type(error).__name__
        return "created"

    assert sorted(at_once(*[create] * 12)) == ["FragmentExists"] * 11 + ["created"]


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_a_deadlock_is_tried_again_and_nobody_hears_of_it(
    world: World, database_url: str, retries: list[str]
) -> None:
    token = world.plan(1, 2)
    plan_id = token.partition(".")[0]
    with ThreadPoolExecutor(1) as threads, psycopg.connect(database_url) as administrator:
        administrator.execute("SET deadlock_timeout = '60s'")  # so that the other one is the victim
        administrator.execute("SELECT id FROM plans WHERE id = %s FOR UPDATE", [plan_id])
        applying = threads.submit(world.apply_token, token)
        wait_for_a_waiter(database_url)
        administrator.execute("SELECT name FROM fragments WHERE name = 'flights' FOR UPDATE")
        administrator.commit()
        assert applying.result(10).applied_version == 2
    assert world.current == (2, Phase.SETTLED)
    ours = [retry for retry in retries if retry.startswith("meta.")]
    assert ours == ["meta.rescaling.rescale.Rescales.apply after OperationalError"]


@stamina.retry(on=AssertionError, attempts=None, timeout=10, wait_initial=0.02, wait_max=0.05)
def wait_for_a_waiter(url: str) -> None:
    with psycopg.connect(url) as connection:
        waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
        assert connection.execute(waiting).fetchone() == (1,)


def test_after_the_service_was_down_the_workers_are_not_known_dead(world: World) -> None:
    world.now_ms += 60_000
    world.start()
    token = world.plan(1, 2, 3, 4)
    world.pass_time(WORKER_TIMEOUT_MS - 1_000)
    world.workers.beat("w1")
    world.pass_time(1_000)
    with pytest.raises(UnitsNotAlive, match="units 3, 4"):
        world.apply_token(token)
    with pytest.raises(NotEnoughUnits, match="ask for at most 2"):
        world.rescales.plan("flights", Goal(ToParallelism(3)), by=OPERATOR)


def test_plans_that_nobody_applied_are_forgotten_a_day_after_they_expired(world: World) -> None:
    applied, unapplied = world.plan(1, 2), world.plan(1, 3)
    first = world.apply_token(applied)
    world.now_ms += PLAN_LIFETIME_MS + DAY_MS
    world.retention.run()
    with pytest.raises(StaleBase):
        world.apply_token(unapplied)
    world.now_ms += 1
    world.retention.run()
    with pytest.raises(PlanNotFound):
        world.apply_token(unapplied)
    assert world.apply_token(applied) == first


def test_a_version_carries_what_it_was_planned_on(world: World) -> None:
    """Gaps in the ids: unit 2 leaves, 1 and 4 stay."""
    world.apply(1, 2, 4)
    world.apply(1, 4)
    second, third = (world.body(version) for version in (2, 3))
    assert third.previous is not None
    assert (third.previous.version, third.previous.mapping) == (2, second.mapping)
    assert [unit.id for unit in third.units] == [1, 4]
    assert set(third.mapping.owners) == {1, 4}
