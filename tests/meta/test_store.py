from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
import sqlalchemy as sa

from meta.lifecycle import Fragment, KeyField, PhaseChange, Role, Subscriber
from meta.mapping.publication import Current, Phase, digest
from meta.store.database import Database
from meta.store.tables import units, workers

THREADS = 12


def current(version: int, phase: Phase, body: bytes) -> Current:
    return Current(version, phase, digest(body))


FIRST = current(1, Phase.SETTLED, b"first")


@pytest.fixture
def flights(database: Database) -> str:
    key = (KeyField("carrier", "string"), KeyField("day", "date"))
    with database.transaction() as tx:
        tx.fragments.add(Fragment("flights", 256, key, "xxh64-1:utf8,i64", 10_000, 5, FIRST), b"first")
    return "flights"


def at_once(*actions: Callable[[], bool]) -> list[bool]:
    """Runs all actions at the same moment, each in a thread of its own."""
    ready = Barrier(len(actions))

    def released(action: Callable[[], bool]) -> bool:
        ready.wait()
        return action()

    with ThreadPoolExecutor(len(actions)) as threads:
        return list(threads.map(released, actions))


def begin(database: Database, fragment: str, body: bytes) -> bool:
    new = current(2, Phase.RESCALING, body)
    with database.transaction() as tx:
        return tx.fragments.begin_version(fragment, 1, new, body, moves=64, now_ms=10)


def change(database: Database, fragment: str, source: Phase, target: Phase) -> bool:
    with database.transaction() as tx:
        return tx.fragments.change_phase(fragment, 2, source, target, now_ms=11)


def stored(database: Database, fragment: str) -> Fragment:
    with database.transaction() as tx:
        found = tx.fragments.get(fragment)
        assert found is not None
        return found


def test_a_fragment_comes_back_as_it_was_written(database: Database, flights: str) -> None:
    found = stored(database, flights)
    assert found.distribution_key == (KeyField("carrier", "string"), KeyField("day", "date"))
    assert (found.vnode_count, found.hash_id, found.created_at_ms) == (256, "xxh64-1:utf8,i64", 5)
    assert found.current == FIRST
    with database.transaction() as tx:
        assert tx.fragments.all() == [found]
        assert tx.fragments.get("trains") is None


def test_of_many_that_begin_a_version_at_once_exactly_one_wins(database: Database, flights: str) -> None:
    bodies = [f"second by {number}".encode() for number in range(THREADS)]
    won = at_once(*(lambda body=body: begin(database, flights, body) for body in bodies))
    assert won.count(True) == 1
    winner = bodies[won.index(True)]
    assert stored(database, flights).current == current(2, Phase.RESCALING, winner)
    with database.transaction() as tx:
        assert tx.fragments.body(flights, 2) == winner
        assert tx.fragments.digest(flights, 2) == digest(winner)
        assert [tx.fragments.moves(flights, version) for version in (1, 2, 3)] == [0, 64, None]


def test_a_version_begins_only_from_its_settled_base(database: Database, flights: str) -> None:
    assert begin(database, flights, b"second")
    third = current(3, Phase.RESCALING, b"third")
    second = current(2, Phase.RESCALING, b"second")
    with database.transaction() as tx:
        assert not tx.fragments.begin_version(flights, 1, second, b"x", moves=0, now_ms=12), "stale base"
        assert not tx.fragments.begin_version(flights, 2, third, b"third", moves=0, now_ms=12), "in flight"
        assert tx.fragments.change_phase(flights, 2, Phase.RESCALING, Phase.SETTLED, now_ms=13)
        assert tx.fragments.begin_version(flights, 2, third, b"third", moves=0, now_ms=14)
    assert stored(database, flights).current == third


def test_of_many_that_accept_or_settle_at_once_each_change_happens_once(
    database: Database, flights: str
) -> None:
    begin(database, flights, b"second")
    accepted = at_once(
        *[lambda: change(database, flights, Phase.RESCALING, Phase.ACCEPTED) for _ in range(THREADS)]
    )
    settled = at_once(
        *[lambda: change(database, flights, Phase.ACCEPTED, Phase.SETTLED) for _ in range(THREADS)]
    )
    assert accepted.count(True) == settled.count(True) == 1
    assert not change(database, flights, Phase.RESCALING, Phase.ACCEPTED), "there is no way back"


def test_phases_are_told_in_their_order_even_within_one_millisecond(database: Database, flights: str) -> None:
    begin(database, flights, b"second")
    change(database, flights, Phase.RESCALING, Phase.ACCEPTED)
    change(database, flights, Phase.ACCEPTED, Phase.SETTLED)
    with database.transaction() as tx:
        assert tx.fragments.phases(flights, 1) == [PhaseChange(1, Phase.SETTLED, 5)]
        assert tx.fragments.phases(flights, 2) == [
            PhaseChange(2, Phase.RESCALING, 10),
            PhaseChange(2, Phase.ACCEPTED, 11),
            PhaseChange(2, Phase.SETTLED, 11),
        ]


def test_a_transaction_that_fails_leaves_nothing(database: Database, flights: str) -> None:
    def half_way() -> None:
        second = current(2, Phase.RESCALING, b"second")
        with database.transaction() as tx:
            assert tx.fragments.begin_version(flights, 1, second, b"second", moves=1, now_ms=1)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        half_way()
    assert stored(database, flights).current == FIRST
    with database.transaction() as tx:
        assert tx.fragments.body(flights, 2) is None


def heard(version: int | None, seen_at_ms: int = 0, role: Role = Role.APPLIER) -> Subscriber:
    return Subscriber("s1", "flights", "job", role, version, seen_at_ms)


def test_an_acknowledgement_never_goes_back(database: Database, flights: str) -> None:
    with database.transaction() as tx:
        assert tx.subscribers.save(heard(None)).acknowledged_version is None
        assert tx.subscribers.save(heard(2, seen_at_ms=1)).acknowledged_version == 2
        assert tx.subscribers.save(heard(1, seen_at_ms=2)).acknowledged_version == 2
        assert tx.subscribers.save(heard(None, seen_at_ms=3)) == heard(2, seen_at_ms=3)
        assert tx.subscribers.save(heard(3, seen_at_ms=4)).acknowledged_version == 3
        assert tx.subscribers.of(flights) == [heard(3, seen_at_ms=4)]


def test_only_the_silent_are_forgotten(database: Database, flights: str) -> None:
    with database.transaction() as tx:
        tx.subscribers.save(heard(1, seen_at_ms=100))
        tx.subscribers.forget_silent(before_ms=100)
        assert tx.subscribers.of(flights) == [heard(1, seen_at_ms=100)]
        tx.subscribers.forget_silent(before_ms=101)
        assert tx.subscribers.of(flights) == []


def test_a_subscriber_needs_a_fragment(database: Database) -> None:
    with pytest.raises(sa.exc.IntegrityError), database.transaction() as tx:
        tx.subscribers.save(heard(1))


def test_unit_ids_are_never_given_twice(database: Database) -> None:
    with database.transaction() as tx:
        first = tx.workers.add("w1", parallelism=3, heartbeat_timeout_ms=None, now_ms=1)
        last = tx.workers.add("w2", parallelism=2, heartbeat_timeout_ms=None, now_ms=1)
    assert first.unit_ids == (1, 2, 3)
    assert last.unit_ids == (4, 5)
    with database.engine.begin() as connection:
        connection.execute(units.delete().where(units.c.worker == "w2"))
        connection.execute(workers.delete().where(workers.c.name == "w2"))
    with database.transaction() as tx:
        again = tx.workers.add("w2", parallelism=2, heartbeat_timeout_ms=None, now_ms=2)
    assert again.unit_ids == (6, 7), "what was published about units 4 and 5 would mean something else"


def test_a_worker_that_registers_again_is_alive_with_its_new_timeout(database: Database) -> None:
    with database.transaction() as tx:
        tx.workers.add("w1", parallelism=1, heartbeat_timeout_ms=None, now_ms=1)
        renewed = tx.workers.renew("w1", heartbeat_timeout_ms=500, now_ms=9)
        assert (renewed.heartbeat_timeout_ms, renewed.registered_at_ms, renewed.seen_at_ms) == (500, 1, 9)
        assert tx.workers.get("w1") == renewed
        assert tx.workers.beat("w1", 12)
        assert not tx.workers.beat("w9", 12)
        assert [worker.seen_at_ms for worker in tx.workers.all()] == [12]


def test_reading_waits_for_no_writer(database: Database) -> None:
    with database.transaction() as writing, database.reading() as reading:
        writing.workers.add("w1", parallelism=1, heartbeat_timeout_ms=None, now_ms=1)
        assert reading.workers.all() == []
    with database.reading() as reading:
        assert [worker.name for worker in reading.workers.all()] == ["w1"]
