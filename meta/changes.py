"""The changes of fragments as they come, for readers that do not follow etcd.

One poll for all who listen to this replica, and only while somebody does; a commit of this very replica is seen at
once. Each listener has a position in its fragment's history and nothing else: what comes after is read from a short
tail in memory or, by one who is behind it, from SQL. So a slow one costs nothing and misses nothing that is kept.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TypeVar

import sqlalchemy as sa

from meta.callers.request_errors import TooManyStreams
from meta.mapping.publication import Current
from meta.observability.trouble import Troubles
from meta.registry.fragments import known_fragment
from meta.store.database import Database, Transaction

T = TypeVar("T")

INTERVAL_S = 0.2
LISTENERS_MAX = 1_000

# What a tail holds, and what is read at once by who is behind it.
_TAIL_MAX = 64


class Position(NamedTuple):
    """A place in a fragment's history: right after that phase of that version."""

    version: int
    rank: int

    @classmethod
    def of(cls, current: Current) -> Self:
        return cls(current.version, current.phase.rank)


@dataclass(slots=True)
class _Tail:
    """The newest changes of one fragment: `recent` are all that are kept after `base`."""

    base: Position
    newest: Position
    listeners: int = 0
    recent: deque[Current] = field(default_factory=deque)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def extend(self, changes: list[Current]) -> None:
        self.recent.extend(changes)
        self.newest = Position.of(self.recent[-1])
        while len(self.recent) > _TAIL_MAX:
            self.base = Position.of(self.recent.popleft())
        self.tell()

    def tell(self) -> None:
        self.changed.set()
        self.changed = asyncio.Event()


class Changes:
    """For one event loop, but for `wake`, which any thread may call."""

    def __init__(self, database: Database, listeners_max: int = LISTENERS_MAX) -> None:
        self._database = database
        self._listeners_max = listeners_max
        self._tails: dict[str, _Tail] = {}
        self._closed = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._woken = asyncio.Event()
        self._troubles = Troubles()
        # Their own: neither listeners who catch up nor a database that hangs may take the threads of others.
        self._polling = ThreadPoolExecutor(1, "changes-poll")
        self._reading = ThreadPoolExecutor(3, "changes-read")

    @property
    def listeners(self) -> int:
        return sum(tail.listeners for tail in self._tails.values())

    def wake(self) -> None:
        """Something was committed, so look now."""
        loop = self._loop
        if loop is not None and self._tails:
            with suppress(RuntimeError):  # it has just ended
                loop.call_soon_threadsafe(self._woken.set)

    def close(self) -> None:
        """Ends every stream: none may keep a service that stops."""
        self._closed.set()
        for tail in self._tails.values():
            tail.tell()

    async def run(self) -> None:
        """Polls until it is cancelled."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._woken.wait(), INTERVAL_S)
                self._woken.clear()
                if self._tails:
                    await self._poll()
        finally:
            self._loop = None
            self.close()
            self._polling.shutdown(wait=False, cancel_futures=True)
            self._reading.shutdown(wait=False, cancel_futures=True)

    async def current(self, fragment: str) -> Current:
        """Raises `FragmentNotFound`."""
        return await self._read(self._reading, lambda tx: known_fragment(tx, fragment).current)

    @contextmanager
    def listening(self, fragment: str, current: Current) -> Iterator[None]:
        """A place among the listeners of a fragment, which is in this state now. Raises `TooManyStreams`."""
        if self._closed.is_set() or self.listeners >= self._listeners_max:
            raise TooManyStreams(self._listeners_max)
        tail = self._tails.setdefault(fragment, _Tail(Position.of(current), Position.of(current)))
        tail.listeners += 1
        try:
            yield
        finally:
            tail.listeners -= 1
            if not tail.listeners:
                del self._tails[fragment]

    async def after(self, fragment: str, position: Position) -> AsyncIterator[Current]:
        """Each later change that is kept, once and in order, then those to come, until `close`.

        While `listening`. A position that the database has not reached yet is waited for.
        """
        tail = self._tails[fragment]
        while not self._closed.is_set():
            changed = tail.changed
            if position < tail.base:
                later = await self._caught_up(fragment, position)
            else:
                later = [change for change in tail.recent if Position.of(change) > position]
            for change in later:
                if self._closed.is_set():
                    return
                yield change
                position = Position.of(change)
            if not later:
                await changed.wait()

    async def _caught_up(self, fragment: str, position: Position) -> list[Current]:
        """The next changes, once the database can be read: a stream outlives its absence."""
        while not self._closed.is_set():
            try:
                return await self._read(
                    self._reading, lambda tx: tx.changes.since(fragment, *position, _TAIL_MAX)
                )
            except sa.exc.SQLAlchemyError as error:
                self._away(error)
                await asyncio.sleep(INTERVAL_S)
        return []

    async def _poll(self) -> None:
        known = {name: tail.newest for name, tail in self._tails.items()}
        try:
            found = await self._read(self._polling, lambda tx: _later(tx, known))
        except sa.exc.SQLAlchemyError as error:
            self._away(error)
            return
        self._troubles.over("event streams")
        for name, changes in found.items():
            # Who listened may be gone meanwhile, and a new one may have come.
            tail = self._tails.get(name)
            if tail is not None and tail.newest == known[name]:
                tail.extend(changes)

    def _away(self, error: Exception) -> None:
        said = getattr(error, "orig", error)
        self._troubles.tell("event streams", f"the database cannot be read: {said}", logging.WARNING)

    async def _read(self, executor: ThreadPoolExecutor, read: Callable[[Transaction], T]) -> T:
        def reading() -> T:
            with self._database.reading() as tx:
                return read(tx)

        return await asyncio.get_running_loop().run_in_executor(executor, reading)


def _later(tx: Transaction, known: dict[str, Position]) -> dict[str, list[Current]]:
    """For each fragment that went on, what came after the known position."""
    newest = tx.changes.newest(known.keys())
    moved = [name for name, current in newest.items() if Position.of(current) > known[name]]
    return {name: _all_since(tx, name, known[name]) for name in moved}


def _all_since(tx: Transaction, name: str, position: Position) -> list[Current]:
    found: list[Current] = []
    while page := tx.changes.since(name, *position, _TAIL_MAX):
        found += page
        position = Position.of(page[-1])
    return found
