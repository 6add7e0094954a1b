import shutil
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import LiteralString

import httpx
import psycopg
import pytest
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
from meta.store.tables import metadata
from tests.meta.serving import served
from tests.meta.story import Story
from tests.meta.world import World


class Emptied:
    """One PostgreSQL database with all tables for a whole run: to empty it costs a tenth of what a new one does."""

    def __init__(self, url: str) -> None:
        self.url = url
        upgrading = open_engine(url)
        upgrade(upgrading)
        upgrading.dispose()
        self._session = psycopg.connect(url, autocommit=True)
        (revision,) = self._asked("SELECT version_num FROM alembic_version")
        counters = self._asked("SELECT sequencename FROM pg_sequences")
        self._emptying = "; ".join(
            [
                *(f"DELETE FROM {table.name}" for table in reversed(metadata.sorted_tables)),
                *(f"ALTER SEQUENCE {counter} RESTART" for counter in counters),
                f"UPDATE alembic_version SET version_num = '{revision}'",
            ]
        )

    def empty(self) -> None:
        """As new, whatever the test before left in it or still holds open."""
        self._session.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND backend_type = 'client backend' AND pid <> pg_backend_pid()"
        )
        self._session.execute(self._emptying)

    def close(self) -> None:
        self._session.close()

    def _asked(self, question: LiteralString) -> list[str]:
        return [value for (value,) in self._session.execute(question)]


@pytest.fixture(scope="session")
def emptied(postgres: PostgresProcess) -> Iterator[Emptied]:
    with postgres.database("emptied") as url, closing(Emptied(url)) as database:
        yield database


@pytest.fixture(scope="session")
def upgraded_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An SQLite database with all tables, to be copied: far quicker than the revisions."""
    file = tmp_path_factory.mktemp("upgraded") / "meta.db"
    engine = open_engine(f"sqlite:///{file}")
    upgrade(engine)
    engine.dispose()
    return file


@pytest.fixture(params=["sqlite", "postgresql"])
def empty_url(request: pytest.FixtureRequest, tmp_path: Path, name: str) -> Iterator[str]:
    """A database without a table, of either kind."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'meta.db'}"
        return
    with request.getfixturevalue("postgres").database(f"empty_{name}") as url:
        yield url


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database with all tables and no rows, of either kind."""
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("upgraded_file"), tmp_path / "meta.db")
        return f"sqlite:///{tmp_path / 'meta.db'}"
    emptied: Emptied = request.getfixturevalue("emptied")
    emptied.empty()
    return emptied.url


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    opened = Database(database_url)
    yield opened
    opened.close()


def plain_http(url: str) -> httpx.Client:
    # Where nothing is encrypted, to read the machine's certificate authorities costs more than most tests.
    return httpx.Client(base_url=url, trust_env=False, verify=False, timeout=30)


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
        url = self._open_in.enter_context(served(self.apps[-1]))
        return self._open_in.enter_context(plain_http(url))


@pytest.fixture
def replicas(database_url: str, etcd: EtcdClient, name: str) -> Iterator[Replicas]:
    with ExitStack() as open_in:
        yield Replicas(database_url, Publisher(etcd, f"/{name}"), open_in)


@pytest.fixture
def world(database: Database, etcd: EtcdClient, name: str) -> World:
    return World(database, Publisher(etcd, f"/{name}"))


@pytest.fixture(scope="session")
def shared_postgres_url(postgres: PostgresProcess) -> Iterator[str]:
    """The database of `shared_service_on_postgres`."""
    with postgres.database("shared_service") as url:
        yield url


@pytest.fixture(scope="session")
def shared_service_on_postgres(
    shared_postgres_url: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """The same as `shared_service`, on the other database."""
    folder = tmp_path_factory.mktemp("service_on_postgres")
    with ServiceProcess(folder, database=shared_postgres_url) as running:
        yield running


@pytest.fixture(
    scope="module", params=["shared_service", "shared_service_on_postgres"], ids=["sqlite", "postgresql"]
)
def told(request: pytest.FixtureRequest) -> ServiceProcess:
    """The service that the stories are told to, on either database."""
    service: ServiceProcess = request.getfixturevalue(request.param)
    return service


@pytest.fixture(scope="module")
def http(told: ServiceProcess) -> Iterator[httpx.Client]:
    with plain_http(told.url) as client:
        # A new fragment begins on these (the smallest names), so a story's own units always make a version 2.
        for first in ("a1", "a2", "a3"):
            client.put(f"/v1/workers/{first}", json={"parallelism": 1})
        yield client


@pytest.fixture
def story(http: httpx.Client, name: str) -> Story:
    told = Story(http, name)
    told.begin()
    return told
