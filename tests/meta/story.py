"""What a test over HTTP tells: one worker and one fragment, and the problems that it is answered."""

from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest

# For what the database has no part in.
told_on_sqlite = pytest.mark.parametrize("told", ["shared_service"], indirect=True)


@dataclass
class Story:
    """One worker with four units and one fragment that nobody else uses, both called `name`."""

    http: httpx.Client
    name: str
    units: list[int] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/v1/fragments/{self.name}"

    def begin(self, **more: Any) -> None:
        self.units = self.http.put(f"/v1/workers/{self.name}", json={"parallelism": 4}).json()["units"]
        assert self.create(**more).status_code == 201
        self.settle_on(*self.units[:3])

    def create(self, **more: Any) -> httpx.Response:
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": self.name, "distribution_key": key, "parallelism": 3, **more}
        return self.http.post("/v1/fragments", json=request)

    def plan(self, *units: int) -> httpx.Response:
        return self.http.post(f"{self.path}/plans", json={"units": list(units)})

    def token(self, *units: int) -> str:
        return str(self.plan(*units).raise_for_status().json()["token"])

    def apply(self, token: str) -> httpx.Response:
        return self.http.post("/v1/rescales", json={"token": token})

    def settle_on(self, *units: int) -> None:
        assert self.apply(self.token(*units)).status_code == 202

    def hear(self, subscriber: str, version: int | None, **more: Any) -> httpx.Response:
        body = {"name": subscriber, "role": "applier", "acknowledged_version": version, **more}
        return self.http.put(f"{self.path}/subscribers/{subscriber}", json=body)

    def accept(self, version: int) -> httpx.Response:
        return self.http.post(f"{self.path}/versions/{version}/acceptance")

    def version(self, version: int) -> Any:
        return self.http.get(f"{self.path}/versions/{version}").raise_for_status().json()

    @property
    def subscribers(self) -> list[str]:
        listed = self.http.get(f"{self.path}/subscribers").raise_for_status().json()
        return [subscriber["id"] for subscriber in listed["items"]]

    @property
    def state(self) -> tuple[int, str]:
        found = self.http.get(self.path).json()
        return found["version"], found["phase"]

    @property
    def progress(self) -> Any:
        return self.http.get(f"{self.path}/progress").json()


def problem(response: httpx.Response, status: int, kind: str, *words: str) -> Any:
    """Asserts an RFC 9457 problem whose detail has these words in it."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    found = response.json()
    assert (response.status_code, found["status"]) == (status, status), found
    assert found["type"] == f"/problems/{kind}"
    assert found["title"] == kind.replace("-", " ")
    for word in words:
        assert word in found["detail"]
    return found
