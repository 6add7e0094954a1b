"""Fifty clients apply tokens on one base at once, over two replicas."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from itertools import combinations, cycle, islice
from typing import Any

import httpx
import pytest

from tests.faults.cluster import Cluster
from tests.faults.observed import Observed

Observing = Callable[..., AbstractContextManager[Observed]]
AT_ONCE = 50
TOKENS = 5


@dataclass(frozen=True)
class Crowd:
    """Clients of each replica, with a connection for everybody who asks at once."""

    replicas: list[httpx.Client]
    threads: ThreadPoolExecutor
    fragment: str
    units: list[int]

    def tokens(self) -> list[str]:
        """Of plans on the current version, each of which changes it in a way of its own."""
        choices = [chosen for count in (2, 3) for chosen in combinations(self.units, count)]
        plans = (self._plan(*each) for each in zip(cycle(self.replicas), choices, strict=False))
        # The plan that changes nothing is applied by being there.
        return list(islice((plan["token"] for plan in plans if plan["moves"]), TOKENS))

    def apply(self, tokens: list[str]) -> list[httpx.Response]:
        return list(
            self.threads.map(self._apply, self.replicas * (AT_ONCE // 2), tokens * (AT_ONCE // TOKENS))
        )

    def acknowledge(self, version: int) -> None:
        applier = {"name": "job", "role": "applier", "acknowledged_version": version}
        path = f"/v1/fragments/{self.fragment}/subscribers/job"
        self.replicas[version % 2].put(path, json=applier).raise_for_status()

    def states(self) -> set[tuple[int, str]]:
        """What the replicas say."""
        found = [replica.get(f"/v1/fragments/{self.fragment}").json() for replica in self.replicas]
        return {(each["version"], each["phase"]) for each in found}

    def _plan(self, replica: httpx.Client, units: tuple[int, ...]) -> Any:
        answer = replica.post(f"/v1/fragments/{self.fragment}/plans", json={"units": units})
        return answer.raise_for_status().json()

    def _apply(self, replica: httpx.Client, token: str) -> httpx.Response:
        return replica.post("/v1/rescales", json={"token": token})


@contextmanager
def crowd(seen: Observed) -> Iterator[Crowd]:
    with ExitStack() as here:
        # Shorter than the service's 5 s: a connection that it is just closing must not be used.
        limits = httpx.Limits(max_connections=AT_ONCE, keepalive_expiry=1)
        clients = [
            here.enter_context(httpx.Client(base_url=url, timeout=60, limits=limits, trust_env=False))
            for url in seen.cluster.urls
        ]
        threads = here.enter_context(ThreadPoolExecutor(AT_ONCE))
        yield Crowd(clients, threads, seen.fragment, seen.operator.units)


@pytest.mark.parametrize(
    "shared_cluster", ["postgresql", pytest.param("sqlite", marks=pytest.mark.slow)], indirect=True
)
@pytest.mark.parametrize(
    "rounds", [10, pytest.param(200, marks=[pytest.mark.slow, pytest.mark.timeout(3_600)])]
)
def test_of_fifty_applied_at_once_over_two_replicas_exactly_one_is_accepted(
    cluster: Cluster, under_load: Observing, rounds: int
) -> None:
    with under_load(loaded=False, applier=False) as seen, crowd(seen) as clients:
        for base in range(1, rounds + 1):
            clients.acknowledge(base)
            one_round(clients, seen, base)
            clients.acknowledge(base + 1)
            assert clients.states() == {(base + 1, "settled")}


def one_round(clients: Crowd, seen: Observed, base: int) -> None:
    """Fifty apply five plans on one base: one plan is accepted, and all others are told what came first."""
    answers = clients.apply(clients.tokens())
    accepted = [answer for answer in answers if answer.status_code == httpx.codes.ACCEPTED]
    refused = [answer.json() for answer in answers if answer.status_code != httpx.codes.ACCEPTED]
    assert {answer.json()["version"] for answer in accepted} == {base + 1}, refused
    (token,) = {answer.json()["token"] for answer in accepted}
    seen.operator.promised[token] = base + 1
    # Every time the same token was applied it had the same answer.
    assert len(accepted) == AT_ONCE // TOKENS
    expected = {"status": 409, "type": "/problems/rescale-in-flight", "version": base + 1}
    for problem in refused:
        assert problem | expected == problem
    assert clients.states() == {(base + 1, "rescaling")}
