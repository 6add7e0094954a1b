"""The loops that `serve` runs beside the API."""

import asyncio
import threading
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest
from fastapi import FastAPI

from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.store.database import Database
from meta.store.migrations import upgrade
from meta.vnodectl import service


def test_the_clock_ticks_while_a_pass_takes_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a pass longer than `GAP_MS` would look like a process that stood still, and nobody ever died."""
    monkeypatch.setattr(service, "INTERVAL_S", 0.01)
    reads, ticked = count(), threading.Event()

    def clock_ms() -> int:
        now_ms = next(reads)
        if now_ms > 10:
            ticked.set()
        return now_ms

    async def while_the_database_is_locked(control: Control, database: Database) -> bool:
        with database.transaction():
            etcd = service._Etcd(control.etcd_endpoints)
            async with service._lifespan(control, etcd, lambda: None, [])(FastAPI()):
                return await asyncio.to_thread(ticked.wait, 5)

    with (
        closing(Database(f"sqlite:///{tmp_path / 'meta.db'}")) as database,
        EtcdClient(["127.0.0.1:1"]) as nowhere,
    ):
        upgrade(database.engine)
        hearing = Hearing(clock_ms)
        control = Control.over(database, Publisher(nowhere, "/v"), hearing, ("127.0.0.1:1",))
        assert asyncio.run(while_the_database_is_locked(control, database))
