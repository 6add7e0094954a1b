import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest
import stamina

from deploy.postgres import PostgresProcess, jdbc_driver
from deploy.process import ServiceProcess
from meta.coordination.embedded import EmbeddedEtcd
from meta.etcd.client import EtcdClient

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The same examples in every run, so that a red test is red again.
hypothesis.settings.register_profile("steady", derandomize=True, deadline=None, print_blob=False)
hypothesis.settings.load_profile("steady")


_numbers = count(1)


@pytest.fixture
def name() -> str:
    """What the test calls its worker, its fragment or its etcd root: no other test of the run has it."""
    return f"t{next(_numbers)}"


@pytest.fixture(scope="session")
def eventually() -> Callable[..., None]:
    """Repeats a check until its assertions hold, or fails by them after `within_s` (10 by default)."""

    def run(check: Callable[[], None], within_s: float = 10) -> None:
        for attempt in stamina.retry_context(
            on=AssertionError,
            attempts=None,
            timeout=within_s,
            wait_initial=0.01,
            wait_max=0.05,
            wait_jitter=0,
        ):
            with attempt:
                check()

    return run


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":
    """The one Spark session of a test run: starting one takes 5 to 9 s."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - tests without Spark need not wait for it

    os.environ["PYSPARK_PYTHON"] = sys.executable
    jars = [str(jar) for jar in [jdbc_driver()] if jar]
    session = (
        SparkSession.builder.master("local[2]")
        .appName("vnodemap tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.jars", ",".join(jars))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))
        .getOrCreate()
    )
    yield session
    session.stop()


@pytest.fixture(scope="session")
def shared_etcd() -> Iterator[str]:
    """The endpoint of the run's common etcd: not to be stopped, and each test keeps below a root of its own."""
    # Gone at once, since each data directory is 62 MB, which pytest's tmp_path would keep.
    with (
        tempfile.TemporaryDirectory(prefix="etcd-", ignore_cleanup_errors=True) as folder,
        EmbeddedEtcd.start(Path(folder)) as running,
    ):
        yield running.endpoint


@pytest.fixture(scope="session")
def etcd(shared_etcd: str) -> Iterator[EtcdClient]:
    """A client of the run's common etcd."""
    with EtcdClient([shared_etcd]) as client:
        yield client


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresProcess]:
    """The run's common PostgreSQL: not to be stopped, and each test has a database of its own."""
    with (
        tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder,
        PostgresProcess(Path(folder)) as running,
    ):
        yield running


@pytest.fixture
def service(tmp_path: Path) -> Iterator[ServiceProcess]:
    """A service of the test's own, with its SQLite and its etcd, to kill as it likes."""
    with ServiceProcess(tmp_path / "service") as running:
        yield running


@pytest.fixture(scope="session")
def shared_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServiceProcess]:
    """The run's common service: not to be killed, and each test brings its own names."""
    with ServiceProcess(tmp_path_factory.mktemp("service")) as running:
        yield running
