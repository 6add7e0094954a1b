"""The database goes away, fills up or is restarted under a real service: it says so, loses nothing and goes on."""

import os
import resource
import subprocess
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.postgres import PostgresProcess
from deploy.process import ServiceProcess

Eventually = Callable[..., None]


@dataclass
class Applier:
    """Applies one plan after the other, as its operator would: what had no answer is asked again."""

    http: httpx.Client
    fragment: str
    units: list[int] = field(default_factory=list)
    promised: int = 1
    answers: Counter[int] = field(default_factory=Counter)
    problems: dict[int, dict[str, Any]] = field(default_factory=dict)

    def begin(self) -> None:
        self.units = (
            self.http.put("/v1/workers/w", json={"parallelism": 4}).raise_for_status().json()["units"]
        )
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": self.fragment, "distribution_key": key, "parallelism": 4}
        self.http.post("/v1/fragments", json=request).raise_for_status()

    def step(self) -> int:
        """One plan, applied if it can be; the status of the last answer."""
        count = 2 + self.promised % 2
        plan = self.http.post(f"/v1/fragments/{self.fragment}/plans", json={"units": self.units[:count]})
        if self._heard(plan) != 201:
            return plan.status_code
        applied = self.http.post("/v1/rescales", json={"token": plan.json()["token"]})
        if self._heard(applied) == 202:
            version = applied.json()["version"]
            assert version >= self.promised, "no version goes backwards"
            self.promised = version
        return applied.status_code

    @property
    def state(self) -> tuple[int, str]:
        found = self.http.get(f"/v1/fragments/{self.fragment}").raise_for_status().json()
        return found["version"], found["phase"]

    def require_whole(self) -> None:
        """Every version from the first to the current one is there, and at least as many as were promised."""
        current, phase = self.state
        assert (phase, current >= self.promised) == ("settled", True), (current, phase, self.promised)
        versions = self.http.get(f"/v1/fragments/{self.fragment}/versions").raise_for_status().json()
        assert [version["version"] for version in versions] == list(range(1, current + 1))

    def _heard(self, answer: httpx.Response) -> int:
        self.answers[answer.status_code] += 1
        if answer.status_code >= 500:
            assert answer.headers["content-type"] == "application/problem+json", answer.text
            self.problems[answer.status_code] = answer.json()
        return answer.status_code


@contextmanager
def applier(service: ServiceProcess, name: str) -> Iterator[Applier]:
    with httpx.Client(base_url=service.url, timeout=30) as http:
        found = Applier(http, name)
        found.begin()
        yield found


def test_postgresql_restarted_under_load_loses_nothing_that_was_promised(
    shared_etcd: str, tmp_path: Path, name: str, eventually: Eventually
) -> None:
    with (
        tempfile.TemporaryDirectory(prefix="postgres-", ignore_cleanup_errors=True) as folder,
        PostgresProcess(Path(folder)) as postgres,
        postgres.database("meta") as url,
        ServiceProcess(tmp_path / "service", shared_etcd, url) as service,
        applier(service, name) as first,
    ):
        others = [Applier(first.http, first.fragment, first.units) for _ in range(3)]
        done = threading.Event()

        def apply_on_and_on(load: Applier) -> None:
            while not done.is_set():
                load.step()

        threads = [threading.Thread(target=apply_on_and_on, args=[load]) for load in others]
        for thread in threads:
            thread.start()
        eventually(lambda: _require(all(load.answers[202] for load in others)))
        for end in (postgres.stop, postgres.kill):
            for load in others:
                load.answers[503] = 0
            end()
            eventually(lambda: _require(all(load.answers[503] > 2 for load in others)))
            promised = max(load.promised for load in others)
            postgres.start()
            eventually(lambda before=promised: _require(max(load.promised for load in others) > before + 2))
        done.set()
        for thread in threads:
            thread.join()
        first.promised = max(load.promised for load in others)
        eventually(first.require_whole)
        assert set().union(*(load.answers for load in others)) <= {201, 202, 409, 503}
        said = others[0].problems[503]
        assert said["type"] == "/problems/database-unavailable"
        assert "try again" in said["detail"]
        log = (tmp_path / "service" / "service.log").read_text()
        assert postgres.password not in log
        assert "Traceback" not in log


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a file system of its own")
def test_sqlite_on_a_full_disk_says_so_and_goes_on_when_there_is_space(
    shared_etcd: str, tmp_path: Path, name: str
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", disk], check=False).returncode:
        pytest.skip("this container may not mount")
    try:
        database = f"sqlite:///{disk / 'meta.db'}"
        with ServiceProcess(tmp_path / "service", shared_etcd, database) as service:
            with applier(service, name) as load:
                assert load.step() == 202
                ballast = disk / "ballast"
                with ballast.open("wb", buffering=0) as written, suppress(OSError):
                    while True:
                        written.write(b"\0" * 4096)
                _until(load, 507)
                assert load.problems[507]["type"] == "/problems/database-full"
                assert "free some space" in load.problems[507]["detail"]
                load.require_whole()
                ballast.unlink()
                assert load.step() == 202
                load.require_whole()
            service.kill()
            service.start()
            with httpx.Client(base_url=service.url) as http:
                Applier(http, name, promised=load.promised).require_whole()
    finally:
        subprocess.run(["umount", "--lazy", disk], check=True)


def test_sqlite_that_cannot_write_says_so_and_goes_on_when_it_can(service: ServiceProcess, name: str) -> None:
    """A limit on the size of files: to SQLite an error of the disk."""
    with applier(service, name) as load:
        assert load.step() == 202
        no_more = (64 * 1024, resource.RLIM_INFINITY)
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, no_more)
        _until(load, 503)
        assert load.problems[503]["type"] == "/problems/database-unavailable"
        load.require_whole()
        resource.prlimit(service.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        assert load.step() == 202
        load.require_whole()


def _until(load: Applier, status: int) -> None:
    """Applies until this is the answer, which is to come soon."""
    for _ in range(200):
        found = load.step()
        if found == status:
            return
        assert found in (201, 202)
    raise AssertionError(f"never {status}: {load.answers}")


def _require(condition: bool) -> None:
    assert condition
