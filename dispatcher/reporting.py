"""Telling the service about one subscriber: that it lives, what it acknowledges, what it wants to use."""

import logging
from typing import Protocol

from dispatcher.errors import DispatcherError, ServerRefused, ServerUnreachable
from dispatcher.server import Server
from dispatcher.view import Report, Role
from meta.mapping.publication import Phase

# A beat each third of a registration's life: two may be lost.
_BEATS_IN_LIFE = 3
_INTERVAL_MIN_MS = 50

log = logging.getLogger(__name__)


class Teller(Protocol):
    """Who knows what to tell; called in the reporter's thread."""

    def next_report(self, told: Report, interval_ms: int) -> Report | None:
        """Blocks until there is something else to tell than `told`, at most `interval_ms`. None ends the reports."""

    def accepted(self, version: int, phase: Phase) -> None: ...


class Reporter:
    """`run` reports until `next_report` says None."""

    def __init__(
        self,
        server: Server,
        teller: Teller,
        *,
        fragment: str,
        subscriber: str,
        name: str,
        role: Role,
        poll_ms: int,
    ) -> None:
        self._server = server
        self._teller = teller
        self._fragment = fragment
        self._subscriber = subscriber
        self._name = name
        self._role = role
        self._poll_ms = poll_ms
        self._interval_ms = poll_ms
        self._trouble: str | None = None
        self._unaccepted = 0

    def register(self) -> None:
        """The first beat, before any version is used. Raises `ServerRefused`; a service that is away is no error."""
        try:
            self._beat(None)
        except ServerUnreachable as error:
            self._log_trouble(error)

    def run(self) -> None:
        told = Report(acknowledge=None, accept=None)
        while (report := self._teller.next_report(told, self._interval_ms)) is not None:
            told = report
            # Where it was accepted there is more to acknowledge, in the next report.
            if told.accept is not None and self.accept(told.accept):
                continue
            try:
                self._beat(told.acknowledge)
            except (ServerUnreachable, ServerRefused) as error:
                self._log_trouble(error)
            if self._trouble or told.accept is not None:
                self._interval_ms = min(self._interval_ms, self._poll_ms)

    def accept(self, version: int) -> bool:
        """Whether the service lets `version` be used. From any thread."""
        try:
            phase = self._server.accept(version)
        except (ServerUnreachable, ServerRefused) as error:
            if version != self._unaccepted:
                self._unaccepted = version
                log.warning(
                    "fragment %s: version %d is not accepted, so the one before stays in use (%s)",
                    self._fragment,
                    version,
                    error,
                )
            return False
        self._teller.accepted(version, phase)
        return True

    def _beat(self, acknowledge: int | None) -> None:
        expires_in_ms = self._server.beat(self._subscriber, self._name, self._role, acknowledge)
        self._interval_ms = max(_INTERVAL_MIN_MS, expires_in_ms // _BEATS_IN_LIFE)
        if self._trouble is not None:
            self._trouble = None
            log.info("fragment %s: subscriber %s is registered again", self._fragment, self._name)

    def _log_trouble(self, error: DispatcherError) -> None:
        if self._trouble is None:
            log.warning("fragment %s: subscriber %s is not heard (%s)", self._fragment, self._name, error)
        self._trouble = str(error)
