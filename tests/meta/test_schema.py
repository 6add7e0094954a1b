"""Every answer is one that /openapi.json declares, whatever is asked: schemathesis draws requests from it.

Right ones and wrong ones, over a fragment, workers, a plan and a rescale that there are. All of its checks but

- `positive_data_acceptance`: rules over several fields (one goal of many, units that live) are no schema's, and 422 and
  412 are their answers;
- `ignored_auth` for the service that wants no token, which takes any;

and all routes but the event stream, which does not end by itself (tests/meta/test_events.py), and for the open
service POST /v1/tokens, which would end its being open.
"""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from meta.api.app import create_app
from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.store.database import Database, open_engine
from meta.store.migrations import upgrade
from tests.meta.serving import served

# As often as this it is one of the names that there are; else any that the schema allows, or does not.
PROBABILITY = 0.6


@dataclass
class Service:
    url: str
    known: dict[str, list[str | int]]

    def token(self) -> str:
        """An administrator's, from whose making on everybody needs one."""
        made = httpx.post(f"{self.url}/v1/tokens", json={"name": "root", "role": "admin"}, timeout=60)
        return str(made.raise_for_status().json()["token"])


@pytest.fixture
def service(tmp_path: Path, etcd: EtcdClient, name: str) -> Iterator[Service]:
    engine = open_engine(f"sqlite:///{tmp_path / 'meta.db'}")
    upgrade(engine)
    engine.dispose()
    database = Database(f"sqlite:///{tmp_path / 'meta.db'}")
    control = Control.over(database, Publisher(etcd, f"/{name}"), Hearing(lambda: 1_700_000_000_000), ())
    with served(create_app(control)) as url:
        known = begin(url)
        # From now on it is ready.
        control.reconciling.run()
        yield Service(url, known)
    database.close()


def begin(url: str) -> dict[str, list[str | int]]:
    with httpx.Client(base_url=f"{url}/v1", trust_env=False, timeout=60) as http:
        for worker in ("w1", "w2"):
            http.put(f"/workers/{worker}", json={"parallelism": 2}).raise_for_status()
        key = [{"name": "tailnum", "type": "string"}]
        fragment = {"name": "flights", "distribution_key": key, "parallelism": 2}
        http.post("/fragments", json=fragment).raise_for_status()
        plan = http.post("/fragments/flights/plans", json={"parallelism": 3}).raise_for_status().json()
        http.post("/rescales", json={"token": plan["token"]}).raise_for_status()
    return {
        "path.name": ["flights", "w1", "w2"],
        "path.version": [1, 2],
        "path.plan_id": [plan["id"]],
        "path.rescale_id": [plan["id"]],
        "query.version": [1, 2],
        "query.fragment": ["flights"],
        "query.worker": ["w1"],
        "body.token": [plan["token"]],
    }


def explore(service: Service, folder: Path, *options: str, phases: str, examples: int = 1) -> None:
    """Fails with what schemathesis found, and how to ask for it again."""
    config = folder / "schemathesis.toml"
    config.write_text(settings(service.known))
    command = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(config), "run"]
    given = [
        *("--phases", phases, "--max-examples", str(examples), "--continue-on-failure"),
        *("--generation-deterministic", "--no-color", "--warnings", "off"),
        *("--checks", "all", "--exclude-checks"),
    ]
    excluded, *others = options
    path = ["--exclude-path-regex", "/events$"]
    run = subprocess.run(
        [*command, f"{service.url}/openapi.json", *given, excluded, *path, *others],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout + run.stderr


def settings(known: dict[str, list[str | int]]) -> str:
    lines = [f'[dictionaries."{name}"]\nvalues = {json.dumps(values)}' for name, values in known.items()]
    lines.append("[parameters]")
    lines += [f'"{name}" = {{dictionary = "{name}", probability = {PROBABILITY}}}' for name in known]
    return "\n".join(lines)


OPEN = ("positive_data_acceptance,ignored_auth", "--exclude-operation-id-regex", "create_token")


@pytest.mark.timeout(600)
def test_the_open_service_answers_as_it_says(service: Service, tmp_path: Path) -> None:
    explore(service, tmp_path, *OPEN, phases="examples,fuzzing", examples=3)


@pytest.mark.timeout(600)
def test_the_service_with_tokens_answers_as_it_says(service: Service, tmp_path: Path) -> None:
    header = f"Authorization: Bearer {service.token()}"
    explore(
        service, tmp_path, "positive_data_acceptance", "-H", header, phases="examples,fuzzing", examples=3
    )


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_open_service_answers_as_it_says_for_long(service: Service, tmp_path: Path) -> None:
    explore(service, tmp_path, *OPEN, phases="examples,coverage,fuzzing,stateful", examples=100)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_service_with_tokens_answers_as_it_says_for_long(service: Service, tmp_path: Path) -> None:
    header = f"Authorization: Bearer {service.token()}"
    given = ("positive_data_acceptance", "-H", header)
    explore(service, tmp_path, *given, phases="examples,coverage,fuzzing", examples=100)


@pytest.mark.parametrize(
    ("path", "method", "allowed"),
    [
        ("/v1/workers/w1", "PATCH", "GET, PUT, DELETE"),
        ("/v1/fragments", "DELETE", "GET, POST"),
        ("/v1/rescales", "OPTIONS", "GET, POST"),
    ],
)
def test_a_refused_method_is_told_all_that_the_path_knows(
    service: Service, path: str, method: str, allowed: str
) -> None:
    answer = httpx.request(method, service.url + path, timeout=60)
    assert (answer.status_code, answer.headers["allow"]) == (405, allowed)


def test_refusals_are_described_as_problems(service: Service) -> None:
    paths = httpx.get(f"{service.url}/openapi.json", timeout=60).json()["paths"]
    answers = [
        answer for path in paths.values() for each in path.values() for answer in each["responses"].items()
    ]
    refusals = [list(answer["content"]) for status, answer in answers if status in ("422", "4XX", "5XX")]
    assert len(refusals) > 100
    assert all(found == ["application/problem+json"] for found in refusals)
