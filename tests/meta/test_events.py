"""Event streams over HTTP, read as `curl` or a browser reads them."""

import asyncio
import json
import os
import signal
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from deploy.process import ServiceProcess

STREAMS = 50


@dataclass(frozen=True)
class Event:
    id: str
    name: str
    data: str


@asynccontextmanager
async def listening(url: str, fragment: str, last: str | None = None) -> AsyncIterator[AsyncIterator[Event]]:
    headers = {"Last-Event-ID": last} if last else {}
    async with (
        httpx.AsyncClient(base_url=url, timeout=20, trust_env=False, verify=False) as http,
        http.stream("GET", f"/v1/fragments/{fragment}/events", headers=headers) as answer,
    ):
        assert answer.status_code == 200, await answer.aread()
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["x-request-id"]
        yield events(answer.aiter_lines())


async def events(lines: AsyncIterator[str]) -> AsyncIterator[Event]:
    fields: dict[str, str] = {}
    async for line in lines:
        if line:
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields.get("event"):
            yield Event(fields["id"], fields["event"], fields["data"])
            fields = {}


class Site:
    """A fragment of the test's own."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self.http = http
        self.name = name
        self.http.put(f"/v1/workers/{name}", json={"parallelism": 4}).raise_for_status()
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": name, "distribution_key": key, "parallelism": 3, "vnode_count": 64}
        self.http.post("/v1/fragments", json=request).raise_for_status()

    def rescale(self, parallelism: int) -> None:
        plan = self.http.post(f"/v1/fragments/{self.name}/plans", json={"parallelism": parallelism})
        token = plan.raise_for_status().json()["token"]
        self.http.post("/v1/rescales", json={"token": token}).raise_for_status()

    def hear(self, acknowledged: int) -> None:
        body = {"name": "job", "role": "applier", "acknowledged_version": acknowledged}
        self.http.put(f"/v1/fragments/{self.name}/subscribers/job", json=body).raise_for_status()

    @property
    def current(self) -> str:
        return self.http.get(f"/v1/fragments/{self.name}/current").raise_for_status().text


def told(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 30))


@pytest.fixture
def two(
    shared_service_on_postgres: ServiceProcess, shared_postgres_url: str, tmp_path: Path
) -> Iterator[tuple[ServiceProcess, ServiceProcess]]:
    """Replicas; what they poll the database with is tested over both kinds in test_changes."""
    coordination = httpx.get(f"{shared_service_on_postgres.url}/v1/coordination").json()["etcd"]
    with ServiceProcess(tmp_path / "two", coordination["endpoints"][0], shared_postgres_url) as other:
        yield shared_service_on_postgres, other


def test_what_changes_at_one_replica_is_told_by_the_other_and_goes_on_at_either(
    two: tuple[ServiceProcess, ServiceProcess], name: str
) -> None:
    one, other = two

    async def story(site: Site) -> None:
        in_thread = asyncio.to_thread
        async with listening(other.url, name) as stream:
            first = await anext(stream)
            assert first == Event("1-2", "mapping", site.current)
            await in_thread(site.hear, 1)
            began = time.monotonic()
            await in_thread(site.rescale, 4)
            change = await anext(stream)
            assert time.monotonic() - began < 1
            assert (change.id, change.data) == ("2-0", site.current)
            await in_thread(site.hear, 2)
            settled = await anext(stream)
            assert (settled.id, settled.data) == ("2-2", site.current)
        for service in (one, other):
            async with listening(service.url, name, last="1-2") as stream:
                assert [await anext(stream), await anext(stream)] == [change, settled]
        assert json.loads(settled.data) == {**json.loads(change.data), "phase": "settled"}

    with httpx.Client(base_url=one.url, trust_env=False) as http:
        told(story(Site(http, name)))


def test_a_service_that_is_told_to_stop_ends_fifty_streams_within_five_seconds(
    service: ServiceProcess, name: str
) -> None:
    async def listen(begun: asyncio.Semaphore) -> list[str]:
        async with listening(service.url, name) as stream:
            ids = [(await anext(stream)).id]
            begun.release()
            # Its end is an end: a connection that broke would raise.
            return ids + [event.id async for event in stream]

    async def story(process: psutil.Process) -> None:
        begun = asyncio.Semaphore(0)
        listeners = [asyncio.create_task(listen(begun)) for _ in range(STREAMS)]
        for _ in range(STREAMS):
            await begun.acquire()
        assert _threads_of(process) < 40
        os.kill(process.pid, signal.SIGTERM)
        assert await asyncio.wait_for(asyncio.gather(*listeners), 5) == [["1-2"]] * STREAMS
        # What is left is etcd's end.
        await asyncio.to_thread(process.wait, 10)

    with httpx.Client(base_url=service.url, trust_env=False) as http:
        Site(http, name)
    told(story(psutil.Process(service.pid)))


def _threads_of(process: psutil.Process) -> int:
    return max(
        found.num_threads()
        for found in (process, *process.children(recursive=True))
        if found.name() != "etcd"
    )


def test_no_stream_begins_where_there_is_nothing_to_follow(replicas: Any, name: str) -> None:
    http = replicas.start()
    Site(http, name)
    path = f"/v1/fragments/{name}/events"
    missing = http.get("/v1/fragments/nobody/events")
    assert (missing.status_code, missing.json()["type"]) == (404, "/problems/fragment-not-found")
    for malformed in ("x", "1", "1-", "-1-2", "1-2-3", "99999999999-0", "1-2\u00e4"):
        refused = http.get(path, headers={"Last-Event-ID": malformed.encode()})
        assert (refused.status_code, refused.json()["type"]) == (422, "/problems/invalid-request"), malformed


def test_a_full_replica_says_when_to_come_again(replicas: Any, name: str) -> None:
    http = replicas.start()
    Site(http, name)
    changes = replicas.apps[0].state.control.changes
    changes._listeners_max = 1
    path = f"/v1/fragments/{name}/events"
    with http.stream("GET", path) as answer:
        lines = answer.iter_lines()
        assert next(lines)
        refused = http.get(path)
        assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
        assert refused.json()["type"] == "/problems/too-many-streams"
        assert refused.json()["streams_max"] == 1


def test_a_stream_without_news_is_kept_alive(
    replicas: Any, name: str, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr("fastapi.routing._PING_INTERVAL", 0.01)
    http = replicas.start()
    Site(http, name)
    control = replicas.apps[0].state.control
    with http.stream("GET", f"/v1/fragments/{name}/events") as answer:
        lines = answer.iter_lines()
        assert [next(lines) for _ in range(4)][:1] == ["event: mapping"]
        assert next(lines) == ": ping"
        assert control.changes.listeners == 1

    def gone() -> None:
        assert control.changes.listeners == 0

    eventually(gone)
