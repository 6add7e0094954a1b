"""Real etcd servers, in temporary folders and on free loopback ports."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import trustme

from meta.coordination import child
from meta.coordination.embedded import etcd_binary
from meta.etcd.client import EtcdClient
from meta.etcd.connection import Credentials, Tls
from meta.etcd.errors import Unauthenticated

DEADLINE_S = 15


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


class Server:
    """One etcd process that a test may stop, kill, pause and start again."""

    alice = Credentials("alice", "secret")

    def __init__(self, folder: Path, *flags: str, tls: Tls | None = None) -> None:
        self.folder = folder
        self.tls = tls
        self.endpoint = f"{'https' if tls else 'http'}://127.0.0.1:{free_port()}"
        self.peer = f"http://127.0.0.1:{free_port()}"
        self.flags = ["--initial-cluster", f"{folder.name}={self.peer}", *flags]
        self.process: subprocess.Popen[bytes] | None = None

    def launch(self) -> None:
        command = [
            *(sys.executable, "-I", "-S", child.__file__, str(os.getpid()), str(etcd_binary())),
            *("--name", self.folder.name, "--data-dir", str(self.folder / "data"), "--log-level", "error"),
            *("--listen-client-urls", self.endpoint, "--advertise-client-urls", self.endpoint),
            *("--listen-peer-urls", self.peer, "--initial-advertise-peer-urls", self.peer),
            *("--heartbeat-interval", "20", "--election-timeout", "200", "--bcrypt-cost", "4", *self.flags),
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def await_ready(self) -> None:
        with EtcdClient([self.endpoint], tls=self.tls) as client:
            try:
                ready = client.wait_ready(DEADLINE_S * 1000)
            except Unauthenticated:
                ready = True
            assert ready, (self.folder / "log").read_text()

    def start(self) -> None:
        self.launch()
        self.await_ready()

    def end(self, sign: signal.Signals = signal.SIGTERM) -> None:
        self.process.send_signal(sign)
        self.process.wait(DEADLINE_S)

    def pause(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def wipe(self) -> None:
        shutil.rmtree(self.folder / "data")

    def ctl(self, *arguments: str, password: str | None = None) -> str:
        """Run etcdctl as root; what it prints."""
        login = ["--user", f"root:{password}"] if password else []
        trust = ["--cacert", str(self.tls.ca_file)] if self.tls else []
        ctl = etcd_binary().with_name("etcdctl")
        command = [ctl, "--endpoints", self.endpoint, *trust, *login, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=DEADLINE_S).stdout

    def require_login(self) -> None:
        """Alice may do what she likes below `/open/`, and nothing elsewhere."""
        for command in (
            ("user", "add", "root:rootpw"),
            ("user", "grant-role", "root", "root"),
            ("role", "add", "open"),
            ("role", "grant-permission", "open", "readwrite", "/open/", "--prefix"),
            ("user", "add", f"{self.alice.user}:{self.alice.password}"),
            ("user", "grant-role", self.alice.user, "open"),
            ("auth", "enable"),
        ):
            self.ctl(*command)


@pytest.fixture
def make_server() -> Iterator[Callable[..., Server]]:
    """Makes servers, not yet started; all are killed at the end."""
    made: list[Server] = []
    # Gone at once, since each data directory is 62 MB, which pytest's tmp_path would keep.
    with tempfile.TemporaryDirectory(prefix="etcd-", ignore_cleanup_errors=True) as folder:

        def make(*flags: str, tls: Tls | None = None) -> Server:
            home = Path(folder) / f"s{len(made)}"
            home.mkdir()
            made.append(Server(home, *flags, tls=tls))
            return made[-1]

        yield make
        for server in made:
            if server.process and server.process.poll() is None:
                server.end(signal.SIGKILL)


@pytest.fixture
def server(make_server: Callable[..., Server]) -> Server:
    """A running server of the test's own."""
    made = make_server()
    made.start()
    return made


@pytest.fixture
def authority(tmp_path: Path) -> tuple[Tls, tuple[str, ...]]:
    """How a client trusts, and the flags of a server to be trusted at 127.0.0.1."""
    ca = trustme.CA()
    issued = ca.issue_cert("127.0.0.1", "localhost")
    ca.cert_pem.write_to_path(tmp_path / "ca.pem")
    issued.private_key_pem.write_to_path(tmp_path / "key.pem")
    issued.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    flags = ("--cert-file", str(tmp_path / "cert.pem"), "--key-file", str(tmp_path / "key.pem"))
    return Tls(ca_file=tmp_path / "ca.pem"), flags


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A prefix of the test's own."""
    return f"/{request.node.name}/"


@pytest.fixture
def soon() -> Iterator[Callable[..., Any]]:
    """Waits for a blocking function's result, within a deadline."""
    with ThreadPoolExecutor(1) as pool:

        def wait(blocking: Callable[[], Any]) -> Any:
            return pool.submit(blocking).result(DEADLINE_S)

        yield wait


@pytest.fixture
def until(soon: Callable[..., Any]) -> Callable[..., Any]:
    """The first item of a blocking iterator that satisfies a condition, within a deadline."""

    def first(items: Iterator[Any], condition: Callable[[Any], bool]) -> Any:
        return soon(lambda: next(item for item in items if condition(item)))

    return first
