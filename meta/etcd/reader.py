"""A level-triggered reader of one key: it reads now and then anyway; a watch only makes it read sooner."""

import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from meta.etcd.client import EtcdClient
from meta.etcd.errors import EtcdError
from meta.etcd.values import KeyValue
from meta.etcd.watch import Watch


@dataclass(frozen=True, slots=True)
class Reading:
    """What the key held (None: no such key) when the store was at `revision`."""

    value: KeyValue | None
    revision: int
    cluster_id: int


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The key could not be read, and why."""

    reason: EtcdError


class KeyReader:
    """A blocking iterator of `Reading` and `Unreachable`, one for each attempt to read, until it is closed.

    A reading comes at once when the key changes, and every `poll_ms` in any case, so the same value comes
    again: the time since the last reading is what its user may be stale by. While the store is away it is tried
    every `away_ms`. Facts only: when etcd loses its data, the revision and what the key holds may go back. To
    be iterated by one thread; `close` may come from any. Close it before its client.
    """

    def __init__(self, client: EtcdClient, key: str, *, poll_ms: int = 3_000, away_ms: int = 500) -> None:
        self._client = client
        self._key = key
        self._poll_ms = poll_ms
        self._away_ms = away_ms
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._last: Reading | None = None
        self._watch: Watch | None = None
        self._follower: threading.Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __iter__(self) -> Iterator[Reading | Unreachable]:
        while not self._closed.is_set():
            fact = self._read()
            yield fact
            self._wake.wait((self._poll_ms if isinstance(fact, Reading) else self._away_ms) / 1000)
            self._wake.clear()

    def close(self) -> None:
        """End the iteration and the watch."""
        self._closed.set()
        self._wake.set()
        self._stop_watching()

    def _read(self) -> Reading | Unreachable:
        try:
            snapshot = self._client.read(self._key)
        except EtcdError as reason:
            return Unreachable(reason)
        value = snapshot.values[0] if snapshot.values else None
        reading = Reading(value, snapshot.revision, snapshot.cluster_id)
        self._follow(reading)
        return reading

    def _follow(self, reading: Reading) -> None:
        """Have a watch on what comes after `reading`."""
        last, self._last = self._last, reading
        # etcd lost its data: a watch from a revision of before would be silent, without an error.
        if last and (reading.revision < last.revision or reading.cluster_id != last.cluster_id):
            self._stop_watching()
        if self._watch is None or self._watch.closed:
            watch = self._client.watch(self._key, start_revision=reading.revision + 1)
            follower = threading.Thread(target=self._wake_on, args=(watch,), daemon=True)
            # Started before `close`, which may come now, can see and join it.
            follower.start()
            self._watch, self._follower = watch, follower
        if self._closed.is_set():
            self._stop_watching()

    def _wake_on(self, watch: Watch) -> None:
        # Whatever ends the watch, the next read says what is the case and watches anew.
        with watch, suppress(EtcdError):
            for _ in watch:
                self._wake.set()
        # A watch that never stood would not stand now: to try at once would be a busy loop.
        if not watch.confirmed:
            self._closed.wait(self._away_ms / 1000)
        self._wake.set()

    def _stop_watching(self) -> None:
        if self._watch and self._follower:
            self._watch.close()
            self._follower.join()
