"""Two real services on one database and one etcd."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.process import ServiceProcess

AT_ONCE = 50


@pytest.fixture
def replicas(database_url: str, shared_etcd: str, tmp_path: Path) -> Iterator[list[httpx.Client]]:
    with (
        ServiceProcess(tmp_path / "one", shared_etcd, database_url) as one,
        ServiceProcess(tmp_path / "two", shared_etcd, database_url) as two,
        httpx.Client(base_url=one.url, timeout=30, limits=httpx.Limits(max_connections=AT_ONCE)) as first,
        httpx.Client(base_url=two.url, timeout=30, limits=httpx.Limits(max_connections=AT_ONCE)) as second,
    ):
        yield [first, second]


def one_round(replicas: list[httpx.Client], fragment: str, units: list[int], base: int) -> None:
    """Fifty apply five plans on one base at once: one plan is accepted, and all others are told what came first."""
    plans = [
        planned(replica, fragment, [unit for unit in units if unit != left_out][:count])
        for replica, left_out in zip(cycle(replicas), units, strict=False)
        for count in (2, 3)
    ]
    # The plan that changes nothing is applied by being there.
    tokens = [plan["token"] for plan in plans if plan["moves"]][:5]

    def apply(replica: httpx.Client, token: str) -> httpx.Response:
        return replica.post("/v1/rescales", json={"token": token})

    with ThreadPoolExecutor(AT_ONCE) as clients:
        answers = list(clients.map(apply, replicas * (AT_ONCE // 2), tokens * (AT_ONCE // len(tokens))))
    accepted = [answer for answer in answers if answer.status_code == 202]
    refused = [answer for answer in answers if answer.status_code != 202]
    assert {answer.json()["version"] for answer in accepted} == {base + 1}, [
        answer.text for answer in refused
    ]
    assert len({answer.request.content for answer in accepted}) == 1
    # Every time the same token was applied it had the same answer.
    assert len(accepted) == AT_ONCE // len(tokens)
    for answer in refused:
        problem = answer.json()
        assert (answer.status_code, problem["type"], problem["version"]) == (
            409,
            "/problems/rescale-in-flight",
            base + 1,
        ), problem
    for replica in replicas:
        found = replica.get(f"/v1/fragments/{fragment}").json()
        assert (found["version"], found["phase"]) == (base + 1, "rescaling")


def planned(replica: httpx.Client, fragment: str, units: list[int]) -> dict[str, Any]:
    answer = replica.post(f"/v1/fragments/{fragment}/plans", json={"units": units})
    return dict(answer.raise_for_status().json())


@pytest.mark.parametrize(
    "rounds", [3, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]
)
def test_of_fifty_applied_at_once_over_two_replicas_exactly_one_is_accepted(
    replicas: list[httpx.Client], name: str, rounds: int
) -> None:
    units = replicas[0].put("/v1/workers/w", json={"parallelism": 5}).json()["units"]
    key = [{"name": "tailnum", "type": "string"}]
    request = {"name": name, "distribution_key": key, "parallelism": 5, "vnode_count": 64}
    replicas[1].post("/v1/fragments", json=request).raise_for_status()
    applier = {"name": "job", "role": "applier"}
    for base in range(1, rounds + 1):
        path = f"/v1/fragments/{name}/subscribers/job"
        replicas[0].put(path, json={**applier, "acknowledged_version": base}).raise_for_status()
        one_round(replicas, name, units, base)
        replicas[1].put(path, json={**applier, "acknowledged_version": base + 1}).raise_for_status()
        assert replicas[0].get(f"/v1/fragments/{name}").json()["phase"] == "settled"
