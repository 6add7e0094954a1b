import threading
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import pytest

from deploy.process import ServiceProcess
from tests.dispatcher.world import Eventually, World


class Fragment:
    """A fragment of the shared service, by its own name, on the four units of a worker of its own."""

    def __init__(self, service: ServiceProcess, name: str) -> None:
        self.name = name
        self.service_url = service.url
        self._http = httpx.Client(base_url=service.url, trust_env=False, verify=False)
        worker = self._call("PUT", f"/v1/workers/{name}", {"parallelism": 4})
        self.units = worker["units"]
        document = {
            "name": name,
            "vnode_count": 16,
            "distribution_key": [{"name": "tailnum", "type": "string"}],
            "parallelism": 4,
        }
        self._call("POST", "/v1/fragments", document)
        # The shared service has other tests' workers too; from here on it runs on ours.
        self.rescale(self.units)

    def rescale(self, units: list[int]) -> None:
        plan = self._call("POST", f"/v1/fragments/{self.name}/plans", {"units": units})
        self._call("POST", "/v1/rescales", {"token": plan["token"]})

    def progress(self) -> Any:
        return self._call("GET", f"/v1/fragments/{self.name}/progress")

    def published(self, what: str) -> bytes:
        """`current`, or `versions/1/body`."""
        return self._http.get(f"/v1/fragments/{self.name}/{what}").raise_for_status().content

    def close(self) -> None:
        self._http.close()

    def _call(self, method: str, path: str, document: dict[str, object] | None = None) -> Any:
        return self._http.request(method, path, json=document).raise_for_status().json()


@pytest.fixture
def fragment(shared_service: ServiceProcess, name: str) -> Iterator[Fragment]:
    fragment = Fragment(shared_service, name)
    yield fragment
    fragment.close()


@pytest.fixture(scope="package")
def long_lived_world(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("world"), stack, eventually)


@pytest.fixture
def world(long_lived_world: World) -> Iterator[World]:
    before = set(threading.enumerate())
    yield long_lived_world
    long_lived_world.restore()
    left = [thread.name for thread in set(threading.enumerate()) - before if "vnodemap" in thread.name]
    assert not left, "a closed subscription leaves no thread"
