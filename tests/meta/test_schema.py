"""Every answer of the API is one that /openapi.json declares, whatever is asked.

What a run is asked is drawn from the schema itself, right and wrong, over fragments, workers, plans and rescales that
there are. Without `positive_data_acceptance`: rules over several fields (one goal of many, units that live) are no
schema's, and 412 and 422 are their answers.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from fastapi import FastAPI
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, settings
from schemathesis.config import ChecksConfig, GenerationConfig, ProjectConfig, ProjectsConfig, SchemathesisConfig
from schemathesis.config._checks import PositiveDataAcceptanceConfig

from meta.api.app import create_app
from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.store.database import Database, open_engine
from meta.store.migrations import upgrade


@dataclass
class Subject:
    app: FastAPI
    known: dict[str, str]


@pytest.fixture(scope="module")
def subject(tmp_path_factory: pytest.TempPathFactory, etcd: EtcdClient) -> Iterator[Subject]:
    url = f"sqlite:///{tmp_path_factory.mktemp('schema') / 'meta.db'}"
    engine = open_engine(url)
    upgrade(engine)
    engine.dispose()
    database = Database(url)
    control = Control.over(database, Publisher(etcd, "/schema"), Hearing(lambda: 1_700_000_000_000), ())
    app = create_app(control)
    yield Subject(app, begin(app))
    database.close()


def begin(app: FastAPI) -> dict[str, str]:
    with TestClient(app) as http:
        for worker in ("w1", "w2"):
            http.put(f"/v1/workers/{worker}", json={"parallelism": 2})
        key = [{"name": "tailnum", "type": "string"}]
        http.post("/v1/fragments", json={"name": "flights", "distribution_key": key, "parallelism": 2})
        planned = http.post("/v1/fragments/flights/plans", json={"parallelism": 3}).json()
        http.post("/v1/rescales", json={"token": planned["token"]})
        return {"plan": planned["id"]}


@pytest.fixture(scope="module")
def described(subject: Subject) -> Any:
    config = SchemathesisConfig()
    schema = schemathesis.openapi.from_asgi("/openapi.json", subject.app, config=config)
    return schema


schema = schemathesis.pytest.from_fixture("described").exclude(path_regex=".*/events$")


@schema.parametrize()
@settings(max_examples=5, suppress_health_check=list(HealthCheck))
def test_all(case: schemathesis.Case) -> None:
    case.call_and_validate()
