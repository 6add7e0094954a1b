import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest

from deploy.postgres import PostgresProcess
from deploy.process import ServiceProcess
from meta.coordination.embedded import EmbeddedEtcd
from tests.faults.cluster import Cluster, Etcd
from tests.faults.line import Line
from tests.faults.observed import Observed, observed

Eventually = Callable[..., None]
Observing = Callable[..., AbstractContextManager[Observed]]


@contextmanager
def _etcd(folder: Path) -> Iterator[Etcd]:
    with EmbeddedEtcd.start(folder) as server:
        yield Etcd(server, folder)


@contextmanager
def _cluster(folder: Path, kind: str) -> Iterator[Cluster]:
    with ExitStack() as running:
        etcd = running.enter_context(_etcd(folder / "etcd"))
        line = running.enter_context(Line(etcd.endpoint))
        postgres = None
        if kind == "postgresql":
            home = folder / "postgres"
            home.mkdir()
            postgres = running.enter_context(PostgresProcess(home))
            url = running.enter_context(postgres.database("meta"))
        else:
            url = f"sqlite:///{folder / 'meta.db'}"
        replicas = tuple(
            running.enter_context(ServiceProcess(folder / name, endpoint, url))
            for name, endpoint in (("one", line.endpoint), ("two", etcd.endpoint))
        )
        yield Cluster(etcd, url, replicas, postgres, line)


@pytest.fixture(scope="session", params=["postgresql", pytest.param("sqlite", marks=pytest.mark.slow)])
def shared_cluster(request: pytest.FixtureRequest) -> Iterator[Cluster]:
    # Gone at once, since etcd's data alone is 62 MB, which pytest's tmp_path would keep.
    with tempfile.TemporaryDirectory(prefix="faults-", ignore_cleanup_errors=True) as folder:
        # PostgreSQL's own user has to come by.
        Path(folder).chmod(0o755)
        with _cluster(Path(folder), request.param) as cluster:
            yield cluster


@pytest.fixture
def cluster(shared_cluster: Cluster) -> Iterator[Cluster]:
    """The run's common cluster, to kill what one likes of: everything runs again for the next test."""
    yield shared_cluster
    shared_cluster.mend()


@pytest.fixture
def under_load(cluster: Cluster, name: str, eventually: Eventually) -> Observing:
    """`with under_load() as seen`: a fragment of the cluster that is rescaled all the time, before witnesses.

    Whatever is done to the cluster in the block, at its end all invariants hold; what was killed runs again by then.
    """
    return partial(observed, cluster, name, eventually)
