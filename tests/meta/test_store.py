from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import replace
from itertools import cycle
from threading import Barrier, Event, Thread
from time import monotonic

import pytest
import sqlalchemy as sa

from deploy.postgres import PostgresProcess
from meta.lifecycle import Cause, Fragment, KeyField, NewVersion, PhaseChange, RescalePhase, Role, Subscriber
from meta.mapping.publication import Current, Phase, digest
from meta.store.database import Database, Transaction
from meta.store.failures import Failure, failure_of
from meta.store.tables import units, workers
from storage_keys.hash import hash_id
from storage_keys.type_name import parse_type

AT_ONCE = 50


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


@pytest.fixture
def replicas(database: Database, database_url: str) -> Iterator[tuple[Database, Database]]:
    """Two engines on one database, as two replicas of the service have."""
    other = Database(database_url)
    yield database, other
    other.close()


def rescaled(new: Current, body: bytes, *, moves: int = 0) -> NewVersion:
    return NewVersion(new, body, vnode_count=256, moves=moves, cause=Cause.RESCALE)


def begin(database: Database, fragment: str, body: bytes) -> bool:
    new = rescaled(current(2, Phase.RESCALING, body), body, moves=64)
    with database.transaction() as tx:
        return tx.fragments.begin_version(fragment, 1, new, now_ms=10)


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


def test_of_many_that_begin_a_version_at_once_exactly_one_wins(
    replicas: tuple[Database, Database], database: Database, flights: str
) -> None:
    bodies = [f"second by {number}".encode() for number in range(AT_ONCE)]
    won = at_once(
        *(
            lambda body=body, replica=replica: begin(replica, flights, body)
            for body, replica in zip(bodies, cycle(replicas), strict=False)
        )
    )
    assert won.count(True) == 1
    winner = bodies[won.index(True)]
    assert stored(database, flights).current == current(2, Phase.RESCALING, winner)
    with database.transaction() as tx:
        assert tx.versions.body(flights, 2) == winner
        assert tx.versions.digest(flights, 2) == digest(winner)
        assert [tx.versions.moves(flights, version) for version in (1, 2, 3)] == [0, 64, None]


def test_a_version_begins_only_from_its_settled_base(database: Database, flights: str) -> None:
    assert begin(database, flights, b"second")
    third = current(3, Phase.RESCALING, b"third")
    second = current(2, Phase.RESCALING, b"second")
    with database.transaction() as tx:
        assert not tx.fragments.begin_version(flights, 1, rescaled(second, b"x"), now_ms=12), "stale base"
        assert not tx.fragments.begin_version(flights, 2, rescaled(third, b"third"), now_ms=12), "in flight"
        assert tx.fragments.change_phase(flights, 2, Phase.RESCALING, Phase.SETTLED, now_ms=13)
        assert not tx.fragments.begin_version(flights, 1, rescaled(third, b"third"), now_ms=14), (
            "stale, settled"
        )
        assert tx.fragments.begin_version(flights, 2, rescaled(third, b"third"), now_ms=14)
    assert stored(database, flights).current == third


def test_of_many_that_accept_or_settle_at_once_each_change_happens_once(
    replicas: tuple[Database, Database], database: Database, flights: str
) -> None:
    begin(database, flights, b"second")

    def change_at_once(source: Phase, target: Phase) -> list[bool]:
        return at_once(
            *[lambda on=on: change(on, flights, source, target) for on in replicas * (AT_ONCE // 2)]
        )

    accepted = change_at_once(Phase.RESCALING, Phase.ACCEPTED)
    settled = change_at_once(Phase.ACCEPTED, Phase.SETTLED)
    assert accepted.count(True) == settled.count(True) == 1
    assert not change(database, flights, Phase.RESCALING, Phase.ACCEPTED), "there is no way back"


def test_phases_are_told_in_their_order_even_within_one_millisecond(database: Database, flights: str) -> None:
    begin(database, flights, b"second")
    change(database, flights, Phase.RESCALING, Phase.ACCEPTED)
    change(database, flights, Phase.ACCEPTED, Phase.SETTLED)
    with database.transaction() as tx:
        assert tx.versions.phases(flights, 1) == (PhaseChange(1, RescalePhase.SETTLED, 5),)
        assert tx.versions.phases(flights, 2) == (
            PhaseChange(2, RescalePhase.RESCALING, 10),
            PhaseChange(2, RescalePhase.ACCEPTED, 11),
            PhaseChange(2, RescalePhase.SETTLED, 11),
        )


def test_a_transaction_that_fails_leaves_nothing(database: Database, flights: str) -> None:
    def half_way() -> None:
        second = current(2, Phase.RESCALING, b"second")
        with database.transaction() as tx:
            assert tx.fragments.begin_version(flights, 1, rescaled(second, b"second", moves=1), now_ms=1)
            raise InterruptedError

    with pytest.raises(InterruptedError):
        half_way()
    assert stored(database, flights).current == FIRST
    with database.transaction() as tx:
        assert tx.versions.body(flights, 2) is None


def test_who_holds_a_fragment_reads_what_the_holder_before_wrote(
    replicas: tuple[Database, Database], flights: str
) -> None:
    """Also where a version came while it waited: it finds the fragment, at that version."""
    first, second = replicas
    holding, seen = Event(), []

    def wait_and_read() -> None:
        holding.wait()
        with second.transaction() as tx:
            tx.fragments.hold(flights)
            seen.append(tx.fragments.get(flights))

    waiting = Thread(target=wait_and_read)
    waiting.start()
    with first.transaction() as tx:
        tx.fragments.hold(flights)
        holding.set()
        waiting.join(0.2)
        assert seen == [], "it waits"
        new = current(2, Phase.RESCALING, b"second")
        assert tx.fragments.begin_version(flights, 1, rescaled(new, b"second"), now_ms=1)
    waiting.join(10)
    assert [fragment.current for fragment in seen if fragment] == [new]


def test_what_is_there_already_is_told_and_not_written_again(database: Database, flights: str) -> None:
    with database.transaction() as tx:
        before = tx.fragments.get(flights)
        assert before is not None
        assert not tx.fragments.add(replace(before, vnode_count=512), b"another first")
        assert tx.fragments.get(flights) == before
        assert tx.workers.add("w1", parallelism=2, labels={}, heartbeat_timeout_ms=None, now_ms=1) is not None
        assert tx.workers.add("w1", parallelism=3, labels={}, heartbeat_timeout_ms=None, now_ms=2) is None
        assert [worker.unit_ids for worker in tx.workers.all()] == [(1, 2)]


def test_every_list_has_one_order_whatever_the_database_thinks_of_letters(
    database: Database, flights: str
) -> None:
    names = ["a", "a-b", "a.c", "ab", "b"]
    with database.transaction() as tx:
        before = tx.fragments.get(flights)
        assert before is not None
        for name in reversed(names):
            tx.fragments.add(replace(before, name=name), b"first")
            tx.workers.add(name, parallelism=1, labels={}, heartbeat_timeout_ms=None, now_ms=1)
        for subscriber in ("z", "B", "a", "\N{LATIN SMALL LETTER A WITH DIAERESIS}"):
            tx.subscribers.save(replace(heard(1), id=f"id-{subscriber}", name=subscriber))
        assert [fragment.name for fragment in tx.fragments.all()] == [*names, flights]
        assert [worker.name for worker in tx.workers.all()] == names
        found = [subscriber.name for subscriber in tx.subscribers.of(flights)]
        assert found == ["B", "a", "z", "\N{LATIN SMALL LETTER A WITH DIAERESIS}"]


def test_the_longest_of_everything_that_the_api_lets_through_fits(database: Database, flights: str) -> None:
    """SQLite takes any length, PostgreSQL what the column says."""
    key = tuple(
        KeyField(f"{column:02}" + "\N{OLD ITALIC LETTER A}" * 253, "decimal(38,18)") for column in range(24)
    )
    hashed = hash_id([parse_type(field.type) for field in key])
    now_ms = 2**42
    with database.transaction() as tx:
        longest = Fragment("f" * 63, 65_536, key, hashed, 24 * 3600 * 1000, now_ms, FIRST)
        assert tx.fragments.add(longest, b"first")
        assert tx.fragments.get(longest.name) == longest
        widest = Subscriber(
            "s" * 64, longest.name, "\N{OLD ITALIC LETTER A}" * 255, Role.READER, 2**31 - 1, now_ms
        )
        assert tx.subscribers.save(widest) == widest
        assert tx.workers.add(
            "w" * 63, parallelism=4096, labels={}, heartbeat_timeout_ms=24 * 3600 * 1000, now_ms=now_ms
        )
        body = b"\x00" * 400_000
        new = current(2, Phase.RESCALING, body)
        assert tx.fragments.begin_version(longest.name, 1, rescaled(new, body, moves=65_536), now_ms=now_ms)
        assert tx.versions.body(longest.name, 2) == body


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
        assert tx.retention.forget_subscribers(100, 10) == 0
        assert tx.subscribers.of(flights) == [heard(1, seen_at_ms=100)]
        assert tx.retention.forget_subscribers(101, 10) == 1
        assert tx.subscribers.of(flights) == []


def test_a_subscriber_needs_a_fragment(database: Database) -> None:
    with pytest.raises(sa.exc.IntegrityError), database.transaction() as tx:
        tx.subscribers.save(heard(1))


def test_unit_ids_are_never_given_twice(database: Database) -> None:
    with database.transaction() as tx:
        first = tx.workers.add("w1", parallelism=3, labels={}, heartbeat_timeout_ms=None, now_ms=1)
        last = tx.workers.add("w2", parallelism=2, labels={}, heartbeat_timeout_ms=None, now_ms=1)
    assert first.unit_ids == (1, 2, 3)
    assert last.unit_ids == (4, 5)
    with database.engine.begin() as connection:
        connection.execute(units.delete().where(units.c.worker == "w2"))
        connection.execute(workers.delete().where(workers.c.name == "w2"))
    with database.transaction() as tx:
        again = tx.workers.add("w2", parallelism=2, labels={}, heartbeat_timeout_ms=None, now_ms=2)
    assert again.unit_ids == (6, 7), "what was published about units 4 and 5 would mean something else"


def test_a_worker_that_registers_again_is_alive_with_its_new_timeout(database: Database) -> None:
    with database.transaction() as tx:
        tx.workers.add("w1", parallelism=1, labels={}, heartbeat_timeout_ms=None, now_ms=1)
        tx.workers.renew("w1", labels={}, heartbeat_timeout_ms=500, now_ms=9)
        renewed = tx.workers.get("w1")
        assert renewed is not None
        assert (renewed.heartbeat_timeout_ms, renewed.registered_at_ms, renewed.seen_at_ms) == (500, 1, 9)
        assert tx.workers.beat("w1", 12)
        assert not tx.workers.beat("w9", 12)
        assert [worker.seen_at_ms for worker in tx.workers.all()] == [12]


def test_reading_waits_for_no_writer(database: Database) -> None:
    with database.transaction() as writing, database.reading() as reading:
        writing.workers.add("w1", parallelism=1, labels={}, heartbeat_timeout_ms=None, now_ms=1)
        assert reading.workers.all() == []
    with database.reading() as reading:
        assert [worker.name for worker in reading.workers.all()] == ["w1"]


def test_reading_sees_one_instant_in_all_its_statements(database: Database, flights: str) -> None:
    with database.reading() as reading:
        before = reading.fragments.get(flights)
        assert begin(database, flights, b"second")
        assert reading.fragments.get(flights) == before
        assert reading.versions.body(flights, 2) is None


@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
def test_what_reads_on_postgresql_cannot_write(database: Database, flights: str) -> None:
    with pytest.raises(sa.exc.InternalError, match="read-only") as caught, database.reading() as reading:
        reading.workers.beat("w1", 1)
    assert failure_of(caught.value) is Failure.UNAVAILABLE, "as of a standby that took over"


def test_a_session_on_postgresql_waits_for_nothing_without_end_and_commits_to_disk(
    postgres: PostgresProcess, name: str
) -> None:
    with postgres.database(name) as url:
        postgres.execute(f"ALTER DATABASE {name} SET synchronous_commit = off")
        database = Database(f"{url}?application_name=mine")
        with database.engine.connect() as connection:
            settings = {
                setting: connection.exec_driver_sql(f"SHOW {setting}").scalar_one()
                for setting in (
                    "lock_timeout",
                    "statement_timeout",
                    "tcp_keepalives_idle",
                    "synchronous_commit",
                    "application_name",
                )
            }
        database.close()
    assert settings == {
        "lock_timeout": "5s",
        "statement_timeout": "30s",
        "tcp_keepalives_idle": "5",
        "synchronous_commit": "on",
        "application_name": "mine",
    }


def test_a_row_that_somebody_else_keeps_locked_makes_the_database_busy(
    replicas: tuple[Database, Database], database_url: str, flights: str
) -> None:
    first, second = replicas
    at_most = "PRAGMA busy_timeout = 50" if database_url.startswith("sqlite") else "SET lock_timeout = '50ms'"
    with first.transaction() as tx, second.engine.connect() as impatient:
        tx.fragments.hold(flights)
        impatient.connection.cursor().execute(at_most)
        with pytest.raises(sa.exc.OperationalError) as caught:
            Transaction.on(impatient).fragments.hold(flights)
    assert failure_of(caught.value) is Failure.BUSY


def test_who_waits_to_write_goes_on_when_the_one_before_is_done(
    database: Database, flights: str, eventually: Callable[..., None]
) -> None:
    """SQLite's own waiting looks again each 100 ms after a while; a burst of heartbeats was refused by it."""

    def held_ms() -> float:
        with database.transaction() as tx:
            tx.fragments.hold(flights)
            return monotonic() * 1000

    def in_turn() -> None:
        with ThreadPoolExecutor(1) as threads:
            with database.transaction() as tx:
                tx.fragments.hold(flights)
                waiting = threads.submit(held_ms)
                wait([waiting], timeout=0.24)
                released_ms = monotonic() * 1000
            assert waiting.result() - released_ms < 40

    eventually(in_turn)


def test_what_we_did_wrong_is_no_failure_of_the_database(database: Database) -> None:
    with pytest.raises(sa.exc.DBAPIError) as caught, database.engine.connect() as connection:
        connection.exec_driver_sql("SELECT nonsense FROM nowhere")
    assert failure_of(caught.value) is None
    assert failure_of(ValueError()) is None
