"""`/v1/ready` tells the truth in time, whoever does not answer."""

import asyncio
import logging
import socket
import threading
import time
from collections.abc import Iterator

import pytest
import sqlalchemy as sa
from fastapi import FastAPI

from meta.api.control import Control
from meta.api.wire.readiness import ReadyOut
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.reconciliation.readiness import RECONCILED_WITHIN_MS, Readiness, Standing, Status
from meta.reconciliation.reconciling import Reconciling
from meta.store.database import Database
from meta.store.schema import SchemaProbe
from meta.vnodectl import service
from tests.meta.world import World

# For what the database of the world has no part in.
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


@pytest.fixture
def black_hole() -> Iterator[str]:
    """HOST:PORT that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def standing(world: World, database: Database | None = None) -> Standing:
    readiness = Readiness(database or world.database, world.reconciling, world.hearing)
    try:
        return asyncio.run(readiness.now())
    finally:
        readiness.close()


def test_a_replica_is_ready_once_it_has_reconciled_and_as_long_as_it_does(world: World) -> None:
    assert standing(world).status is Status.UNAVAILABLE
    world.reconciling.run()
    assert standing(world) == Standing(None, None, 0)
    assert standing(world).status is Status.OK
    world.now_ms += RECONCILED_WITHIN_MS
    assert standing(world).status is Status.OK
    world.now_ms += 1
    assert standing(world).status is Status.UNAVAILABLE
    assert "its log" in standing(world).detail


@pytest.mark.parametrize(
    ("revision", "status", "on_the_wire", "advice"),
    [
        ("0001", Status.UNAVAILABLE, "unavailable", "restart"),
        ("9999", Status.DEGRADED, "ok", "upgrade this replica"),
    ],
)
def test_an_older_schema_cannot_be_served_and_a_newer_one_can(
    world: World, revision: str, status: Status, on_the_wire: str, advice: str
) -> None:
    world.reconciling.run()
    with world.database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :it"), {"it": revision})
    found = standing(world)
    assert (found.status, ReadyOut.of(found).database) == (status, on_the_wire)
    assert f"revision {revision}" in found.detail
    assert advice in found.detail


def test_conflicts_degrade_and_are_named(world: World) -> None:
    world.reconciling.run()
    world.announce(1, b"another version 1")
    world.announce(3, b"of another service", "trains")
    world.pass_time(6_000)
    found = standing(world)
    assert found.status is Status.DEGRADED
    assert list(found.conflicts) == ["flights"]
    assert found.unknown_fragments == ("trains",)
    assert ReadyOut.of(found).detail == found.detail


@on_sqlite
def test_an_etcd_that_does_not_answer_degrades_in_time(world: World, black_hole: str) -> None:
    world.reconciling.run()
    with EtcdClient([black_hole]) as nowhere:
        world.publisher = Publisher(nowhere, "/v")
        done_at_ms = world.reconciling.done_at_ms
        world.start()
        world.reconciling.done_at_ms = done_at_ms
        began = time.monotonic()
        found = standing(world)
        asked_s = time.monotonic() - began
    assert found.status is Status.DEGRADED
    assert found.etcd_trouble
    assert asked_s < 5


@on_sqlite
def test_a_database_that_does_not_answer_is_unavailable_in_time(world: World, black_hole: str) -> None:
    world.reconciling.run()
    nowhere = Database(f"postgresql://nobody@{black_hole}/none?connect_timeout=3")
    readiness = Readiness(nowhere, world.reconciling, world.hearing)

    async def asked() -> tuple[list[Standing], float]:
        began = time.monotonic()
        found = await asyncio.gather(*(readiness.now() for _ in range(20)))
        return found, time.monotonic() - began

    found, asked_s = asyncio.run(asked())
    assert {each.status for each in found} == {Status.UNAVAILABLE}
    assert "has not answered" in found[0].detail
    assert asked_s < 2
    readiness.close()
    nowhere.close()


def test_a_database_that_went_away_is_told_with_what_it_said(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('gone') / 'folder' / 'meta.db'}")
    trouble = SchemaProbe(database.engine).trouble()
    database.close()
    assert trouble is not None
    assert "unable to open database file" in trouble.said


def test_an_outage_of_etcd_is_told_once_and_its_end_too(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "meta.observability.trouble")
    reachable = world.publisher.etcd
    with EtcdClient(["127.0.0.1:1"], timeout_ms=200) as nowhere:
        object.__setattr__(world.publisher, "etcd", nowhere)
        world.create("trains")
        world.pass_time(3_000)
        object.__setattr__(world.publisher, "etcd", reachable)
    world.pass_time(2_000)
    told = [(record.levelname, record.message.partition(":")[0]) for record in caplog.records]
    assert told == [("WARNING", "etcd"), ("INFO", "etcd")]
    assert world.publisher.published("trains") is not None


def test_a_first_comparison_that_takes_long_keeps_nobody_waiting(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()
    monkeypatch.setattr(Reconciling, "run", lambda _self: over.wait(30))
    monkeypatch.setattr(service, "FIRST_COMPARISON_S", 0.1)
    control = Control.over(world.database, world.publisher, world.hearing, ())

    async def serving() -> bool:
        async with service._lifespan(control, service._Etcd(()), lambda: None, [])(FastAPI()):
            compared = over.is_set()
            over.set()
            return compared

    assert not asyncio.run(serving())
