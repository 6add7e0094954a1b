"""A level-triggered reader of one key: it reads now and then anyway; a watch only brings what changed sooner."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from meta.etcd.client import EtcdClient
from meta.etcd.errors import EtcdError
from meta.etcd.values import Change, KeyValue
from meta.etcd.watch import Watch


@dataclass(frozen=True, slots=True)
class Reading:
    """What the key held (None: no such key) when the store was at `revision`.

    `beside`: other watched keys that the same revision wrote, where a watch brought this reading.
    """

    value: KeyValue | None
    revision: int
    cluster_id: int
    beside: Mapping[str, bytes] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class Unreachable:
    """The key could not be read, and why."""

    reason: EtcdError


class KeyReader:
    """A blocking iterator of `Reading` and `Unreachable`, one for each attempt to read, until it is closed.

    A reading comes at once when the key changes, and every `poll_ms` in any case, so the same value comes
    again: the time since the last reading is what its user may be stale by. Of several changes at once the newest
    comes. While the store is away it is tried every `away_ms`. Facts only: when etcd loses its data, the revision and
    what the key holds may go back. With `under`, a prefix of the key, the watch is on all keys under it, for the sake
    of `Reading.beside`. To be iterated by one thread; `close` may come from any. Close it before its client.
    """

    def __init__(
        self,
        client: EtcdClient,
        key: str,
        *,
        under: str | None = None,
        poll_ms: int = 3_000,
        away_ms: int = 500,
    ) -> None:
        self._client = client
        self._key = key
        self._under = under
        self._poll_ms = poll_ms
        self._away_ms = away_ms
        self._wake = threading.Event()
        self._closed = threading.Event()
        self._last: Reading | None = None
        self._change: Change | None = None
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
            fact = self._changed() or self._read()
            yield fact
            self._wake.wait((self._poll_ms if isinstance(fact, Reading) else self._away_ms) / 1000)
            self._wake.clear()

    def read_now(self) -> None:
        """From any thread: a reading comes soon, whatever `poll_ms` is."""
        self._wake.set()

    def close(self) -> None:
        """End the iteration and the watch."""
        self._closed.set()
        self._wake.set()
        self._stop_watching()

    def _changed(self) -> Reading | None:
        """What the watch brought since the last reading, if it says what the key holds."""
        change, self._change = self._change, None
        last = self._last
        # A read may have overtaken it.
        if change is None or last is None or change.revision <= last.revision:
            return None
        written = {event.key: event for event in change.events if isinstance(event, KeyValue)}
        value = written.pop(self._key, None)
        if value is None:
            return None
        beside = {key: event.value for key, event in written.items()}
        self._last = Reading(value, change.revision, last.cluster_id, beside)
        return self._last

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
            start_revision = reading.revision + 1
            watch = (
                self._client.watch(self._key, start_revision=start_revision)
                if self._under is None
                else self._client.watch(self._under, start_revision=start_revision, prefix=True)
            )
            follower = threading.Thread(target=self._wake_on, args=(watch,), daemon=True)
            # Started before `close`, which may come now, can see and join it.
            follower.start()
            self._watch, self._follower = watch, follower
        if self._closed.is_set():
            self._stop_watching()

    def _wake_on(self, watch: Watch) -> None:
        # Whatever ends the watch, the next read says what is the case and watches anew.
        with watch, suppress(EtcdError):
            for change in watch:
                if any(event.key == self._key for event in change.events):
                    self._change = change
                    self._wake.set()
        # A watch that never stood would not stand now: to try at once would be a busy loop.
        if not watch.confirmed:
            self._closed.wait(self._away_ms / 1000)
        self._wake.set()

    def _stop_watching(self) -> None:
        if self._watch and self._follower:
            self._watch.close()
            self._follower.join()
            self._change = None
