"""What one subscription knows and uses, shared by its two threads and its pins under one lock.

The rules are in `view.py`; here they meet time, the disk and the threads that wait for a change.
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from dispatcher import view as rules
from dispatcher.errors import NoVersion, SubscriptionClosed, VersionNotSeen
from dispatcher.ledger import Coordination, Entry, Ledger
from dispatcher.view import Report, Role, Source, View
from meta.mapping.publication import Current, MappingVersion, Phase

HISTORY_MAX = 1000

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest version known, confirmed by `source` `age_ms` ago; `stale` past the subscription's limit."""

    mapping: MappingVersion
    phase: Phase
    source: Source
    age_ms: int
    stale: bool


@dataclass(frozen=True, slots=True)
class Adoption:
    """When a version was first pinned here, or adopted while no pin was open; ms since the epoch."""

    version: int
    adopted_at_ms: int


@dataclass(frozen=True, slots=True)
class _Pin:
    mapping: MappingVersion
    thread: int


class Standing:
    """Thread-safe. After `close` nobody waits here any more, but for the reporter while a pin is open."""

    def __init__(self, fragment: str, role: Role, ledger: Ledger, *, staleness_limit_ms: int) -> None:
        self.fragment = fragment
        self._role = role
        self._ledger = ledger
        self._staleness_limit_ms = staleness_limit_ms
        last = ledger.load(_now_ms())

        self._changed = threading.Condition()
        # Guarded by it:
        self._coordination = last.coordination if last else None
        self._view = last.view if last else None
        self._pins: dict[object, _Pin] = {}
        self._history: deque[Adoption] = deque(maxlen=HISTORY_MAX)
        self._followed = False
        self._trouble: str | None = "nothing was read yet"
        self._told_stale = False
        self._failure: Exception | None = None
        self._closed = False
        self._left = False

    # For the subscription.

    def latest(self) -> Latest:
        with self._changed:
            return self._latest()

    def history(self) -> tuple[Adoption, ...]:
        with self._changed:
            return tuple(self._history)

    def wait_for(self, version: int, timeout_ms: int) -> Latest:
        with self._changed:
            if not self._changed.wait_for(lambda: self._ended or self._newest >= version, timeout_ms / 1000):
                newest = self._newest or None
                raise VersionNotSeen(self.fragment, version, newest=newest, waited_ms=timeout_ms)
            return self._latest()

    def wait_first_round(self, timeout_ms: int) -> None:
        """Until the sources were asked once, whatever they said."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._followed, timeout_ms / 1000)

    def to_accept(self) -> int | None:
        """The version that this thread's next pin may use if it is accepted first."""
        with self._changed:
            self._require_alive()
            return None if self._outer_pin() else rules.report(self._view, (), self._role).accept

    def open_pin(self, ticket: object) -> MappingVersion:
        """Of the version that an open pin of this thread has, else of the newest usable one. Raises `NoVersion`."""
        with self._changed:
            self._require_alive()
            mapping = self._outer_pin() or (self._view.usable if self._view else None)
            if mapping is None:
                reason = self._trouble or f"version {self._newest} is not accepted yet"
                raise NoVersion(self.fragment, reason)
            self._pins[ticket] = _Pin(mapping, threading.get_ident())
            self._note_use(mapping.version)
            return mapping

    def close_pin(self, ticket: object) -> None:
        with self._changed:
            del self._pins[ticket]
            self._note_use()

    def fail(self, failure: Exception) -> None:
        """`failure` is raised to whoever asks from now on: the view is dead."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()

    def close(self) -> bool:
        """Whether it was open."""
        with self._changed:
            was_open, self._closed = not self._closed, True
            self._changed.notify_all()
            return was_open

    def leave(self) -> bool:
        """True once: after `close`, as soon as no pin is open."""
        with self._changed:
            leaves = self._over and not self._left
            self._left = self._left or leaves
            return leaves

    # For the follower.

    @property
    def coordination(self) -> Coordination | None:
        """Where etcd is, by the last `coordinated`, which may have been another process's."""
        return self._coordination

    def coordinated(self, coordination: Coordination) -> None:
        with self._changed:
            self._coordination = coordination

    def round_ended(self, trouble: str | None) -> None:
        """After every round; `trouble` says why no source confirmed anything."""
        with self._changed:
            self._trouble = trouble
            self._followed = True
            self._changed.notify_all()
            self._log_staleness()

    # For the follower and the reporter.

    def take(self, source: Source, current_bytes: bytes, body_of: Callable[[int], bytes]) -> bool:
        """Takes what `source` publishes, by the rules; whether that confirms that nothing newer than known exists.

        Raises `MalformedPublication`, `WrongBody`, `DigestConflict`, and what `body_of` does.
        """
        current = Current.decode(current_bytes)
        view = self._view
        if view is None or rules.needs_body(view, current):
            newest = rules.checked_body(self.fragment, current, body_of(current.version))
        else:
            newest = view.newest
        with self._changed:
            # Not `view`, which may have grown meanwhile: then `current` is of the past, or `newest` is its body.
            taken = rules.taken(self._view, newest, current, source, _now_ms())
            self._believe(taken)
        return rules.confirms(taken, current)

    # For the reporter.

    @property
    def newest(self) -> int:
        """The newest version known, 0 where there is none."""
        with self._changed:
            return self._newest

    def next_report(self, told: Report, interval_ms: int) -> Report | None:
        """Blocks until there is something else to tell than `told`, at most `interval_ms`. None ends the reports.

        Nobody waits for a reader, so what it has to tell goes with its next beat.
        """
        with self._changed:
            self._changed.wait_for(
                lambda: self._over or (self._role == "applier" and self._report() != told), interval_ms / 1000
            )
            return None if self._over else self._report()

    def accepted(self, version: int, phase: Phase) -> None:
        """The service let `version` be used."""
        with self._changed:
            assert self._view is not None
            self._believe(rules.accepted(self._view, version, phase))

    # Under the lock.

    def _believe(self, view: View) -> None:
        if view is self._view:
            return
        # Before any pin can see it: what was pinned once must be known after a crash.
        self._ledger.keep(Entry(view, self._coordination))
        self._view = view
        self._note_use()

    def _note_use(self, pinned: int | None = None) -> None:
        """After the view or the pins changed."""
        used = pinned or (None if self._over else self._report().acknowledge)
        if used is not None and (not self._history or used > self._history[-1].version):
            self._history.append(Adoption(used, time.time_ns() // 1_000_000))
        self._changed.notify_all()

    def _report(self) -> Report:
        pinned = [pin.mapping.version for pin in self._pins.values()]
        # After a failure nothing new is used, so nothing new is accepted.
        role = self._role if self._failure is None else "reader"
        return rules.report(self._view, pinned, role)

    def _outer_pin(self) -> MappingVersion | None:
        thread = threading.get_ident()
        return next((pin.mapping for pin in self._pins.values() if pin.thread == thread), None)

    @property
    def _newest(self) -> int:
        return self._view.newest.version if self._view else 0

    @property
    def _over(self) -> bool:
        """Whether nothing is in use any more, nor ever will be."""
        return self._closed and not self._pins

    @property
    def _ended(self) -> bool:
        return self._closed or self._failure is not None

    def _require_alive(self) -> None:
        if self._closed:
            raise SubscriptionClosed(self.fragment)
        if self._failure is not None:
            raise self._failure

    def _latest(self) -> Latest:
        self._require_alive()
        view = self._view
        if view is None:
            raise NoVersion(self.fragment, self._trouble or "nothing was read yet")
        age_ms = view.age_ms(_now_ms())
        return Latest(view.newest, view.current.phase, view.source, age_ms, age_ms > self._staleness_limit_ms)

    def _log_staleness(self) -> None:
        age_ms = self._view.age_ms(_now_ms()) if self._view else 0
        stale = age_ms > self._staleness_limit_ms
        if stale and not self._told_stale:
            log.warning(
                "fragment %s: version %d was last confirmed %d ms ago, the limit is %d ms (%s)",
                self.fragment,
                self._newest,
                age_ms,
                self._staleness_limit_ms,
                self._trouble,
            )
        self._told_stale = stale


def _now_ms() -> int:
    return time.monotonic_ns() // 1_000_000
