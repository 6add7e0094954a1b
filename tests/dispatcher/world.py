"""A service over an etcd that does not die with it, for tests that kill either."""

import os
import shutil
import signal
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx

from deploy.process import ServiceProcess
from dispatcher.subscription import Subscription
from dispatcher.view import Role
from meta.coordination.embedded import EmbeddedEtcd
from meta.etcd.client import EtcdClient
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import (
    Base,
    Current,
    MappingVersion,
    Phase,
    current_key,
    decode_body,
    digest,
    encode_body,
    version_key,
)

POLL_MS = 200
SOON_MS = 10_000
# An expiry that a busy machine does not miss, with a beat each second.
OFTEN_MS = 3_000

Eventually = Callable[[Callable[[], None]], None]


class World:
    """A service over an etcd that does not die with it."""

    def __init__(self, folder: Path, open_in: ExitStack, eventually: Eventually) -> None:
        self.eventually = eventually
        self.etcd_dir = folder / "etcd"
        self.etcd = open_in.enter_context(EmbeddedEtcd.start(self.etcd_dir))
        self.etcd_client = open_in.enter_context(EtcdClient([self.etcd.endpoint]))
        self.service = open_in.enter_context(ServiceProcess(folder / "service", self.etcd.endpoint))
        self.http = open_in.enter_context(httpx.Client(base_url=self.service.url, trust_env=False))
        self.http.put("/v1/workers/w1", json={"parallelism": 4}).raise_for_status()
        self._names = (f"flights-{number}" for number in count(1))

    def restore(self) -> None:
        """Everything runs again, after a test that killed something."""
        self.etcd.restart_if_dead()
        try:
            self.http.get("/v1/health")
        except httpx.TransportError:
            self.service.start()

    def kill_etcd(self) -> None:
        assert self.etcd.pid is not None
        os.kill(self.etcd.pid, signal.SIGKILL)
        self.eventually(self.check_etcd_is_dead)

    def check_etcd_is_dead(self) -> None:
        assert not self.etcd.alive()

    def wipe_etcd(self) -> None:
        """etcd starts again at the same place with nothing."""
        self.kill_etcd()
        shutil.rmtree(self.etcd_dir / "data")
        self.etcd.restart_if_dead()

    def fragment(self, *, applier_timeout_ms: int = 10_000) -> str:
        """A fragment on two units, at version 1."""
        name = next(self._names)
        document = {
            "name": name,
            "vnode_count": 8,
            "distribution_key": [{"name": "tailnum", "type": "string"}],
            "parallelism": 2,
            "applier_timeout_ms": applier_timeout_ms,
        }
        self.http.post("/v1/fragments", json=document).raise_for_status()
        return name

    def rescale(self, fragment: str, parallelism: int) -> int:
        """Applies a plan; returns the version, which need not have settled."""
        plan = self.http.post(f"/v1/fragments/{fragment}/plans", json={"parallelism": parallelism})
        applied = self.http.post("/v1/rescales", json={"token": plan.raise_for_status().json()["token"]})
        return int(applied.raise_for_status().json()["version"])

    def subscribe(
        self, fragment: str, *, role: Role = "applier", state_dir: Path | None = None
    ) -> Subscription:
        return Subscription(
            self.service.url, fragment, name="a job", role=role, state_dir=state_dir, poll_ms=POLL_MS
        )

    def subscribers(self, fragment: str) -> dict[str, Any]:
        listed = self.http.get(f"/v1/fragments/{fragment}/subscribers").raise_for_status().json()
        return {subscriber["id"]: subscriber for subscriber in listed["items"]}

    def acknowledged(self, subscription: Subscription) -> int | None:
        found = self.subscribers(subscription.fragment)[subscription.id]["acknowledged_version"]
        return None if found is None else int(found)

    def await_beat(self, subscription: Subscription) -> None:
        """Until the service heard of the subscriber once more."""

        def seen_at_ms() -> int:
            return int(self.subscribers(subscription.fragment)[subscription.id]["seen_at_ms"])

        before_ms = seen_at_ms()
        self.eventually(lambda: check(seen_at_ms() > before_ms))

    def phase(self, fragment: str) -> str:
        return str(self.http.get(f"/v1/fragments/{fragment}").raise_for_status().json()["phase"])

    def published(self, fragment: str, version: int) -> bytes:
        path = f"/v1/fragments/{fragment}/versions/{version}/body"
        return self.http.get(path).raise_for_status().content

    def publish(self, version: MappingVersion, phase: Phase) -> None:
        """Publishes behind the service's back."""
        body = encode_body(version)
        current = Current(version.version, phase, digest(body))
        self.etcd_client.put(version_key(version.fragment, version.version), body)
        self.etcd_client.put(current_key(version.fragment), current.encode())


def next_version(body: bytes) -> MappingVersion:
    """The version after the one in `body`: the vnodes change places."""
    base = decode_body(body)
    moved = base.mapping.owners[::-1]
    return MappingVersion(
        base.fragment,
        base.version + 1,
        base.hash_id,
        base.units,
        VnodeMapping(moved),
        Base(base.version, base.units, base.mapping),
    )


def refused_version(body: bytes) -> MappingVersion:
    """One more that no service takes for its own: its units are said to be on a worker that is not theirs."""
    version = next_version(body)
    assert version.previous is not None
    elsewhere = tuple(replace(unit, worker="w-elsewhere") for unit in version.units)
    return replace(version, units=elsewhere, previous=replace(version.previous, units=elsewhere))


def check(holds: bool) -> None:
    assert holds


def check_equal(found: object, wanted: object) -> None:
    assert found == wanted


def check_in(part: Any, whole: Any) -> None:
    assert part in whole
