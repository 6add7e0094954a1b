"""`vnodectl` as real processes: the offline forms, and what `serve` refuses."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from statistics import median
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from deploy.process import ServiceProcess
from meta.store.database import open_engine
from meta.store.migrations import upgrade
from meta.vnodectl import service
from meta.vnodectl.main import app
from meta.vnodectl.session import ServeError

TIMEOUT_S = 60


def vnodectl(*arguments: str | Path, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        [sys.executable, "-m", "meta.vnodectl", *arguments],
        input=given,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def answer(*arguments: str, to: Any) -> Any:
    """The one JSON document that a command answers with exit code 0."""
    result = vnodectl(*arguments, given=json.dumps(to).encode())
    assert (result.returncode, result.stderr) == (0, b"")
    return json.loads(result.stdout)


def refusal(*arguments: str, given: bytes) -> Any:
    result = vnodectl(*arguments, given=given)
    assert (result.returncode, result.stderr) == (2, b"")
    document = json.loads(result.stdout)
    assert document["detail"]
    return document["error"]


def test_plan_offline() -> None:
    units = [{"id": number} for number in (0, 1, 2)]
    planned = answer("plan", "--offline", to={"previous": [0, 0, 0, 0, 1, None], "units": units})
    assert planned["owners"].count(2) == 2
    figures = [planned[name] for name in ("lower_bound", "gap", "assigned", "spread", "cross_worker_moves")]
    assert (len(planned["moves"]), figures) == (2, [2, 0, 1, 0, 2])
    assert planned["runs"] >= 3


def test_plan_offline_refuses_with_exit_code_2() -> None:
    assert refusal("plan", "--offline", given=b'{"vnode_count": 4, "units": []}') == "no-units"


def test_plan_offline_by_lines_goes_on_after_a_refused_line() -> None:
    given = b'{"vnode_count": 2, "units": [{"id": 7}]}\n{oops\n\xff\n{"vnode_count": 1, "units": [{"id": 3}]}'
    result = vnodectl("plan", "--offline", "--lines", given=given)
    first, second, third, fourth = map(json.loads, result.stdout.splitlines())
    assert result.returncode == 0
    assert (first["owners"], fourth["owners"]) == ([7, 7], [3])
    assert second["error"] == third["error"] == "malformed"
    assert (second["line"], third["line"]) == (2, 3)


@pytest.mark.parametrize(
    ("redirected", "problem"),
    [("<&-", b"must be open"), (">&-", b"must be open"), ("> /dev/full", b"No space left on device")],
)
def test_an_answer_that_nobody_can_read_is_an_error(redirected: str, problem: bytes) -> None:
    command = f"{sys.executable} -m meta.vnodectl plan --offline {redirected}"
    given = b'{"vnode_count": 2, "units": [{"id": 7}]}'
    result = subprocess.run(
        command, shell=True, input=given, capture_output=True, timeout=TIMEOUT_S, check=False
    )
    assert (result.returncode, result.stdout) == (2, b"")
    assert problem in result.stderr
    assert b"Traceback" not in result.stderr


def test_a_field_that_comes_twice_is_refused_and_not_lost() -> None:
    given = b'{"vnode_count": 4, "units": [{"id": 1, "id": 2}]}'
    result = vnodectl("plan", "--offline", given=given)
    assert (result.returncode, json.loads(result.stdout)["error"]) == (2, "malformed")
    assert "'id' comes twice" in json.loads(result.stdout)["detail"]


def test_key_encode_and_decode() -> None:
    text = {"type": "string", "value": "Zürich", "descending": True}
    encoded = answer("key", "encode", to=text)
    assert answer("key", "decode", to={"type": "string", "descending": True, **encoded}) == {
        "value": "Zürich"
    }


def test_key_storage_vnode_and_range_agree() -> None:
    columns = [{"type": "bigint", "value": 5}]
    located = answer("key", "vnode", to={"columns": columns, "vnode_count": 256})
    key = answer(
        "key", "storage", to={"table_id": 7, "columns": columns, "distribution": [0], "vnode_count": 256}
    )
    found = answer("key", "range", to={"table_id": 7, "vnode": located["vnode"], "vnode_count": 256})
    assert (key["prefix"], key["vnode"]) == (located["prefix"], located["vnode"])
    assert found["start"] <= key["hex"] < found["end"]


def test_key_refuses_with_exit_code_2() -> None:
    assert refusal("key", "range", given=b"\xff\xfe\xfd") == "malformed"


@pytest.mark.parametrize(
    ("command", "given", "error"),
    [
        ("key encode", b'{"type": "map", "value": 5}', "unsupported-type"),
        ("key decode", b'{"type": "int", "hex": "01"}', "truncated"),
        ("key vnode", b'{"columns": [{"type": "int", "value": 1}], "vnode_count": 0}', "bad-vnode-count"),
        ("key storage", b"[]", "malformed"),
        ("key range", b"", "malformed"),
        ("plan --offline", b'{"vnode_count": 1, "units": [{"id": 0}, {"id": 1}]}', "more-units-than-vnodes"),
        ("plan --offline", b"[" * 100_000, "malformed"),
    ],
)
def test_each_command_refuses_in_the_same_way(command: str, given: bytes, error: str) -> None:
    """In this process, which is quicker."""
    result = CliRunner().invoke(app, command.split(), input=given)
    assert result.exit_code == 2
    assert json.loads(result.stdout)["error"] == error


def test_key_by_lines() -> None:
    given = b'{"type": "int", "value": 5}\n{"type": "int", "value": "x\\ud800"}\n[1]\n{"type": "int", "value": null}\n'
    result = vnodectl("key", "encode", "--lines", given=given)
    first, second, third, fourth = map(json.loads, result.stdout.splitlines())
    assert result.returncode == 0
    assert (first, set(fourth)) == ({"hex": "0180000005"}, {"hex"})
    assert {"error", "detail"} <= set(second)
    assert third["error"] == "malformed"


def told(result: subprocess.CompletedProcess[bytes]) -> str:
    """The error that `serve` ended with: no traceback, nothing started."""
    errors = result.stderr.decode()
    assert result.returncode == 2, errors
    assert "Traceback" not in errors
    assert result.stdout == b""
    return errors.partition("error: ")[2]


def refused(
    data_dir: Path, database_url: str | None = None, port: int = 0, etcd: list[str] | None = None
) -> str:
    """What `serve` says, asked in this process, which is quicker."""
    with pytest.raises(ServeError) as caught:
        service.run(data_dir, "127.0.0.1", port, database_url, etcd)
    return str(caught.value)


def test_serve_refuses_to_listen_for_others(tmp_path: Path) -> None:
    said = told(vnodectl("serve", "--data-dir", tmp_path, "--host", "0.0.0.0", "--port", "0"))
    assert said.startswith("0.0.0.0 is not a loopback address")
    assert "--tls-cert" in said


def test_serve_refuses_a_database_from_the_future(tmp_path: Path) -> None:
    engine = open_engine(f"sqlite:///{tmp_path / 'meta.db'}")
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
    engine.dispose()
    said = told(vnodectl("serve", "--data-dir", tmp_path, "--port", "0"))
    assert "9999" in said
    assert "its newest is 0002" in said
    assert not (tmp_path / "etcd").exists()


BROKEN = """
from meta.vnodectl import main, service

async def broken(_control):
    raise RuntimeError("our mistake")

service._forget_forever = broken
main.main()
"""


def test_a_service_that_ends_by_itself_is_no_success(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BROKEN, "serve", "--data-dir", str(tmp_path), "--port", "0"]
    result = subprocess.run(command, capture_output=True, timeout=TIMEOUT_S, check=False)
    errors = result.stderr.decode()
    assert result.returncode == 2, errors
    assert "our mistake" in errors
    assert errors.splitlines()[-1].startswith("error: the service ended since a part of it failed")


def test_an_answer_does_not_wait_for_the_client_to_acknowledge_its_head(
    shared_service: ServiceProcess, eventually: Callable[..., None]
) -> None:
    """With Nagle's algorithm the body of every answer came 40 ms late."""

    def prompt() -> None:
        with httpx.Client(base_url=shared_service.url, trust_env=False) as http:
            taken = [http.get("/v1/health").elapsed for _ in range(30)]
        assert median(taken) < timedelta(milliseconds=30)

    eventually(prompt, 60)


def test_serve_refuses_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        said = refused(tmp_path, port=port)
    assert said.startswith(f"cannot listen on 127.0.0.1:{port}: Address already in use; is a service running")
    assert said.endswith("choose another --port")


def test_serve_refuses_what_is_no_database_or_no_folder(tmp_path: Path) -> None:
    (tmp_path / "meta.db").write_bytes(
        b"a letter to my aunt, longer than the header of a database file " * 20
    )
    said = refused(tmp_path)
    assert said.startswith("the database sqlite:///")
    assert "file is not a database" in said
    assert refused(tmp_path / "meta.db").endswith("cannot be used (File exists); choose another --data-dir")


def test_serve_tells_of_a_database_url_without_its_password(tmp_path: Path) -> None:
    assert refused(tmp_path, "nonsense").startswith("the database URL cannot be used: ")
    assert "secret" not in refused(tmp_path, "postgresql+nonsense://user:secret@db/meta")
    said = refused(tmp_path, f"sqlite:///{tmp_path}/nowhere/meta.db")
    assert "unable to open database file" in said


@pytest.mark.parametrize("etcd", ["localhost", "localhost:", "localhost:99999", "https://localhost:2379"])
def test_serve_says_how_an_etcd_is_named(tmp_path: Path, etcd: str) -> None:
    said = refused(tmp_path, etcd=["127.0.0.1:2379", etcd])
    assert said == f"--etcd takes HOST:PORT, for example 127.0.0.1:2379, and not 127.0.0.1:2379, {etcd}"
