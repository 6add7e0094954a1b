"""Telling the service about one subscriber: that it lives, what it acknowledges, what it wants to use."""

import logging

from dispatcher.errors import DispatcherError, ServiceRefused, ServiceUnreachable, WrongBody
from dispatcher.service import Service
from dispatcher.standing import Standing
from dispatcher.view import Report, Role, Source
from meta.mapping.errors import MalformedPublication

# A beat each third of a registration's life: two may be lost.
_BEATS_IN_LIFE = 3
_INTERVAL_MIN_MS = 50

log = logging.getLogger(__name__)


class Reporter:
    """`run` reports until `next_report` says None."""

    def __init__(
        self,
        service: Service,
        standing: Standing,
        *,
        fragment: str,
        subscriber: str,
        name: str,
        role: Role,
        poll_ms: int,
    ) -> None:
        self._service = service
        self._standing = standing
        self._fragment = fragment
        self._subscriber = subscriber
        self._name = name
        self._role = role
        self._poll_ms = poll_ms
        self._interval_ms = poll_ms
        self._trouble: str | None = None
        self._unaccepted = 0
        self._unread = 0

    def register(self) -> None:
        """The first beat, before any version is used. Raises `ServiceRefused`; a service that is away is no error."""
        try:
            self._beat(None)
        except ServiceUnreachable as error:
            self._log_trouble(error)

    def run(self) -> None:
        told = Report(acknowledge=None, accept=None)
        while (report := self._standing.next_report(told, self._interval_ms)) is not None:
            told = report
            # Where it was accepted there is more to acknowledge, in the next report.
            if told.accept is not None and self.accept(told.accept):
                continue
            try:
                self._beat(told.acknowledge)
            except (ServiceUnreachable, ServiceRefused) as error:
                self._log_trouble(error)
            if self._trouble or told.accept is not None:
                self._interval_ms = min(self._interval_ms, self._poll_ms)

    def accept(self, version: int) -> bool:
        """Whether the service lets `version` be used. From any thread."""
        try:
            phase = self._service.accept(version)
        except (ServiceUnreachable, ServiceRefused) as error:
            if version != self._unaccepted:
                self._unaccepted = version
                log.warning(
                    "fragment %s: version %d is not accepted, so the one before stays in use (%s)",
                    self._fragment,
                    version,
                    error,
                )
            return False
        self._standing.accepted(version, phase)
        return True

    def _beat(self, acknowledge: int | None) -> None:
        registration = self._service.beat(self._subscriber, self._name, self._role, acknowledge)
        self._interval_ms = max(_INTERVAL_MIN_MS, registration.expires_in_ms // _BEATS_IN_LIFE)
        if self._trouble is not None:
            self._trouble = None
            log.info("fragment %s: subscriber %s is registered again", self._fragment, self._name)
        if registration.current_version is not None and registration.current_version > self._standing.newest:
            self._read(registration.current_version)

    def _read(self, version: int) -> None:
        """From the service: an etcd that answers may be behind, and the follower would believe it."""
        try:
            self._standing.take(Source.HTTP, self._service.current(), self._service.body)
        except (ServiceUnreachable, ServiceRefused, WrongBody, MalformedPublication) as error:
            if version != self._unread:
                self._unread = version
                log.warning("fragment %s: version %d cannot be read (%s)", self._fragment, version, error)

    def _log_trouble(self, error: DispatcherError) -> None:
        if self._trouble is None:
            log.warning("fragment %s: subscriber %s is not heard (%s)", self._fragment, self._name, error)
        self._trouble = str(error)
