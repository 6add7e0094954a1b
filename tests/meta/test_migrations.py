"""The schema's revisions, on SQLite and on a PostgreSQL of the test's own, and in the wheel."""

import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import closing
from functools import cache
from pathlib import Path

import pytest
import sqlalchemy as sa
import stamina
from alembic import command
from alembic.config import Config

from meta.store.database import Database, open_engine
from meta.store.migrations import DatabaseFromTheFuture, alembic_config, upgrade
from meta.store.tables import metadata

REPOSITORY = Path(__file__).parents[2]


def on(connection: sa.Connection) -> Config:
    config = alembic_config()
    config.attributes["connection"] = connection
    return config


def dump(database_file: Path) -> list[str]:
    with closing(sqlite3.connect(database_file)) as connection:
        return list(connection.iterdump())


@pytest.fixture
def database_file(tmp_path: Path) -> Path:
    return tmp_path / "meta.db"


@pytest.fixture
def engine(database_file: Path) -> Iterator[sa.Engine]:
    opened = open_engine(f"sqlite:///{database_file}")
    yield opened
    opened.dispose()


def test_an_empty_database_gets_all_tables(engine: sa.Engine) -> None:
    upgrade(engine)
    assert set(sa.inspect(engine).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_upgrading_again_changes_nothing(engine: sa.Engine, database_file: Path) -> None:
    upgrade(engine)
    written = dump(database_file)
    upgrade(engine)
    assert dump(database_file) == written


def test_the_revisions_make_exactly_the_tables_that_the_code_uses(database: Database) -> None:
    with database.engine.begin() as connection:
        command.check(on(connection))


def test_down_and_up_again(engine: sa.Engine, database_file: Path) -> None:
    upgrade(engine)
    written = dump(database_file)
    with engine.begin() as connection:
        command.downgrade(on(connection), "base")
    assert sa.inspect(engine).get_table_names() == ["alembic_version"]
    upgrade(engine)
    assert sorted(dump(database_file)) == sorted(written)


def test_a_database_from_the_future_is_refused_and_left_as_it_is(
    engine: sa.Engine, database_file: Path
) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        connection.exec_driver_sql("CREATE TABLE of_tomorrow (id INTEGER)")
    written = dump(database_file)
    with pytest.raises(DatabaseFromTheFuture, match=r"9999.*0001") as caught:
        upgrade(engine)
    assert caught.value.found == ("9999",)
    assert dump(database_file) == written


def test_an_upgrade_that_fails_half_way_leaves_nothing(engine: sa.Engine, database_file: Path) -> None:
    """`workers` is in the way, so the second table cannot be made; the first must not stay."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE workers (foreign_to_us TEXT)")
    written = dump(database_file)
    with pytest.raises(sa.exc.OperationalError, match="workers"):
        upgrade(engine)
    assert dump(database_file) == written


@cache
def rendered(*arguments: str) -> str:
    """What `alembic ... --sql` prints for a database administrator."""
    alembic = [sys.executable, "-m", "alembic", "-x", "dialect=postgresql", *arguments, "--sql"]
    return subprocess.run(alembic, cwd=REPOSITORY, check=True, capture_output=True, text=True).stdout


def test_the_sql_for_postgresql_is_rendered() -> None:
    statements = rendered("upgrade", "head")
    assert set(re.findall(r"CREATE TABLE (\w+)", statements)) == {*metadata.tables, "alembic_version"}
    assert "BYTEA" in statements
    assert "SERIAL" in statements


class Postgres:
    """A PostgreSQL on a socket in a folder of its own, as a user that is not root, whom it refuses."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._user = [] if os.geteuid() else ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        if not os.geteuid():
            os.chown(folder, 65534, 65534)
        self._run("initdb", "-D", folder / "data", "-U", "tester", "-A", "trust", "--no-sync", "--no-locale")
        self._process = subprocess.Popen(
            [*self._user, "postgres", "-D", folder / "data", "-k", folder, "-h", "", "-F"],
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def ask(self, sql: str) -> list[str]:
        """The answer's rows, columns with a bar between them."""
        psql = ["psql", "-h", str(self._folder), "-U", "tester", "-d", "postgres"]
        options = [
            "--no-psqlrc",
            "--quiet",
            "--tuples-only",
            "--no-align",
            "-v",
            "ON_ERROR_STOP=1",
            "-c",
            sql,
        ]
        return self._run(*psql, *options).split()

    @stamina.retry(
        on=subprocess.CalledProcessError, attempts=None, timeout=30, wait_initial=0.05, wait_max=0.2
    )
    def wait_ready(self) -> None:
        self.ask("SELECT 1")

    def stop(self) -> None:
        self._process.send_signal(2)  # its "fast" shutdown
        self._process.wait(30)

    def _run(self, *arguments: str | Path) -> str:
        command_line = [*self._user, *arguments]
        return subprocess.run(
            command_line, cwd=self._folder, check=True, capture_output=True, text=True
        ).stdout


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    for binary in ("initdb", "postgres", "psql"):
        if shutil.which(binary) is None:
            pytest.skip(f"{binary} is not on this machine")
    with tempfile.TemporaryDirectory() as folder:
        running = Postgres(Path(folder))
        try:
            running.wait_ready()
            yield running
        finally:
            running.stop()


def test_the_rendered_sql_runs_on_a_real_postgresql(postgres: Postgres) -> None:
    postgres.ask(rendered("upgrade", "head"))
    columns = postgres.ask(
        "SELECT table_name, column_name, is_nullable FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name <> 'alembic_version'"
    )
    assert set(columns) == {
        f"{table.name}|{column.name}|{'YES' if column.nullable else 'NO'}"
        for table in metadata.tables.values()
        for column in table.columns
    }
    postgres.ask(
        "INSERT INTO workers VALUES ('w', NULL, 1, 1); INSERT INTO units (worker) VALUES ('w'), ('w')"
    )
    assert postgres.ask(
        "DELETE FROM units WHERE id = 2; INSERT INTO units (worker) VALUES ('w') RETURNING id"
    ) == ["3"]
    postgres.ask(rendered("downgrade", "head:base"))
    assert postgres.ask("SELECT tablename FROM pg_tables WHERE schemaname = 'public'") == ["alembic_version"]


def test_the_wheel_has_the_listed_packages_and_upgrades_by_its_own_revisions(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=REPOSITORY, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    unpacked = tmp_path / "unpacked"
    with zipfile.ZipFile(wheel) as archive:
        files = archive.namelist()
        archive.extractall(unpacked)
    assert {file.partition("/")[0] for file in files if ".dist-info/" not in file} == {
        "storage_keys",
        "meta",
        "dispatcher",
    }
    assert not [file for file in files if "__pycache__" in file]
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from meta.store import database, migrations\n"
        "assert migrations.__file__.startswith(sys.argv[1])\n"
        "engine = database.open_engine('sqlite:///upgraded.db')\n"
        "migrations.upgrade(engine)\n"
        "print(migrations.alembic_config().get_main_option('script_location'))\n"
    )
    upgraded = subprocess.run(
        [sys.executable, "-c", program, unpacked], cwd=tmp_path, check=True, capture_output=True, text=True
    )
    assert upgraded.stdout.strip() == str(unpacked / "meta" / "store" / "alembic")
    assert any("CREATE TABLE mapping_versions" in line for line in dump(tmp_path / "upgraded.db"))
