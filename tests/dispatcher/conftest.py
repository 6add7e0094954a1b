from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from deploy.process import ServiceProcess


class Fragment:
    """A fragment of the shared service, by its own name, on the four units of a worker of its own."""

    def __init__(self, service: ServiceProcess, name: str) -> None:
        self.name = name
        self.service_url = service.url
        self._http = httpx.Client(base_url=service.url, trust_env=False)
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
