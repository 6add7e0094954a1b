"""SQLite cannot write: the disk is full, or refuses."""

import os
import resource
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from deploy.process import ServiceProcess
from meta.coordination.embedded import EmbeddedEtcd
from tests.faults.cluster import Deployment, Etcd
from tests.faults.observed import Observed, observed

Eventually = Callable[..., None]
RESERVED = 4096


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    if os.geteuid() != 0:
        pytest.skip("only root may mount a file system")
    folder = tmp_path / "disk"
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", folder], check=False).returncode:
        pytest.skip("this machine does not let us mount a file system")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


@pytest.fixture
def etcd() -> Iterator[Etcd]:
    """Of the test's own: in a common one there are fragments that its database does not know."""
    with (
        tempfile.TemporaryDirectory(prefix="etcd-", ignore_cleanup_errors=True) as folder,
        EmbeddedEtcd.start(Path(folder)) as server,
    ):
        yield Etcd(server, Path(folder))


@contextmanager
def over_sqlite(etcd: Etcd, folder: Path, database: Path) -> Iterator[Deployment]:
    url = f"sqlite:///{database}"
    with ServiceProcess(folder, etcd.endpoint, url) as service:
        yield Deployment(etcd, url, (service,), None)


def test_sqlite_on_a_full_disk_says_so_and_goes_on_when_there_is_space(
    etcd: Etcd, disk: Path, tmp_path: Path, name: str, eventually: Eventually
) -> None:
    with (
        over_sqlite(etcd, tmp_path / "service", disk / "meta.db") as alone,
        observed(alone, name, eventually) as seen,
    ):
        ballast = disk / "ballast"
        with ballast.open("wb", buffering=0) as written, suppress(OSError):
            while True:
                written.write(b"\0" * RESERVED)
        eventually(lambda: require_refused(seen, 507), 60)
        ballast.unlink()
        seen.wait_progress()
        (service,) = alone.replicas
        service.kill()
        service.start()
    assert set(seen.operator.answers) <= {200, 201, 202, 409, 507}
    problem = seen.operator.problems[507]
    assert problem["type"] == "/problems/database-full"
    assert "free some space" in problem["detail"]


def test_sqlite_that_cannot_write_says_so_and_goes_on_when_it_can(
    etcd: Etcd, tmp_path: Path, name: str, eventually: Eventually
) -> None:
    with (
        over_sqlite(etcd, tmp_path / "service", tmp_path / "meta.db") as alone,
        observed(alone, name, eventually) as seen,
    ):
        (service,) = alone.replicas
        # To SQLite an error of the disk.
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (64 * 1024, resource.RLIM_INFINITY))
        eventually(lambda: require_refused(seen, 503), 60)
        unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, unlimited)
        seen.wait_progress()
    assert set(seen.operator.answers) <= {200, 201, 202, 409, 503}
    assert seen.operator.problems[503]["type"] == "/problems/database-unavailable"


def require_refused(seen: Observed, status: int) -> None:
    assert seen.operator.answers[status] > 2, seen.operator.answers
