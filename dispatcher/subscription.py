"""A fragment's mapping, followed by one process of a job.

Two threads: one follows (`following.py`: etcd, else HTTP, else what is known), one reports (`reporting.py`: shows
life, acknowledges, accepts a new version while no batch is open). What they and the pins share is in `standing.py`;
what may be believed and told is decided in `view.py`.
"""

import atexit
import logging
import os
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import NoReturn, Self

from dispatcher.connection import Connection
from dispatcher.errors import (
    ServiceRefused,
    ServiceUnreachable,
    SubscriptionForked,
    SubscriptionNotPicklable,
)
from dispatcher.ledger import Ledger
from dispatcher.reporting import Reporter
from dispatcher.service import TIMEOUT_MS, Service
from dispatcher.standing import Adoption, Latest, Standing
from dispatcher.view import Role
from meta.mapping.publication import MappingVersion

log = logging.getLogger(__name__)


class Subscription:
    """Follows `fragment` of `service` (a URL, or a `Connection` shared by many) until `close`. Thread-safe.

    An *applier* is waited for: a version settles when it acknowledged it, so it must pin what it works by. A *reader*
    is never waited for and never accepts. With a `state_dir` the last version survives this process. `poll_ms` is for a
    URL, which is shown and trusted what the environment says; a `Connection` has its own. Raises `ServiceRefused` where
    the service knows no such fragment or wants another token. With the service or etcd away it starts by what is on
    disk. Past `staleness_limit_ms` without confirmation a warning is logged and `latest.stale` is true.
    """

    def __init__(
        self,
        service: str | Connection,
        fragment: str,
        *,
        name: str,
        role: Role = "applier",
        state_dir: Path | None = None,
        poll_ms: int = 2000,
        staleness_limit_ms: int = 60_000,
    ) -> None:
        self.id = str(uuid.uuid4())
        self.fragment = fragment
        self._process = os.getpid()
        self._standing = Standing(
            fragment, role, Ledger(state_dir, fragment), staleness_limit_ms=staleness_limit_ms
        )
        self._owned = ExitStack()
        if not isinstance(service, Connection):
            service = self._owned.enter_context(Connection(service, poll_ms=poll_ms))
        self._connection = service
        self._service = self._connection.service(fragment)
        self._reporter = Reporter(
            self._service,
            self._standing,
            fragment=fragment,
            subscriber=self.id,
            name=name,
            role=role,
            poll_ms=self._connection.poll_ms,
        )
        self._reporting: threading.Thread | None = None
        with ExitStack() as undo:
            undo.callback(self.close)
            self._start()
            undo.pop_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise SubscriptionNotPicklable(self.fragment)

    @property
    def service(self) -> Service:
        """The fragment at the service, for what its process tells besides."""
        self._require_process()
        return self._service

    @property
    def latest(self) -> Latest:
        """The newest version known, which need not be accepted yet. Raises `NoVersion`."""
        self._require_process()
        return self._standing.latest()

    @property
    def mapping(self) -> MappingVersion:
        """That version itself, which is what `dispatcher.scan.reader.scan` wants to know. Raises `NoVersion`."""
        return self.latest.mapping

    @property
    def history(self) -> tuple[Adoption, ...]:
        """The versions taken into use here, oldest first; the last 1,000."""
        self._require_process()
        return self._standing.history()

    def wait_for(self, version: int, timeout_ms: int) -> Latest:
        """Returns once `version` or a newer one is known. Raises `VersionNotSeen` (a `TimeoutError`)."""
        self._require_process()
        return self._standing.wait_for(version, timeout_ms)

    @contextmanager
    def pin(self) -> Iterator[MappingVersion]:
        """The version to work by until the block ends: the newest that may be used, the same throughout.

        While it is open nothing newer is acknowledged, so let it last a batch and not a job. A pin inside a pin of
        the same thread is of the same version; pins of several threads may differ, and the oldest counts. An
        applier's first pin of a version asks the service to accept it; where it cannot, the version before is pinned.
        Raises `NoVersion`, or `DigestConflict` once two histories were seen.
        """
        self._require_process()
        ticket = object()
        to_accept = self._standing.to_accept()
        if to_accept is not None:
            self._reporter.accept(to_accept)
        mapping = self._standing.open_pin(ticket)
        try:
            yield mapping
        finally:
            self._standing.close_pin(ticket)
            self._leave()

    def close(self) -> None:
        """Ends both threads and deregisters, in a few seconds at most.

        With pins open the last of them does so when it ends: until then the service hears that its version is in use.
        """
        if os.getpid() != self._process or not self._standing.close():
            return
        atexit.unregister(self.close)
        self._connection.unfollow(self._standing)
        self._leave()

    def _leave(self) -> None:
        # At the end of the process, a pin that was never closed lets the registration expire.
        if os.getpid() != self._process or sys.is_finalizing() or not self._standing.leave():
            return
        if self._reporting is not None:
            self._reporting.join()
        # Where the service is away the registration expires by itself.
        with suppress(ServiceUnreachable, ServiceRefused):
            self._service.deregister(self.id)
        self._owned.close()

    def _start(self) -> None:
        atexit.register(self.close)
        # Before any version is used: from here on the service waits for this applier.
        self._reporter.register()
        reporting = threading.Thread(
            target=self._report, name=f"vnodemap reporter of {self.fragment}", daemon=True
        )
        reporting.start()
        self._reporting = reporting
        self._connection.follow(self._standing)
        # So that the first pin is not needlessly of the version on disk.
        self._standing.wait_first_round(4 * TIMEOUT_MS)

    def _report(self) -> None:
        try:
            self._reporter.run()
        except Exception as failure:
            log.exception("fragment %s: the subscription stopped", self.fragment)
            self._standing.fail(failure)

    def _require_process(self) -> None:
        if os.getpid() != self._process:
            raise SubscriptionForked(self.fragment, self._process)
