from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.postgres import PostgresProcess
from meta.store.database import Database, open_engine
from meta.store.migrations import upgrade

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
