"""The stories of listeners, on one event loop over a real database."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
import sqlalchemy as sa

from meta.callers.request_errors import TooManyStreams
from meta.changes import Changes, Position
from meta.errors import FragmentNotFound
from meta.mapping.publication import Current, Phase, digest
from meta.store.database import Database
from meta.store.tables import fragments, mapping_versions, phase_changes

PHASES = (Phase.RESCALING, Phase.ACCEPTED, Phase.SETTLED)


class History:
    """A fragment that goes on as it is told to, by rows alone."""

    def __init__(self, database: Database, name: str = "flights") -> None:
        self.engine = database.engine
        self.name = name
        row = {
            "name": name,
            "vnode_count": 64,
            "distribution_key": [],
            "hash_id": "h",
            "applier_timeout_ms": 100,
        }
        with self.engine.begin() as connection:
            connection.execute(
                fragments.insert().values(**row, created_at_ms=1, version=1, phase=Phase.SETTLED)
            )
            self._version(connection, 1)
            self._phase(connection, 1, Phase.SETTLED)

    def go_on(self, version: int, *phases: Phase) -> None:
        for phase in phases:
            with self.engine.begin() as connection:
                if phase is Phase.RESCALING:
                    self._version(connection, version)
                self._phase(connection, version, phase)
                connection.execute(
                    fragments.update()
                    .where(fragments.c.name == self.name)
                    .values(version=version, phase=phase)
                )

    def forget(self, before: int) -> None:
        with self.engine.begin() as connection:
            for table in (phase_changes, mapping_versions):
                connection.execute(
                    table.delete().where(table.c.fragment == self.name, table.c.version < before)
                )

    def current(self, version: int, phase: Phase) -> Current:
        return Current(version, phase, digest(f"{self.name}{version}".encode()))

    def _version(self, connection: sa.Connection, version: int) -> None:
        values = {"body": b"", "digest": self.current(version, Phase.SETTLED).digest, "moves": 0}
        connection.execute(
            mapping_versions.insert().values(fragment=self.name, version=version, created_at_ms=1, **values)
        )

    def _phase(self, connection: sa.Connection, version: int, phase: str) -> None:
        values = {"fragment": self.name, "version": version, "phase": phase, "at_ms": 1}
        connection.execute(phase_changes.insert().values(**values))


@pytest.fixture
def history(database: Database) -> History:
    return History(database)


@pytest.fixture
def run(database: Database) -> "Run":
    def run(story: Callable[[Changes], Awaitable[None]]) -> None:
        async def told() -> None:
            changes = Changes(database, listeners_max=3)
            polling = asyncio.create_task(changes.run())
            await asyncio.wait_for(story(changes), 20)
            polling.cancel()
            await asyncio.gather(polling, return_exceptions=True)

        asyncio.run(told())

    return run


@asynccontextmanager
async def listening(
    changes: Changes, name: str = "flights", after: Position | None = None
) -> AsyncIterator[AsyncIterator[Current]]:
    current = await changes.current(name)
    with changes.listening(name, current):
        yield changes.after(name, after or Position.of(current))


async def take(stream: AsyncIterator[Current], count: int) -> list[Current]:
    return [await anext(stream) for _ in range(count)]


Run = Callable[[Callable[[Changes], Awaitable[None]]], None]


def test_every_phase_comes_once_and_in_order(run: Run, history: History) -> None:
    async def story(changes: Changes) -> None:
        async with listening(changes) as stream:
            history.go_on(2, *PHASES)
            history.go_on(3, *PHASES)
            expected = [history.current(version, phase) for version in (2, 3) for phase in PHASES]
            assert await take(stream, 6) == expected

    run(story)


def test_who_comes_back_is_told_what_it_missed_and_then_what_comes(run: Run, history: History) -> None:
    for version in range(2, 60):
        history.go_on(version, *PHASES)

    async def story(changes: Changes) -> None:
        async with listening(changes, after=Position(2, Phase.ACCEPTED.rank)) as stream:
            missed = await take(stream, 1 + 57 * 3)
            assert missed[0] == history.current(2, Phase.SETTLED)
            assert missed[1:] == [
                history.current(version, phase) for version in range(3, 60) for phase in PHASES
            ]
            history.go_on(60, Phase.RESCALING)
            assert await anext(stream) == history.current(60, Phase.RESCALING)

    run(story)


def test_what_is_kept_no_more_is_left_out(run: Run, history: History) -> None:
    for version in range(2, 6):
        history.go_on(version, Phase.RESCALING, Phase.SETTLED)
    history.forget(5)

    async def story(changes: Changes) -> None:
        async with listening(changes, after=Position(1, 2)) as stream:
            assert await anext(stream) == history.current(5, Phase.RESCALING)

    run(story)


def test_how_else_a_version_ended_is_not_published(run: Run, history: History, database: Database) -> None:
    history.go_on(2, Phase.RESCALING)
    with database.engine.begin() as connection:
        history._phase(connection, 2, "aborted")
    history.go_on(3, Phase.RESCALING, Phase.SETTLED)

    async def story(changes: Changes) -> None:
        async with listening(changes, after=Position(1, 2)) as stream:
            assert [change.version for change in await take(stream, 3)] == [2, 3, 3]

    run(story)


def test_a_slow_listener_misses_nothing_and_the_tail_stays_short(run: Run, history: History) -> None:
    async def story(changes: Changes) -> None:
        async with listening(changes) as quick, listening(changes) as slow:
            for tens in range(0, 100, 10):
                for version in range(tens + 2, tens + 12):
                    history.go_on(version, Phase.RESCALING, Phase.SETTLED)
                changes.wake()
                await take(quick, 20)
            assert len(changes._tails["flights"].recent) == 64
            told = await take(slow, 200)
            assert [Position.of(change) for change in told] == [
                (version, rank) for version in range(2, 102) for rank in (0, 2)
            ]

    run(story)


def test_it_never_goes_backwards(run: Run, history: History) -> None:
    history.go_on(2, *PHASES)

    async def story(changes: Changes) -> None:
        async with listening(changes, after=Position(3, Phase.ACCEPTED.rank)) as stream:
            history.go_on(3, *PHASES)
            assert await anext(stream) == history.current(3, Phase.SETTLED)

    run(story)


def test_a_commit_here_is_seen_before_the_next_poll(
    run: Run, history: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta.changes.INTERVAL_S", 60)

    async def story(changes: Changes) -> None:
        async with listening(changes) as stream:
            history.go_on(2, Phase.RESCALING)
            # As the use cases do, from a thread of their own.
            waker = threading.Thread(target=changes.wake)
            waker.start()
            assert await asyncio.wait_for(anext(stream), 5) == history.current(2, Phase.RESCALING)
            waker.join()

    run(story)


def test_nothing_is_read_while_nobody_listens(run: Run, history: History, database: Database) -> None:
    statements: list[str] = []
    sa.event.listen(
        database.engine, "before_cursor_execute", lambda *told: statements.append(told[2]), named=False
    )

    async def story(changes: Changes) -> None:
        async with listening(changes) as stream:
            history.go_on(2, Phase.RESCALING)
            await anext(stream)
        async with listening(changes):
            pass
        assert changes._tails == {}
        changes.wake()
        statements.clear()
        for _ in range(5):
            changes._woken.set()
            await asyncio.sleep(0)
        assert statements == []

    run(story)


def test_closing_ends_every_stream_and_lets_nobody_in(run: Run, history: History) -> None:
    async def story(changes: Changes) -> None:
        async with listening(changes) as one, listening(changes) as two:
            waiting = [asyncio.create_task(anext(stream, None)) for stream in (one, two)]
            await asyncio.sleep(0)
            changes.close()
            assert await asyncio.gather(*waiting) == [None, None]
        with pytest.raises(TooManyStreams):
            async with listening(changes):
                pass

    run(story)


def test_no_more_listen_than_there_is_room_for(run: Run, history: History) -> None:
    async def story(changes: Changes) -> None:
        async with listening(changes), listening(changes):
            async with listening(changes):
                with pytest.raises(TooManyStreams) as refused:
                    async with listening(changes):
                        pass
                assert refused.value.streams_max == 3
            async with listening(changes):
                assert changes.listeners == 3
        assert changes.listeners == 0

    run(story)


def test_nobody_listens_to_what_is_not_there(run: Run, history: History) -> None:
    async def story(changes: Changes) -> None:
        with pytest.raises(FragmentNotFound):
            async with listening(changes, "trains"):
                pass
        assert changes.listeners == 0

    run(story)


def test_each_hears_of_its_own_fragment(run: Run, history: History, database: Database) -> None:
    trains = History(database, "trains")

    async def story(changes: Changes) -> None:
        async with listening(changes) as one, listening(changes, "trains") as two:
            trains.go_on(2, Phase.RESCALING)
            history.go_on(2, Phase.RESCALING, Phase.ACCEPTED)
            assert await anext(two) == trains.current(2, Phase.RESCALING)
            assert [change.phase for change in await take(one, 2)] == [Phase.RESCALING, Phase.ACCEPTED]

    run(story)
