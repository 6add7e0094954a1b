"""A network of its own for one server, with one cable to this machine that can be pulled."""

import json
import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

from meta.coordination import child
from meta.coordination.embedded import etcd_binary
from meta.etcd.client import EtcdClient

CLIENT_PORT, PEER_PORT = 2379, 2380
START_MS = 20_000


class Island:
    """A network namespace. `host` is its address, on a subnet of the range that is set aside for such tests.

    Skips the test where this machine does not let us.
    """

    def __init__(self, number: int) -> None:
        if os.geteuid() != 0:
            pytest.skip("only root may make a network namespace")
        self.name = f"vnodemap-{os.getpid()}-{number}"
        self.host, self._here = f"198.18.{number}.2", f"198.18.{number}.1"
        self._cable = f"vm{os.getpid()}-{number}"

    def __enter__(self) -> Self:
        with ExitStack() as undo:
            undo.callback(self._remove)
            try:
                _ip("netns", "add", self.name)
                _ip("link", "add", self._cable, "type", "veth", "peer", "name", "inside", "netns", self.name)
            except (OSError, subprocess.CalledProcessError) as error:
                pytest.skip(f"this machine does not let us make a network namespace ({error})")
            self._connect()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    def cut(self) -> None:
        """Nothing passes in either direction, and nobody is told."""
        _ip("-n", self.name, "link", "set", "dev", "inside", "down")

    def heal(self) -> None:
        _ip("-n", self.name, "link", "set", "dev", "inside", "up")

    def _connect(self) -> None:
        _ip("addr", "add", f"{self._here}/30", "dev", self._cable)
        _ip("link", "set", "dev", self._cable, "up")
        _ip("-n", self.name, "addr", "add", f"{self.host}/30", "dev", "inside")
        # A server also speaks to itself.
        for link in ("lo", "inside"):
            _ip("-n", self.name, "link", "set", "dev", link, "up")
        # Who it is, is known for good: a cut is silence, and not soon "no route to host".
        (inside,) = json.loads(_told("ip", "-n", self.name, "-json", "link", "show", "dev", "inside"))
        known = ("lladdr", inside["address"], "dev", self._cable, "nud", "permanent")
        _ip("neigh", "replace", self.host, *known)

    def _remove(self) -> None:
        subprocess.run(["ip", "link", "delete", self._cable], check=False, capture_output=True)
        subprocess.run(["ip", "netns", "delete", self.name], check=False, capture_output=True)


class IslandEtcd:
    """An etcd on an island."""

    def __init__(self, folder: Path, island: Island) -> None:
        self._folder = folder
        self._island = island
        self.endpoint = f"http://{island.host}:{CLIENT_PORT}"

    def __enter__(self) -> Self:
        peers = f"http://{self._island.host}:{PEER_PORT}"
        flags = {
            "data-dir": str(self._folder / "data"),
            "listen-client-urls": self.endpoint,
            "advertise-client-urls": self.endpoint,
            "listen-peer-urls": peers,
            "initial-advertise-peer-urls": peers,
            "initial-cluster": f"default={peers}",
            "heartbeat-interval": "20",
            "election-timeout": "200",
            "log-level": "error",
        }
        words = [word for flag, value in flags.items() for word in (f"--{flag}", value)]
        inside = _in(Path(f"/run/netns/{self._island.name}"))
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, child.__file__, str(os.getpid()), *inside, str(etcd_binary()), *words],
                stdout=log,
                stderr=log,
            )
        with ExitStack() as undo, EtcdClient([self.endpoint]) as client:
            undo.callback(self._end)
            assert client.wait_ready(START_MS), (self._folder / "log").read_text()
            undo.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()

    def alive(self) -> bool:
        return self._process.poll() is None


def _in(namespace: Path) -> list[str]:
    program = shutil.which("nsenter")
    assert program is not None
    return [program, f"--net={namespace}"]


def _ip(*words: str) -> None:
    _told("ip", *words)


def _told(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
