"""What Prometheus scrapes: read as Prometheus reads it."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from meta.hearing import Hearing
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Base, MappingVersion, encode_body
from meta.mapping.unit import Unit
from meta.observability import overview
from meta.observability.metrics import Metrics
from meta.observability.overview import Overview, ownership
from meta.store.database import Database
from meta.store.failures import tell_failures

Labels = dict[str, str]


class Scrape:
    def __init__(self, text: str) -> None:
        self.families = list(text_string_to_metric_families(text))
        self.text = text

    def of(self, name: str, **labels: str) -> float | None:
        found = self.all(name, **labels)
        assert len(found) <= 1, found
        return found[0][1] if found else None

    def all(self, name: str, **labels: str) -> list[tuple[Labels, float]]:
        return [
            (sample.labels, sample.value)
            for family in self.families
            for sample in family.samples
            if sample.name == f"vnodemap_{name}" and labels.items() <= sample.labels.items()
        ]


class Site:
    """One service with one worker of four units and one fragment on three of them."""

    def __init__(self, http: httpx.Client, name: str) -> None:
        self.http = http
        self.name = name
        worker = {"parallelism": 4, "heartbeat_timeout_ms": 30_000}
        self.units = self.http.put(f"/v1/workers/{name}", json=worker).raise_for_status().json()["units"]
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": name, "distribution_key": key, "parallelism": 3, "vnode_count": 64}
        self.http.post("/v1/fragments", json=request).raise_for_status()

    def scrape(self) -> Scrape:
        answer = self.http.get("/metrics")
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/plain; version=")
        return Scrape(answer.text)

    def hear(self, subscriber: str, role: str, acknowledged: int | None) -> None:
        body = {"name": subscriber, "role": role, "acknowledged_version": acknowledged}
        path = f"/v1/fragments/{self.name}/subscribers/{subscriber}"
        self.http.put(path, json=body).raise_for_status()

    def rescale(self, parallelism: int) -> None:
        plan = self.http.post(f"/v1/fragments/{self.name}/plans", json={"parallelism": parallelism})
        token = plan.raise_for_status().json()["token"]
        self.http.post("/v1/rescales", json={"token": token}).raise_for_status()


@pytest.fixture
def site(replicas: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(overview, "FRESH_S", 0)
    return Site(replicas.start(), name)


def test_a_rescale_is_seen_from_its_beginning_to_its_end(replicas: Any, site: Site) -> None:
    fragment = {"fragment": site.name}
    site.hear("job", "applier", 1)
    site.hear("tool", "reader", None)
    site.rescale(4)
    replicas.now_ms += 2_500
    seen = site.scrape()
    assert seen.of("database_up") == 1
    assert seen.of("fragment_version", **fragment) == 2
    assert {labels["phase"]: value for labels, value in seen.all("fragment_phase", **fragment)} == {
        "rescaling": 1,
        "accepted": 0,
        "settled": 0,
    }
    assert seen.of("fragment_rescale_age_seconds", **fragment) == 2.5
    assert seen.of("fragment_units", **fragment) == 4
    assert seen.of("fragment_lost_units", **fragment) == 0
    assert seen.of("fragment_imbalance_ratio", **fragment, by="vnodes") == 1
    assert seen.of("fragment_kept_versions", **fragment) == 2
    assert seen.of("subscriber_lag_versions", **fragment, role="applier") == 1
    assert seen.of("subscriber_lag_versions", **fragment, role="reader") == 2
    assert seen.of("subscribers", **fragment, role="applier", state="heard") == 1

    site.hear("job", "applier", 2)
    seen = site.scrape()
    assert seen.of("fragment_phase", **fragment, phase="settled") == 1
    assert seen.of("fragment_rescale_age_seconds", **fragment) == 0
    assert seen.of("subscriber_lag_versions", **fragment, role="applier") == 0
    assert seen.of("plan_duration_seconds_count") == 1
    assert seen.of("publishes_total", outcome="written") == 3
    assert seen.of("publish_duration_seconds_count") == 3


def test_silence_is_told_apart_from_lag(replicas: Any, site: Site) -> None:
    site.hear("gone", "reader", None)
    for _ in range(4):
        replicas.now_ms += 4_000
        site.hear("here", "reader", 1)
    seen = site.scrape()
    of = {"fragment": site.name, "role": "reader"}
    assert seen.of("subscribers", **of, state="heard") == 1
    assert seen.of("subscribers", **of, state="silent") == 1
    assert seen.of("subscriber_lag_versions", **of) == 0


def test_workers_and_lost_units_are_counted_by_the_service_s_own_clock(replicas: Any, site: Site) -> None:
    site.http.put("/v1/workers/vouched-for", json={"parallelism": 1}).raise_for_status()
    for _ in range(10):
        replicas.now_ms += 4_000
        site.http.get("/v1/workers")
    seen = site.scrape()
    assert {labels["state"]: value for labels, value in seen.all("workers")} == {
        "alive": 1,
        "draining": 0,
        "dead": 1,
    }
    assert seen.of("fragment_lost_units", fragment=site.name) == 3


def test_requests_are_counted_by_template_so_names_make_no_series(site: Site) -> None:
    before = len(site.scrape().all("http_requests_total"))
    for number in range(20):
        site.http.get(f"/v1/fragments/nobody{number}")
        site.http.get(f"/nowhere/{number}")
        site.http.request(f"BREW{number}", "/v1/health")
    seen = site.scrape()
    of = {"method": "GET", "route": "/v1/fragments/{name}", "status": "404"}
    assert seen.of("http_requests_total", **of) == 20
    assert seen.of("http_requests_total", method="GET", route="none", status="404") == 20
    assert len(seen.all("http_requests_total")) <= before + 4
    assert seen.of("http_request_duration_seconds_count", method="GET", route="none") == 20


def test_a_stored_answer_is_counted(site: Site) -> None:
    for _ in range(3):
        headers = {"Idempotency-Key": "one"}
        site.http.put("/v1/workers/more", json={"parallelism": 1}, headers=headers).raise_for_status()
    assert site.scrape().of("idempotency_replays_total") == 2


def test_every_metric_says_what_it_is_and_is_named_as_prometheus_wants_it(site: Site) -> None:
    ours = [family for family in site.scrape().families if family.name.startswith("vnodemap_")]
    assert len(ours) > 15
    for family in ours:
        assert family.documentation.endswith("."), family.name
        assert not family.name.endswith(("_ms", "_total", "_count")), family.name
    assert {family.type for family in ours} <= {"gauge", "counter", "histogram"}


def scraping(database: Database, story: Callable[[Overview], Any], metrics: Metrics | None = None) -> None:
    overview = Overview(database, Hearing(lambda: 1), metrics or Metrics())

    async def told() -> None:
        await story(overview)

    asyncio.run(told())
    overview.close()


def test_a_database_that_cannot_be_used_leaves_the_metrics_of_the_process() -> None:
    database, metrics = Database("sqlite:////nowhere/meta.db"), Metrics()
    tell_failures(database.engine, lambda kind: metrics.database_failures.labels(kind).inc())
    metrics.replays.inc()

    async def story(overview: Overview) -> None:
        seen = Scrape((await overview.exposition()).decode())
        assert seen.of("database_up") == 0
        assert seen.of("idempotency_replays_total") == 1
        assert seen.of("database_failures_total", failure="unavailable") == 1
        assert seen.all("fragment_version") == []

    scraping(database, story, metrics)
    database.close()


def test_a_database_that_hangs_holds_no_scrape_and_one_thread(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overview, "PATIENCE_S", 0.05)
    hangs, reads = threading.Event(), []
    read = Overview._read

    def hanging(self: Overview, known: Any) -> Any:
        reads.append(known)
        assert hangs.wait(10)
        return read(self, known)

    monkeypatch.setattr(Overview, "_read", hanging)

    async def story(overview: Overview) -> None:
        for _ in range(5):
            assert Scrape((await overview.exposition()).decode()).of("database_up") == 0
        assert len(reads) == 1
        hangs.set()
        monkeypatch.setattr("meta.observability.overview.PATIENCE_S", 10)
        assert Scrape((await overview.exposition()).decode()).of("database_up") == 1

    scraping(database, story)


def test_several_scrapers_are_one_read(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = []
    read = Overview._read
    monkeypatch.setattr(
        Overview,
        "_read",
        lambda self, known: reads.append(known) or read(self, known),  # type: ignore[func-returns-value]
    )

    async def story(overview: Overview) -> None:
        await asyncio.gather(*(overview.exposition() for _ in range(10)))
        await overview.exposition()
        assert len(reads) == 1

    scraping(database, story)


def test_a_unit_that_owns_nothing_counts_in_the_mean() -> None:
    units = tuple(Unit(number, "w") for number in range(1, 5))
    owners = VnodeMapping((1, 1, 1, 2, 2, 3))
    body = encode_body(MappingVersion("f", 2, "h", units, owners, Base(1, units, owners)))
    found = ownership(2, body)
    assert found.vnodes == {1: 3, 2: 2, 3: 1, 4: 0}
    assert found.imbalance == 2.0
