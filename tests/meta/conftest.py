import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import httpx
import pytest
import uvicorn
from fastapi import FastAPI

from deploy.postgres import PostgresProcess
from deploy.process import ServiceProcess
from meta.api.app import create_app
from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.store.database import Database, open_engine
from meta.store.migrations import upgrade
from tests.meta.story import Story
from tests.meta.world import World

TEMPLATE = "upgraded"


@pytest.fixture(scope="session")
def upgraded(postgres: PostgresProcess) -> Iterator[str]:
    """The name of a PostgreSQL database with all tables, to be copied: quicker than the revisions."""
    with postgres.database(TEMPLATE) as url:
        engine = open_engine(url)
        upgrade(engine)
        engine.dispose()
        yield TEMPLATE


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Iterator[str]:
    """A database without a table, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'meta.db'}"
        return
    with request.getfixturevalue("postgres").database(f"empty_{name}") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Iterator[str]:
    """A database with all tables, of either kind."""
    if request.param == "sqlite":
        url = f"sqlite:///{tmp_path / 'meta.db'}"
        engine = open_engine(url)
        upgrade(engine)
        engine.dispose()
        yield url
        return
    template = request.getfixturevalue("upgraded")
    with request.getfixturevalue("postgres").database(f"of_{name}", template) as url:
        yield url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


class Replicas:
    """Services over one database and one etcd, in threads of this process, by a clock that the test sets."""

    def __init__(self, url: str, publisher: Publisher, open_in: ExitStack) -> None:
        self.now_ms = 1_700_000_000_000
        self.databases: list[Database] = []
        self.apps: list[FastAPI] = []
        self._url = url
        self._publisher = publisher
        self._open_in = open_in

    def start(self) -> httpx.Client:
        """One more."""
        database = Database(self._url)
        self._open_in.callback(database.close)
        self.databases.append(database)
        control = Control.over(database, self._publisher, Hearing(lambda: self.now_ms), ())
        self.apps.append(create_app(control))
        listener = self._open_in.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        config = uvicorn.Config(self.apps[-1], log_config=None, access_log=False, server_header=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        self._open_in.callback(thread.join)
        self._open_in.callback(_stop, server)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        # The socket listens already, so the first request waits until the server takes it.
        return self._open_in.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=30))


def _stop(server: uvicorn.Server) -> None:
    server.should_exit = True


@pytest.fixture
def replicas(database_url: str, etcd: EtcdClient, name: str) -> Iterator[Replicas]:
    with ExitStack() as open_in:
        yield Replicas(database_url, Publisher(etcd, f"/{name}"), open_in)


@pytest.fixture
def world(database: Database, etcd: EtcdClient, name: str) -> World:
    return World(database, Publisher(etcd, f"/{name}"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """The service that the stories are told to, on either database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("shared_service")
        return
    postgres, template = request.getfixturevalue("postgres"), request.getfixturevalue("upgraded")
    with (
        postgres.database("stories", template) as url,
        ServiceProcess(tmp_path_factory.mktemp("stories"), database=url) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def http(told: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=told.url, timeout=30) as client:
        # A new fragment begins on these (the smallest names), so a story's own units always make a version 2.
        for first in ("a1", "a2", "a3"):
            client.put(f"/v1/workers/{first}", json={"parallelism": 1})
        yield client


@pytest.fixture
def story(http: httpx.Client, name: str) -> Story:
    told = Story(http, name)
    told.begin()
    return told
