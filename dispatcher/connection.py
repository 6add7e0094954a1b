"""One service and the etcd that it publishes through, as all subscriptions of a process may share them."""

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import NoReturn, Self

from dispatcher.access import Access
from dispatcher.errors import ConnectionForked, ConnectionNotPicklable
from dispatcher.following import Follower
from dispatcher.service import TIMEOUT_MS, Service, open_http
from dispatcher.standing import Standing
from meta.etcd.connection import Credentials, Tls


class Connection:
    """What `Subscription(connection, ...)` shares with others: the HTTP client and, for each fragment, one watch.

    With many subscriptions in one process, open one connection, hand it to each, and close it after them. `token`,
    `ca_file` (whom to trust as the service), `etcd_tls` and `etcd_credentials` default to the environment: see
    `Access.given`. An etcd that wants more than that is not read; subscriptions follow over HTTP then. Thread-safe.
    """

    def __init__(
        self,
        service: str,
        *,
        token: str | None = None,
        ca_file: Path | None = None,
        etcd_tls: Tls | None = None,
        etcd_credentials: Credentials | None = None,
        poll_ms: int = 2000,
    ) -> None:
        self.poll_ms = poll_ms
        self._process = os.getpid()
        self._url = service.rstrip("/")
        self._access = Access.given(token, ca_file, etcd_tls, etcd_credentials)
        self._http = open_http(self._url, self._access, timeout_ms=TIMEOUT_MS)
        self._changing = threading.Lock()
        self._followers: dict[str, Follower] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise ConnectionNotPicklable(self._url)

    def service(self, fragment: str) -> Service:
        """Raises `ConnectionForked`."""
        if os.getpid() != self._process:
            raise ConnectionForked(self._url, self._process)
        return Service(self._http, self._url, fragment)

    def follow(self, standing: Standing) -> None:
        """Until `unfollow`, `standing` takes what is published."""
        with self._changing:
            known = self._followers.get(standing.fragment)
            if known is not None and known.add(standing):
                return
            # The first one, or one in the place of one that failed.
            follower = Follower(
                self.service(standing.fragment),
                standing,
                access=self._access,
                poll_ms=self.poll_ms,
                timeout_ms=TIMEOUT_MS,
            )
            follower.start()
            self._followers[standing.fragment] = follower

    def unfollow(self, standing: Standing) -> None:
        """The last one of a fragment ends its watch, in a few seconds at most."""
        with self._changing:
            follower = self._followers.get(standing.fragment)
            if follower is None or follower.remove(standing):
                return
            del self._followers[standing.fragment]
        follower.stop()

    def close(self) -> None:
        self._http.close()
