"""The schema's revisions, on SQLite and on PostgreSQL, and in the wheel."""

import re
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import cache
from pathlib import Path
from threading import Barrier
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.util import CommandError

from deploy.postgres import PostgresProcess
from meta.store.database import open_engine
from meta.store.migrations import DatabaseFromTheFuture, alembic_config, upgrade
from meta.store.rescales import Rescales
from meta.store.tables import metadata

FRAGMENT_OF_0001 = """
INSERT INTO fragments (name, vnode_count, distribution_key, hash_id, applier_timeout_ms, created_at_ms, version, phase)
VALUES ('f', 2, '[]', 'xxh64-1:utf8', 1000, 5, 2, 'settled')
"""
PLAN_OF_0001 = """
INSERT INTO plans (id, fragment, base_version, units, owners, certificate, digest, created_at_ms, expires_at_ms,
    applied_version)
VALUES ('p', 'f', 1, '[]', '1*2', '{"moves": 1, "lower_bound": 1, "gap": 0, "assigned": 0, "spread": 0,
    "cross_worker_moves": 0, "runs": 1}', 'd', 7, 8, 2)
"""
REPOSITORY = Path(__file__).parents[2]


def on(connection: sa.Connection) -> Config:
    config = alembic_config()
    config.attributes["connection"] = connection
    return config


def dump(engine: sa.Engine) -> dict[str, Any]:
    """Everything in the database: of each table its columns, keys, indexes and rows."""
    found = sa.inspect(engine)
    tables = sa.MetaData()
    tables.reflect(engine)
    with engine.connect() as connection:
        rows = {
            name: sorted(map(repr, connection.execute(sa.select(table))))
            for name, table in tables.tables.items()
        }
    return {
        name: (
            sorted(
                (column["name"], repr(column["type"]), column["nullable"])
                for column in found.get_columns(name)
            ),
            found.get_pk_constraint(name),
            sorted(map(repr, found.get_foreign_keys(name))),
            sorted(map(repr, found.get_indexes(name))),
            rows[name],
        )
        for name in found.get_table_names()
    }


@pytest.fixture
def engine(empty_url: str) -> Iterator[sa.Engine]:
    opened = open_engine(empty_url)
    yield opened
    opened.dispose()


def test_an_empty_database_gets_all_tables(engine: sa.Engine) -> None:
    upgrade(engine)
    assert set(sa.inspect(engine).get_table_names()) == {*metadata.tables, "alembic_version"}


def test_upgrading_again_changes_nothing(engine: sa.Engine) -> None:
    upgrade(engine)
    written = dump(engine)
    upgrade(engine)
    assert dump(engine) == written


def test_replicas_that_start_at_once_upgrade_once(empty_url: str) -> None:
    ready = Barrier(4)

    def start(_replica: int) -> None:
        own = open_engine(empty_url)
        ready.wait()
        upgrade(own)
        own.dispose()

    with ThreadPoolExecutor(4) as replicas:
        list(replicas.map(start, range(4)))
    engine = open_engine(empty_url)
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM alembic_version").scalar_one() == 1
    engine.dispose()


def test_the_revisions_make_exactly_the_tables_that_the_code_uses(engine: sa.Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        command.check(on(connection))


def test_a_column_that_no_revision_makes_is_found(engine: sa.Engine) -> None:
    """So the check above can fail, on either database."""
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("ALTER TABLE workers DROP COLUMN seen_at_ms")
        with pytest.raises(CommandError, match="seen_at_ms"):
            command.check(on(connection))


def test_down_and_up_again(engine: sa.Engine) -> None:
    upgrade(engine)
    written = dump(engine)
    with engine.begin() as connection:
        command.downgrade(on(connection), "base")
    assert sa.inspect(engine).get_table_names() == ["alembic_version"]
    upgrade(engine)
    assert dump(engine) == written


def test_rescales_of_before_the_second_revision_are_told(engine: sa.Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        command.downgrade(on(connection), "0001")
        connection.exec_driver_sql(FRAGMENT_OF_0001)
        connection.exec_driver_sql(PLAN_OF_0001)
    upgrade(engine)
    with engine.connect() as connection:
        (rescale,) = Rescales(connection).newest(10)
    assert (rescale.applied_version, rescale.applied_at_ms) == (2, 7)


def test_the_alembic_command_takes_either_database(database_url: str) -> None:
    """As an administrator would type it: in the checkout, with a plain URL."""
    alembic = [sys.executable, "-m", "alembic", "-x", f"url={database_url}", "check"]
    ran = subprocess.run(alembic, cwd=REPOSITORY, check=False, capture_output=True, text=True)
    assert (ran.returncode, ran.stdout.strip()) == (0, "No new upgrade operations detected."), ran.stderr


def test_a_database_from_the_future_is_refused_and_left_as_it_is(engine: sa.Engine) -> None:
    upgrade(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("UPDATE alembic_version SET version_num = '9999'")
        connection.exec_driver_sql("CREATE TABLE of_tomorrow (id INTEGER)")
    written = dump(engine)
    with pytest.raises(DatabaseFromTheFuture, match=r"9999.*0002") as caught:
        upgrade(engine)
    assert caught.value.found == ("9999",)
    assert dump(engine) == written


def test_an_upgrade_that_fails_half_way_leaves_nothing(engine: sa.Engine) -> None:
    """`workers` is in the way, so the second table cannot be made; the first must not stay."""
    with engine.begin() as connection:
        connection.exec_driver_sql("CREATE TABLE workers (foreign_to_us TEXT)")
    written = dump(engine)
    with pytest.raises(sa.exc.DBAPIError, match="workers"):
        upgrade(engine)
    assert dump(engine) == written


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


def test_the_rendered_sql_makes_the_same_tables_as_an_upgrade(postgres: PostgresProcess, name: str) -> None:
    with postgres.database(f"rendered_{name}") as by_hand, postgres.database(f"upgraded_{name}") as by_us:
        rendering, upgrading = open_engine(by_hand), open_engine(by_us)
        upgrade(upgrading)
        postgres.execute(rendered("upgrade", "head"), f"rendered_{name}")
        assert dump(rendering) == dump(upgrading)
        upgrade(rendering)
        postgres.execute(rendered("downgrade", "head:base"), f"rendered_{name}")
        assert sa.inspect(rendering).get_table_names() == ["alembic_version"]
        rendering.dispose()
        upgrading.dispose()


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
    with closing(sqlite3.connect(tmp_path / "upgraded.db")) as connection:
        assert any("CREATE TABLE mapping_versions" in line for line in connection.iterdump())
