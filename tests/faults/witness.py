"""Readers of every kind, who write down whatever they see that may not be."""

import hashlib
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

import httpx

from dispatcher.errors import NoVersion
from dispatcher.subscription import Subscription
from meta.etcd.client import EtcdClient
from meta.etcd.errors import EtcdError
from meta.etcd.reader import KeyReader, Unreachable
from meta.mapping.publication import Current, Phase, current_key, version_key

POLL_S = 0.05


@dataclass
class Testimony:
    """What all witnesses of one fragment saw, put together. Thread-safe."""

    violations: list[str] = field(default_factory=list)
    digests: dict[int, str] = field(default_factory=dict)
    sightings: dict[str, list[tuple[int, Phase | None]]] = field(default_factory=dict)
    _changing: threading.RLock = field(default_factory=threading.RLock)

    def saw(self, witness: str, version: int, phase: Phase | None = None) -> bool:
        """Whether this is news. What goes backwards is a violation."""
        with self._changing:
            seen = self.sightings.setdefault(witness, [])
            if seen and seen[-1] == (version, phase):
                return False
            if seen and _order(seen[-1]) >= _order((version, phase)):
                self.violates(f"{witness} went back from {seen[-1]} to {(version, phase)}")
            seen.append((version, phase))
            return True

    def saw_digest(self, witness: str, version: int, digest: str) -> None:
        with self._changing:
            if (known := self.digests.setdefault(version, digest)) != digest:
                self.violates(f"{witness}: the digest of version {version} was {known} and is {digest}")

    def violates(self, what: str) -> None:
        with self._changing:
            self.violations.append(what)

    def last_seen_by(self, witness: str) -> tuple[int, Phase | None] | None:
        with self._changing:
            seen = self.sightings.get(witness)
            return seen[-1] if seen else None


def _order(seen: tuple[int, Phase | None]) -> tuple[int, int]:
    version, phase = seen
    return version, phase.rank if phase else 0


class Thread:
    """Runs `step` again and again, from `with` to its end; what it raises is a violation."""

    def __init__(self, name: str, testimony: Testimony, step: Callable[[], None], pause_s: float) -> None:
        self._name = name
        self._testimony = testimony
        self._step = step
        self._pause_s = pause_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self._step()
            except Exception as error:
                self._testimony.violates(f"{self._name} failed: {error!r}")
                return
            self._stopped.wait(self._pause_s)


@dataclass
class HttpReader:
    """Reads `current` at one replica after the other, as a client behind a balancer does."""

    name = "HTTP"
    urls: list[str]
    fragment: str
    testimony: Testimony

    def __post_init__(self) -> None:
        self._clients = [httpx.Client(base_url=url, timeout=2, trust_env=False) for url in self.urls]

    def step(self) -> None:
        for client in self._clients:
            with suppress(httpx.TransportError):
                self._read(client)

    def close(self) -> None:
        for client in self._clients:
            client.close()

    def _read(self, client: httpx.Client) -> None:
        answer = client.get(f"/v1/fragments/{self.fragment}/current")
        if answer.status_code != httpx.codes.OK:
            assert answer.status_code >= 500, answer.text
            assert answer.headers["content-type"] == "application/problem+json", answer.text
            return
        current = Current.decode(answer.content)
        if self.testimony.saw(self.name, current.version, current.phase):
            self.testimony.saw_digest(self.name, current.version, current.digest)
            body = client.get(f"/v1/fragments/{self.fragment}/versions/{current.version}/body")
            if body.status_code == httpx.codes.OK:
                digest = hashlib.sha256(body.content).hexdigest()
                self.testimony.saw_digest(f"{self.name}, body", current.version, digest)


class EtcdReader:
    """Watches and polls the published `current`, and reads each version's body."""

    name = "etcd"

    def __init__(self, endpoint: str, fragment: str, testimony: Testimony) -> None:
        self._fragment = fragment
        self._testimony = testimony
        self._client = EtcdClient([endpoint], timeout_ms=1_000)
        self._reader = KeyReader(self._client, current_key(fragment), poll_ms=100, away_ms=100)
        self._thread = threading.Thread(target=self._run, name=self.name)
        self.vanished = 0
        self._thread.start()

    def close(self) -> None:
        self._reader.close()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            for fact in self._reader:
                if not isinstance(fact, Unreachable):
                    self._read(fact.value.value if fact.value else None)
        except Exception as error:
            self._testimony.violates(f"{self.name} failed: {error!r}")

    def _read(self, value: bytes | None) -> None:
        if value is None:
            self.vanished += 1
            return
        current = Current.decode(value)
        if not self._testimony.saw(self.name, current.version, current.phase):
            return
        self._testimony.saw_digest(self.name, current.version, current.digest)
        with suppress(EtcdError):
            body = self._client.get(version_key(self._fragment, current.version))
            # It may have been wiped since.
            if body is not None:
                digest = hashlib.sha256(body.value).hexdigest()
                self._testimony.saw_digest(f"{self.name}, body", current.version, digest)


@dataclass
class Job:
    """A real applier with a batch open most of the time, and what it works by."""

    name = "applier"
    subscription: Subscription
    testimony: Testimony

    def step(self) -> None:
        with self.subscription.pin() as mapping:
            self.testimony.saw(self.name, mapping.version)


@dataclass
class Reader:
    """A real reader, that is never waited for."""

    name = "reader"
    subscription: Subscription
    testimony: Testimony

    def step(self) -> None:
        with suppress(NoVersion):
            latest = self.subscription.latest
            self.testimony.saw(self.name, latest.mapping.version, latest.phase)
