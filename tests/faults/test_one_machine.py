"""A service with an etcd of its own: what the API said 2xx to is there after any kill, and published."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import stamina

from deploy import process
from deploy.process import ServiceProcess
from meta.etcd.client import EtcdClient
from meta.etcd.errors import EtcdError
from meta.mapping.publication import Current, Phase, current_key, digest, version_key


class NotYet(Exception):
    """What is waited for is not the case."""


patiently = stamina.retry(on=(NotYet, EtcdError), attempts=None, timeout=20, wait_initial=0.05, wait_max=0.2)


@patiently
def wait_until_published(endpoint: str, version: int, phase: Phase, fragment: str = "flights") -> bytes:
    """The body, once etcd has this version in this phase."""
    with EtcdClient([endpoint]) as etcd:
        found = etcd.get(current_key(fragment))
        body = etcd.get(version_key(fragment, version))
    if found is None or body is None:
        raise NotYet
    current = Current.decode(found.value)
    if (current.version, current.phase) != (version, phase):
        raise NotYet
    assert current.digest == digest(body.value)
    return body.value


class Flights:
    """Fragments on three of the four units of a service of the test's own."""

    def __init__(self, http: httpx.Client) -> None:
        self.http = http
        self.http.put("/v1/workers/w", json={"parallelism": 4}).raise_for_status()
        self.create("flights")

    def create(self, fragment: str, **more: Any) -> None:
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": fragment, "distribution_key": key, "parallelism": 3, **more}
        self.http.post("/v1/fragments", json=request).raise_for_status()

    @property
    def endpoint(self) -> str:
        (endpoint,) = self.http.get("/v1/coordination").json()["etcd"]["endpoints"]
        return str(endpoint)

    @property
    def state(self) -> tuple[int, str]:
        return self.state_of("flights")

    def state_of(self, fragment: str) -> tuple[int, str]:
        found = self.http.get(f"/v1/fragments/{fragment}").json()
        return found["version"], found["phase"]

    @patiently
    def wait_until(self, fragment: str, state: tuple[int, str]) -> None:
        if self.state_of(fragment) != state:
            raise NotYet

    def plan(self, parallelism: int, fragment: str = "flights") -> str:
        answer = self.http.post(f"/v1/fragments/{fragment}/plans", json={"parallelism": parallelism})
        return str(answer.raise_for_status().json()["token"])

    def apply(self, token: str) -> Any:
        return self.http.post("/v1/rescales", json={"token": token}).raise_for_status().json()

    def hear(self, version: int, fragment: str = "flights") -> None:
        body = {"name": "job", "role": "applier", "acknowledged_version": version}
        self.http.put(f"/v1/fragments/{fragment}/subscribers/job", json=body).raise_for_status()


@pytest.fixture
def flights(service: ServiceProcess) -> Iterator[Flights]:
    with httpx.Client(base_url=service.url) as http:
        yield Flights(http)


def etcd_of(service: ServiceProcess) -> psutil.Process:
    (found,) = [child for child in psutil.Process(service.pid).children() if child.name() == "etcd"]
    return found


def test_kill_9_right_after_a_rescale_was_applied_loses_nothing(
    service: ServiceProcess, flights: Flights
) -> None:
    flights.hear(1)
    token = flights.plan(4)
    endpoint, etcd = flights.endpoint, etcd_of(service)
    applied = flights.apply(token)
    service.kill()
    etcd.wait(10)

    service.start()
    assert flights.endpoint == endpoint
    assert flights.state == (2, "rescaling"), "its applier could not be heard, so it is still waited for"
    assert flights.apply(token) == applied
    body = flights.http.get("/v1/fragments/flights/versions/2/body").content
    assert wait_until_published(endpoint, 2, Phase.RESCALING) == body
    flights.hear(2)
    assert flights.state == (2, "settled")
    wait_until_published(endpoint, 2, Phase.SETTLED)


def test_kill_9_of_etcd_brings_it_back_at_the_same_endpoint(
    service: ServiceProcess, flights: Flights
) -> None:
    endpoint, killed = flights.endpoint, etcd_of(service)
    killed.kill()
    killed.wait(10)
    applied = flights.apply(flights.plan(4))
    assert (applied["version"], flights.state) == (2, (2, "settled")), "etcd is not asked for permission"
    wait_until_published(endpoint, 2, Phase.SETTLED)
    assert flights.endpoint == endpoint
    assert etcd_of(service).pid != killed.pid


def test_an_etcd_that_does_not_come_up_again_is_no_reason_to_wait_for_the_dead(
    service: ServiceProcess, flights: Flights, tmp_path: Path
) -> None:
    flights.create("trains", applier_timeout_ms=300)
    flights.hear(1, "trains")
    data, away = tmp_path / "service" / "etcd" / "data", tmp_path / "away"
    killed = etcd_of(service)
    data.rename(away)
    data.write_text("no folder, so no etcd starts here")
    killed.kill()
    killed.wait(10)
    flights.apply(flights.plan(4, "trains"))
    assert flights.state_of("trains") == (2, "rescaling")
    flights.wait_until("trains", (2, "settled"))

    data.unlink()
    away.rename(data)
    wait_until_published(flights.endpoint, 2, Phase.SETTLED, "trains")


def test_a_service_that_is_not_ready_in_time_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "START_TIMEOUT_S", 0.01)
    late = ServiceProcess(tmp_path)
    with pytest.raises(process.NotReady):
        late.start()
    assert not psutil.pid_exists(late.pid)


def test_a_service_that_is_told_to_stop_leaves_no_process_and_an_etcd_wiped_meanwhile_is_written_again(
    service: ServiceProcess, flights: Flights, tmp_path: Path
) -> None:
    flights.apply(flights.plan(4))
    endpoint = flights.endpoint
    body = wait_until_published(endpoint, 2, Phase.SETTLED)
    family = [psutil.Process(service.pid), etcd_of(service)]
    service.stop()
    assert [process.pid for process in family if process.is_running()] == []
    shutil.rmtree(tmp_path / "service" / "etcd" / "data")

    service.start()
    assert wait_until_published(endpoint, 2, Phase.SETTLED) == body
