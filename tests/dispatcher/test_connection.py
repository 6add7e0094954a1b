"""Many subscriptions over one connection: they share a watch, and each is on its own otherwise."""

import pickle
import threading
from collections.abc import Callable, Iterator

import httpx
import pytest

from deploy.process import ServiceProcess
from dispatcher.audience import Audience
from dispatcher.connection import Connection
from dispatcher.errors import ConnectionNotPicklable, ConnectionSaysItself, DigestConflict
from dispatcher.ledger import Ledger
from dispatcher.standing import Standing
from dispatcher.subscription import Subscription
from dispatcher.view import Source
from meta.mapping.plan import first_mapping
from meta.mapping.publication import Current, MappingVersion, Phase, digest, encode_body
from meta.mapping.unit import Unit

SOON_MS = 10_000


@pytest.fixture
def http(shared_service: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=shared_service.url, timeout=30) as client:
        yield client


@pytest.fixture
def fragment(http: httpx.Client, name: str) -> str:
    """On two of the three units of its worker."""
    http.put(f"/v1/workers/{name}", json={"parallelism": 3}).raise_for_status()
    key = [{"name": "tailnum", "type": "string"}]
    request = {"name": name, "distribution_key": key, "parallelism": 2}
    http.post("/v1/fragments", json=request).raise_for_status()
    return name


@pytest.fixture
def connection(shared_service: ServiceProcess) -> Iterator[Connection]:
    with Connection(shared_service.url) as opened:
        yield opened


def rescaled(http: httpx.Client, fragment: str, parallelism: int) -> int:
    planned = http.post(f"/v1/fragments/{fragment}/plans", json={"parallelism": parallelism})
    token = planned.raise_for_status().json()["token"]
    return int(http.post("/v1/rescales", json={"token": token}).raise_for_status().json()["version"])


def followers(fragment: str) -> list[str]:
    return [
        thread.name for thread in threading.enumerate() if thread.name.endswith(f"follower of {fragment}")
    ]


def test_they_share_one_watch_and_each_has_every_version(
    http: httpx.Client, fragment: str, connection: Connection
) -> None:
    first, second, third = (
        Subscription(connection, fragment, name=name, role="reader") for name in ("one", "two", "three")
    )
    assert len(followers(fragment)) == 1
    version = rescaled(http, fragment, 3)
    for subscription in (first, second, third):
        assert subscription.wait_for(version, SOON_MS).mapping.version == version

    first.close()
    version = rescaled(http, fragment, 2)
    assert second.wait_for(version, SOON_MS).mapping.version == version
    late = Subscription(connection, fragment, name="late", role="reader")
    assert late.latest.mapping.version == version, "it need not wait for the next change or look"

    for subscription in (second, third, late):
        subscription.close()
    assert followers(fragment) == []


def test_an_applier_among_readers_is_waited_for(
    http: httpx.Client, fragment: str, connection: Connection, eventually: Callable[..., None]
) -> None:
    with (
        Subscription(connection, fragment, name="reader", role="reader"),
        Subscription(connection, fragment, name="job") as job,
    ):
        with job.pin() as pinned:
            version = rescaled(http, fragment, 3)
            job.wait_for(version, SOON_MS)
            progress = http.get(f"/v1/fragments/{fragment}/progress").json()
            assert (pinned.version, [each["name"] for each in progress["waiting_for"]]) == (1, ["job"])

        def settled() -> None:
            assert http.get(f"/v1/fragments/{fragment}").json()["phase"] == "settled"

        eventually(settled)


def standing(fragment: str) -> Standing:
    return Standing(fragment, "reader", Ledger(None, fragment), staleness_limit_ms=SOON_MS)


def published(fragment: str, hash_id: str) -> tuple[bytes, bytes]:
    """`current` and the body of a version 1."""
    units = (Unit(1, "w"), Unit(2, "w"))
    body = encode_body(MappingVersion(fragment, 1, hash_id, units, first_mapping(8, units)))
    return Current(1, Phase.SETTLED, digest(body)).encode(), body


def test_a_second_history_ends_who_saw_the_first_and_nobody_else() -> None:
    old, new = standing("flights"), standing("flights")
    audience = Audience(old)
    (first, first_body), (second, second_body) = (published("flights", hash_id) for hash_id in ("a", "b"))
    audience.take(Source.ETCD, first, lambda _version: first_body)
    audience.add(new)
    audience.take(Source.ETCD, second, lambda _version: second_body)
    with pytest.raises(DigestConflict):
        old.latest()
    assert new.latest().mapping.hash_id == "b"
    assert not audience.remove(new), "who ended is not told anything any more"


def test_what_belongs_to_the_connection_is_not_said_twice(fragment: str, connection: Connection) -> None:
    with pytest.raises(ConnectionSaysItself, match="belong to the Connection"):
        Subscription(connection, fragment, name="job", token="vnm_a_b")
    with pytest.raises(ConnectionNotPicklable, match="stays in its process"):
        pickle.dumps(connection)
