"""From a publish to its subscribers, beside etcd itself: a bare put to the event of a watch.

Both are taken by turns in one process with one etcd. Then 200 subscribers over one connection: from the publish until
the last one is current. The last line is one JSON document.

    python -m benchmarks.publication --rounds 200 --subscribers 200
"""

import argparse
import json
import queue
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import httpx
from stamina.instrumentation import set_on_retry_hooks

from deploy.process import ServiceProcess
from dispatcher.connection import Connection
from dispatcher.subscription import Subscription
from meta.coordination.publisher import Outcome, Publisher
from meta.etcd.client import EtcdClient
from meta.mapping.plan import first_mapping, plan
from meta.mapping.publication import (
    DEFAULT_ROOT,
    Base,
    Current,
    MappingVersion,
    Phase,
    digest,
    encode_body,
)
from meta.mapping.unit import Unit
from storage_keys.hash import hash_id
from storage_keys.types import STRING

RATIO_MAX = 3.0
ALL_CURRENT_MS_MAX = 100.0
TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Published:
    current: Current
    body: bytes


class Fragment:
    """A fragment of a real service, whose next versions the benchmark publishes itself."""

    def __init__(self, http: httpx.Client, etcd: EtcdClient, name: str) -> None:
        worker = http.put(f"/v1/workers/{name}", json={"parallelism": 4}).raise_for_status().json()
        request = {
            "name": name,
            "distribution_key": [{"name": "k", "type": "string"}],
            "parallelism": 4,
        }
        http.post("/v1/fragments", json=request).raise_for_status()
        self.name = name
        self._publisher = Publisher(etcd, DEFAULT_ROOT)
        self._units = tuple(Unit(unit, name) for unit in worker["units"])
        self._mapping = first_mapping(256, self._units)
        self._version = 1

    def next(self) -> Published:
        """Settled at once; 3 and 4 units by turns, so that each version moves vnodes."""
        units = self._units[: 3 + self._version % 2]
        following = plan(self._mapping, units).mapping
        body = encode_body(
            MappingVersion(
                fragment=self.name,
                version=self._version + 1,
                hash_id=hash_id([STRING]),
                units=units,
                mapping=following,
                previous=Base(self._version, self._units, self._mapping),
            )
        )
        self._mapping, self._version = following, self._version + 1
        return Published(Current(self._version, Phase.SETTLED, digest(body)), body)

    def publish(self, published: Published) -> None:
        outcome = self._publisher.publish(self.name, published.current, published.body, lambda _version: None)
        assert outcome is Outcome.WRITTEN


def main() -> None:
    asked = _arguments()
    set_on_retry_hooks([])
    with _service() as (url, etcd), httpx.Client(base_url=url, timeout=30) as http:
        bare, published = _by_turns(url, http, etcd, asked.rounds)
        slowest = _all_current(url, http, etcd, asked.subscribers, asked.publishes)
    _report(asked, bare, published, slowest)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--subscribers", type=int, default=200)
    parser.add_argument("--publishes", type=int, default=20)
    return parser.parse_args()


@contextmanager
def _service() -> Iterator[tuple[str, EtcdClient]]:
    with (
        tempfile.TemporaryDirectory() as folder,
        ServiceProcess(Path(folder)) as service,
        ExitStack() as stack,
    ):
        (endpoint,) = httpx.get(f"{service.url}/v1/coordination").json()["etcd"]["endpoints"]
        yield service.url, stack.enter_context(EtcdClient([endpoint]))


def _by_turns(url: str, http: httpx.Client, etcd: EtcdClient, rounds: int) -> tuple[list[float], list[float]]:
    """Milliseconds of each bare put to its event, and of each publish to a subscriber that has it."""
    fragment = Fragment(http, etcd, "one")
    bare: list[float] = []
    published: list[float] = []
    with (
        Subscription(url, fragment.name, name="benchmark", role="reader") as subscription,
        _Bare(etcd) as put,
    ):
        subscription.wait_for(1, TIMEOUT_MS)
        for _ in range(rounds):
            bare.append(put.to_event_ms())
            following = fragment.next()
            started = time.perf_counter()
            fragment.publish(following)
            subscription.wait_for(following.current.version, TIMEOUT_MS)
            published.append((time.perf_counter() - started) * 1000)
    return bare, published


class _Bare:
    """A put of a body's size, and a watch in another thread that says when its event came."""

    def __init__(self, etcd: EtcdClient) -> None:
        self._etcd = etcd
        self._value = b"x" * 600
        self._events: queue.SimpleQueue[float] = queue.SimpleQueue()
        self._watch = etcd.watch("/benchmark", start_revision=etcd.put("/benchmark", b"") + 1)
        self._thread = threading.Thread(target=self._take, daemon=True)

    def __enter__(self) -> "_Bare":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._watch.close()
        self._thread.join()

    def to_event_ms(self) -> float:
        started = time.perf_counter()
        self._etcd.put("/benchmark", self._value)
        return (self._events.get(timeout=TIMEOUT_MS / 1000) - started) * 1000

    def _take(self) -> None:
        for _ in self._watch:
            self._events.put(time.perf_counter())


def _all_current(
    url: str, http: httpx.Client, etcd: EtcdClient, subscribers: int, publishes: int
) -> list[float]:
    """Milliseconds of each publish until the last of many subscribers has it."""
    fragment = Fragment(http, etcd, "many")
    slowest: list[float] = []
    with ExitStack() as stack:
        connection = stack.enter_context(Connection(url))
        following = [
            stack.enter_context(Subscription(connection, fragment.name, name=f"s{number}", role="reader"))
            for number in range(subscribers)
        ]
        for _ in range(publishes):
            upcoming = fragment.next()
            started_ms = time.time_ns() / 1e6
            fragment.publish(upcoming)
            for subscription in following:
                subscription.wait_for(upcoming.current.version, TIMEOUT_MS)
            # Not by who waits here: 200 threads to wake would be what is measured.
            adopted = [subscription.history[-1].adopted_at_ms for subscription in following]
            slowest.append(max(adopted) - started_ms)
    return slowest


def _report(
    asked: argparse.Namespace, bare: list[float], published: list[float], slowest: list[float]
) -> None:
    ratio = median(published) / median(bare)
    for name, taken in (
        ("etcd alone: put to watch event", bare),
        ("publish to subscriber", published),
        (f"publish to the last of {asked.subscribers}", slowest),
    ):
        tenths = quantiles(taken, n=10)
        print(f"{name:32} median {median(taken):7.2f} ms, p90 {tenths[-1]:7.2f}, worst {max(taken):7.2f}")
    print(
        f"ratio {ratio:.2f}, to be at most {RATIO_MAX}; all current within {ALL_CURRENT_MS_MAX:g} ms is the goal"
    )
    print(
        json.dumps(
            {
                "benchmark": "publication",
                "rounds": asked.rounds,
                "bare_ms": round(median(bare), 3),
                "publish_ms": round(median(published), 3),
                "ratio": round(ratio, 3),
                "ratio_max": RATIO_MAX,
                "subscribers": asked.subscribers,
                "all_current_ms": round(median(slowest), 2),
                "all_current_ms_worst": round(max(slowest), 2),
                "all_current_ms_max": ALL_CURRENT_MS_MAX,
            }
        )
    )


if __name__ == "__main__":
    main()
