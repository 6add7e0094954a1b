"""A real `vnodectl serve` as a child process: started on any free port, found again, stopped or killed."""

import json
import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx
import stamina

from meta.coordination import child

START_TIMEOUT_S = 30.0
STOP_TIMEOUT_S = 15.0


class NotReady(Exception):
    """The service has not said yet where it is."""


class ServiceProcess:
    """`vnodectl serve --data-dir DIR`, with an etcd of its own unless `etcd` (HOST:PORT) is given, and SQLite unless
    `database` (a URL) is.

    A restart keeps its data, its port and its own etcd's port. `settings` are further options, as VNODEMAP_ variables;
    with TLS among them `ca_file` is whom to trust.
    """

    def __init__(
        self,
        data_dir: Path,
        etcd: str | None = None,
        database: str | None = None,
        *,
        settings: Mapping[str, str] | None = None,
        ca_file: Path | None = None,
    ) -> None:
        self._settings = dict(settings or {})
        # Without TLS nobody is to be trusted, and the machine's own authorities would be read at each question.
        self._trust = (
            ssl.create_default_context(cafile=ca_file) if ca_file else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        )
        self._data_dir = data_dir
        self._etcd = etcd
        self._database = database
        self.log_file = data_dir / "service.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._data_dir.mkdir(parents=True, exist_ok=True)
        (self._data_dir / "service.json").unlink(missing_ok=True)
        port = httpx.URL(self.url).port if self.url else 0
        # What this machine's own service is configured with is not for this one.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("VNODEMAP_")}
        environment.update(self._settings)
        if self._database:
            # Not an argument: those are for everybody on the machine to see, and a URL may hold a password.
            environment["VNODEMAP_DATABASE_URL"] = self._database
        with self.log_file.open("ab") as log:
            self._process = subprocess.Popen(
                # Through `child`, the service ends with this process, however that ends.
                [
                    *(sys.executable, child.__file__, str(os.getpid())),
                    *(sys.executable, "-m", "meta.vnodectl", "serve"),
                    *("--data-dir", self._data_dir, "--port", str(port)),
                    *(("--etcd", self._etcd) if self._etcd else ()),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
                # A terminal's Ctrl-C goes to whole groups; when to stop the service is for its starter to say.
                start_new_session=True,
            )
        with ExitStack() as undo:
            # Whoever starts it in a `with` has nothing to stop it by.
            undo.callback(self.stop)
            self.url = self._wait_ready()
            undo.pop_all()

    @property
    def alive(self) -> bool:
        """Whether the process is there; it may be suspended."""
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        """SIGKILL, as a crash would be."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def suspend(self) -> None:
        """SIGSTOP: it stands still, with all its connections open."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def stop(self) -> None:
        if not self.alive:
            return
        assert self._process is not None
        self._process.terminate()
        # Where it is suspended, it hears of that only now.
        self.resume()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def _wait_ready(self) -> str:
        polling = stamina.retry_context(
            on=(NotReady, httpx.TransportError),
            attempts=None,
            timeout=START_TIMEOUT_S,
            wait_initial=0.05,
            wait_max=0.2,
        )
        for attempt in polling:
            with attempt:
                return self._ready_url()
        raise AssertionError("unreachable: the last attempt raises")

    def _ready_url(self) -> str:
        assert self._process is not None
        if self._process.poll() is not None:
            raise RuntimeError(
                f"the service ended at once; its log says:\n{self.log_file.read_text()[-2000:]}"
            )
        try:
            url = str(json.loads((self._data_dir / "service.json").read_text())["url"])
        except FileNotFoundError as error:
            raise NotReady from error
        httpx.get(f"{url}/v1/health", verify=self._trust).raise_for_status()
        return url
