"""What `vnodectl serve` says where PostgreSQL cannot be used as it was told: what to do, and never the password."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import psycopg
import pytest

from deploy.postgres import PostgresProcess
from deploy.process import ServiceProcess
from meta.store.url import database_url, shown
from meta.vnodectl import service
from meta.vnodectl.session import ServeError


def refused(data_dir: Path, url: str) -> str:
    with pytest.raises(ServeError) as caught:
        service.run(data_dir, "127.0.0.1", 0, url, None)
    assert not (data_dir / "etcd").exists(), "nothing was started"
    return str(caught.value)


def serve(data_dir: Path, *options: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [*(sys.executable, "-m", "meta.vnodectl", "serve", "--data-dir", data_dir, "--port", "0"), *options],
        env={**os.environ, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def test_the_wrong_password_is_told_and_not_shown(postgres: PostgresProcess, tmp_path: Path) -> None:
    url = postgres.url("postgres").replace(postgres.password, "a-secret")
    said = refused(tmp_path, url)
    assert said.startswith(
        f"the database postgresql+psycopg://tester:***@127.0.0.1:{postgres.port}/postgres cannot"
    )
    assert "password authentication failed" in said
    assert "PGPASSWORD" in said
    assert "a-secret" not in said


def test_a_password_among_the_options_is_not_shown_either(postgres: PostgresProcess, tmp_path: Path) -> None:
    said = refused(tmp_path, f"postgresql://tester@127.0.0.1:{postgres.port}/postgres?password=a-secret")
    assert "password authentication failed" in said
    assert "a-secret" not in said


def test_a_database_that_is_not_there_is_to_be_created(postgres: PostgresProcess, tmp_path: Path) -> None:
    said = refused(tmp_path, postgres.url("nowhere"))
    assert 'database "nowhere" does not exist' in said
    assert "createdb nowhere" in said
    assert postgres.password not in said


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with socket.socket() as taken:  # bound, and nobody listens
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        said = refused(tmp_path, f"postgresql://tester:a-secret@127.0.0.1:{port}/meta")
    assert "Connection refused" in said
    assert "Is it running, does it listen on that host and port" in said
    assert "a-secret" not in said


def test_a_server_that_says_nothing_is_waited_for_a_few_seconds(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"postgresql://tester@127.0.0.1:{silent.getsockname()[1]}/meta?connect_timeout=2"
        assert "timeout" in refused(tmp_path, url)


def test_a_user_who_may_not_make_tables(postgres: PostgresProcess, tmp_path: Path, name: str) -> None:
    with postgres.database(name) as url:
        postgres.execute("CREATE ROLE guest LOGIN PASSWORD 'guest'")
        said = refused(tmp_path, url.replace(f"tester:{postgres.password}", "guest:guest"))
        postgres.execute("DROP ROLE guest")
    assert "permission denied for schema public" in said
    assert "GRANT CREATE ON SCHEMA public TO guest" in said


def test_without_the_driver_it_says_which_extra_to_install(tmp_path: Path) -> None:
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "psycopg.py").write_text(
        "raise ModuleNotFoundError(\"No module named 'psycopg'\", name='psycopg')\n"
    )
    ran = serve(tmp_path, "--database", "postgresql://tester:a-secret@127.0.0.1/meta", PYTHONPATH=str(hidden))
    assert ran.returncode == 2
    assert "pip install 'vnodemap[postgresql]'" in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "a-secret" not in ran.stderr


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql+psycopg2://u:a-secret@h/d", "plain postgresql:// does"),
        ("mysql://u:a-secret@h/d", "mysql:// is neither sqlite:// nor postgresql://"),
        ("postgresql://u:a-secret@h:port/d", "it is no URL"),
        ("a-secret", "it is no URL"),
    ],
)
def test_a_url_of_something_else_is_told_how_to_be(tmp_path: Path, url: str, words: str) -> None:
    said = refused(tmp_path, url)
    assert said.startswith("the database URL cannot be used: ")
    assert words in said
    assert "a-secret" not in said


@pytest.mark.parametrize("scheme", ["postgresql", "postgres", "postgresql+psycopg"])
def test_every_way_to_write_postgresql_means_psycopg(scheme: str) -> None:
    url = database_url(f"{scheme}://user:a%40b@host:5433/meta?sslmode=require")
    assert (url.drivername, url.password, dict(url.query)) == (
        "postgresql+psycopg",
        "a@b",
        {"sslmode": "require"},
    )
    assert shown(url) == "postgresql+psycopg://user:***@host:5433/meta?sslmode=require"


def test_a_service_on_postgresql_has_no_sqlite(
    postgres: PostgresProcess, shared_etcd: str, tmp_path: Path, name: str
) -> None:
    with postgres.database(name) as url:
        with ServiceProcess(tmp_path / "service", shared_etcd, url) as running:
            units = (
                httpx.put(f"{running.url}/v1/workers/w", json={"parallelism": 2}).raise_for_status().json()
            )
            assert units["units"] == [1, 2]
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT name FROM workers").fetchall() == [("w",)]
        assert not (tmp_path / "service" / "meta.db").exists()
