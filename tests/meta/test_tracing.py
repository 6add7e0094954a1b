"""Traces where they are asked for, and nothing of OpenTelemetry's machinery where they are not."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
import sqlalchemy as sa
from fastapi import FastAPI
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from meta.api.app import create_app
from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.observability.tracing import Tracing, traced_to, tracing
from meta.store.database import Database

VARIABLES = ("OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_SDK_DISABLED", "OTEL_SERVICE_NAME")


@pytest.fixture(autouse=True)
def unconfigured(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


@pytest.fixture
def engine() -> Iterator[sa.Engine]:
    engine = sa.create_engine("sqlite://")
    yield engine
    engine.dispose()


async def rescaled(http: httpx.AsyncClient, name: str) -> str:
    """A fragment that went to version 2 by the token that is returned."""
    key = [{"name": "tailnum", "type": "string"}]
    request = {"name": name, "distribution_key": key, "parallelism": 3, "vnode_count": 64}
    (await http.put("/v1/workers/w", json={"parallelism": 4})).raise_for_status()
    (await http.post("/v1/fragments", json=request)).raise_for_status()
    plan = await http.post(f"/v1/fragments/{name}/plans", json={"parallelism": 4})
    token = str(plan.raise_for_status().json()["token"])
    (await http.post("/v1/rescales", json={"token": token})).raise_for_status()
    (await http.get("/v1/health")).raise_for_status()
    return token


def test_a_request_its_statements_and_its_publish_are_one_trace(
    database: Database, etcd: EtcdClient, name: str
) -> None:
    exporter = InMemorySpanExporter()

    async def story(app: FastAPI) -> str:
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as http:
            return await rescaled(http, name)

    with traced_to(exporter, database.engine) as traces:
        publisher, hearing = Publisher(etcd, f"/{name}"), Hearing(lambda: 1_700_000_000_000)
        app = create_app(Control.over(database, publisher, hearing, (), traces.span))
        traces.instrument(app)
        token = asyncio.run(story(app))
    spans = exporter.get_finished_spans()
    assert {span.resource.attributes["service.name"] for span in spans} == {"vnodemap"}
    (request,) = [span for span in spans if span.name == "POST /v1/rescales"]
    trace = [span for span in spans if span.context.trace_id == request.context.trace_id]
    (publish,) = [span for span in trace if span.name == "publish"]
    assert publish.attributes == {
        "vnodemap.fragment": name,
        "vnodemap.version": 2,
        "vnodemap.rescale": token.split(".")[0],
    }
    assert [span for span in trace if span.attributes and "db.query.text" in span.attributes]
    assert [span for span in spans if span.name == "plan"]
    assert not [span for span in spans if "health" in span.name]
    assert token not in "".join(span.to_json() for span in spans)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OTEL_TRACES_EXPORTER": "none"},
        {"OTEL_TRACES_EXPORTER": "none", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
        {"OTEL_SDK_DISABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
    ],
)
def test_off_unless_it_is_asked_for(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with tracing(engine) as traces:
        assert type(traces) is Tracing


OFF = """
import sys
import meta.vnodectl.service
from meta.store.database import Database
from meta.observability.tracing import tracing
from meta.api.app import create_app
from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing

database = Database("sqlite://")
with tracing(database.engine) as traces, EtcdClient(["127.0.0.1:1"]) as etcd:
    app = create_app(Control.over(database, Publisher(etcd, "/v"), Hearing(lambda: 1), (), traces.span))
    traces.instrument(app)
    with traces.span("publish", {"fragment": "f"}):
        pass
parts = ("opentelemetry.sdk", "opentelemetry.exporter", "opentelemetry.instrumentation", "opentelemetry.proto")
print([name for name in sys.modules if name.startswith(parts)])
"""


def test_off_imports_nothing_of_it() -> None:
    """But for the API alone, on which newer versions of FastAPI stand."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTEL_")}
    ran = subprocess.run(
        [sys.executable, "-c", OFF], capture_output=True, text=True, env=environment, check=False
    )
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr


@pytest.mark.parametrize(
    "missing",
    [
        "opentelemetry.sdk.trace.export",
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.instrumentation.fastapi",
    ],
)
def test_without_the_extra_one_warning_says_what_to_install(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, missing: str
) -> None:
    exporter = "console" if missing.startswith("opentelemetry.sdk") else "otlp"
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", exporter)
    monkeypatch.setitem(sys.modules, missing, None)
    with tracing(engine) as traces:
        assert type(traces) is Tracing
    (told,) = caplog.records
    assert told.levelno == logging.WARNING
    assert "pip install vnodemap[otel]" in told.getMessage()
    assert missing in told.getMessage()


def test_an_exporter_that_we_do_not_know_is_named_and_none_is_used(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with tracing(engine) as traces:
        assert type(traces) is Tracing
    (told,) = caplog.records
    assert "zipkin" in told.getMessage()
    assert "otlp" in told.getMessage()


def test_the_name_of_the_service_is_the_operators_choice(
    engine: sa.Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "vnodemap-eu")
    exporter = InMemorySpanExporter()
    with traced_to(exporter, engine) as traces, traces.span("publish", {"fragment": "f", "rescale": None}):
        pass
    (span,) = exporter.get_finished_spans()
    assert span.resource.attributes["service.name"] == "vnodemap-eu"
    assert span.attributes == {"vnodemap.fragment": "f"}
