from collections.abc import Iterator
from pathlib import Path

import pytest

from meta.coordination.embedded import EmbeddedEtcd
from meta.etcd.client import EtcdClient
from meta.store.database import Database
from meta.store.migrations import upgrade


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database(f"sqlite:///{tmp_path / 'meta.db'}")
    upgrade(opened.engine)
    yield opened
    opened.close()


@pytest.fixture(scope="session")
def etcd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EtcdClient]:
    """One etcd for all tests that leave it alive; each takes its `name` as root."""
    with (
        EmbeddedEtcd.start(tmp_path_factory.mktemp("etcd")) as running,
        EtcdClient([running.endpoint]) as client,
    ):
        yield client
