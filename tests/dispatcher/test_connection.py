"""Many subscriptions over one connection: they share a watch, and each is on its own otherwise."""

import os
import pickle
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from deploy.process import ServiceProcess
from dispatcher.audience import Audience
from dispatcher.connection import Connection
from dispatcher.errors import ConnectionForked, ConnectionNotPicklable, DigestConflict
from dispatcher.following import Follower
from dispatcher.ledger import Coordination, Ledger
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


def test_who_comes_after_all_others_failed_is_followed_for_anew(
    fragment: str, connection: Connection, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    with monkeypatch.context() as broken:

        def fail(_follower: Follower) -> None:
            raise RuntimeError("our mistake")

        broken.setattr(Follower, "_follow", fail)
        first = Subscription(connection, fragment, name="first", role="reader")
        with pytest.raises(RuntimeError, match="our mistake"):
            _ = first.latest
    with Subscription(connection, fragment, name="second", role="reader") as second:
        assert second.latest.mapping.version == 1
        first.close()
        assert len(followers(fragment)) == 1, "who failed takes nobody's follower along"
    assert followers(fragment) == []


def test_who_comes_later_keeps_on_disk_where_etcd_is(
    fragment: str, connection: Connection, tmp_path: Path
) -> None:
    with (
        Subscription(connection, fragment, name="first", role="reader"),
        Subscription(connection, fragment, name="late", role="reader", state_dir=tmp_path),
    ):
        kept = Ledger(tmp_path, fragment).load(0)
        assert kept is not None
        assert isinstance(kept.coordination, Coordination)


def test_an_audience_that_all_have_left_takes_nobody() -> None:
    first, late = standing("flights"), standing("flights")
    audience = Audience(first)
    assert not audience.remove(first)
    assert not audience.add(late)
    assert not audience.listens


def test_it_stays_in_its_process(
    fragment: str, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as forked:
        forked.setattr(os, "getpid", lambda: 1)
        with pytest.raises(ConnectionForked, match="open one here"):
            Subscription(connection, fragment, name="job")
    with pytest.raises(ConnectionNotPicklable, match="stays in its process"):
        pickle.dumps(connection)
