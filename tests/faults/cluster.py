"""What the faults are done to: an etcd, a database and the replicas over both, all real processes."""

import os
import shutil
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from deploy.postgres import PostgresProcess
from deploy.process import ServiceProcess
from meta.coordination.embedded import EmbeddedEtcd
from tests.faults.line import Line

WORKER = "w"


@dataclass(frozen=True)
class Etcd:
    """An etcd to kill, suspend and wipe as a test likes."""

    server: EmbeddedEtcd
    folder: Path

    @property
    def endpoint(self) -> str:
        return self.server.endpoint

    def alive(self) -> bool:
        return self.server.alive()

    def kill(self) -> None:
        self._send(signal.SIGKILL)
        while self.alive():
            os.sched_yield()

    def suspend(self) -> None:
        self._send(signal.SIGSTOP)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def wipe(self) -> None:
        """What it held is lost."""
        assert not self.alive()
        shutil.rmtree(self.folder / "data")

    def start(self) -> None:
        assert self.server.restart_if_dead()

    def mend(self) -> None:
        if self.alive():
            self.resume()
        self.server.restart_if_dead()

    def _send(self, number: signal.Signals) -> None:
        pid = self.server.pid
        assert pid is not None
        os.kill(pid, number)


class AnyEtcd(Protocol):
    @property
    def endpoint(self) -> str: ...

    def alive(self) -> bool: ...


@dataclass(frozen=True)
class Deployment:
    """Every replica restarts at its own port."""

    etcd: AnyEtcd
    database_url: str
    replicas: tuple[ServiceProcess, ...]
    postgres: PostgresProcess | None

    @property
    def urls(self) -> list[str]:
        return [replica.url for replica in self.replicas]

    def require_alive(self) -> None:
        """No fault ends a process but the one that it is done to."""
        assert [replica.alive for replica in self.replicas] == [True] * len(self.replicas)
        assert self.etcd.alive()

    def require_discreet(self) -> None:
        """No replica's log holds a secret, nor a failure that nobody had thought of."""
        for replica in self.replicas:
            said = replica.log_file.read_text()
            assert "Traceback" not in said
            assert self.postgres is None or self.postgres.password not in said

    def backup(self, folder: Path) -> Callable[[], None]:
        """Beside its users; what is returned puts it in the place of the database, which nobody may use then."""
        if self.postgres is not None:
            postgres, database = self.postgres, self.database_url.rpartition("/")[2]
            return partial(postgres.restore, database, postgres.dump(database))
        file, copy = Path(self.database_url.removeprefix("sqlite:///")), folder / "backup.db"
        with closing(sqlite3.connect(file)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)

        def restore() -> None:
            for leftover in file.parent.glob(f"{file.name}-*"):
                leftover.unlink()
            shutil.copyfile(copy, file)

        return restore


@dataclass(frozen=True)
class Cluster(Deployment):
    """Two replicas, the first of which reaches etcd over `line`."""

    etcd: Etcd
    line: Line

    def mend(self) -> None:
        """Everything runs again."""
        self.line.lose()
        self.etcd.mend()
        if self.postgres is not None and not self.postgres.alive:
            self.postgres.start()
        for replica in self.replicas:
            if replica.alive:
                replica.resume()
            else:
                replica.start()
