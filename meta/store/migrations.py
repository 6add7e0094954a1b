"""Brings a database to this version's schema by its Alembic revisions."""

import logging
from pathlib import Path

import sqlalchemy as sa
from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

log = logging.getLogger(__name__)

# Any number that no other program uses on the same database; replicas that start together upgrade one by one.
_UPGRADE_LOCK = 0x766E6F6465

_INSTALLED = Path(__file__).parent / "alembic"
_CHECKOUT = Path(__file__).parents[2] / "alembic"


class DatabaseFromTheFuture(Exception):
    """The database was written by a newer vnodemap."""

    def __init__(self, found: tuple[str, ...], known: str) -> None:
        super().__init__(
            f"the database is at revision {', '.join(found)}, which this vnodemap does not know (its newest is "
            f"{known}): start the newer vnodemap again, or restore the backup that fits this one"
        )
        self.found = found
        self.known = known


def alembic_config() -> Config:
    """Alembic's configuration without a file, so that it also works from an installed wheel."""
    config = Config()
    config.set_main_option("script_location", str(_INSTALLED if _INSTALLED.exists() else _CHECKOUT))
    return config


def upgrade(engine: sa.Engine) -> None:
    """`alembic upgrade head`; refuses a database from the future and leaves it as it is."""
    config = alembic_config()
    script = ScriptDirectory.from_config(config)
    with engine.begin() as connection:
        _wait_for_turn(connection)
        found = MigrationContext.configure(connection).get_current_heads()
        known = {revision.revision for revision in script.walk_revisions()}
        newest = script.get_current_head() or "none"
        if not known.issuperset(found):
            raise DatabaseFromTheFuture(found, newest)
        config.attributes["connection"] = connection
        command.upgrade(config, "head")
    if found != (newest,):
        log.info("database upgraded from %s to %s", ", ".join(found) or "empty", newest)


def _wait_for_turn(connection: sa.Connection) -> None:
    """One upgrade at a time. SQLite's transactions begin with the write lock."""
    if connection.dialect.name == "postgresql":
        # A revision may move every row of a table, which takes longer than any request may.
        connection.exec_driver_sql("SET LOCAL lock_timeout = '60s'")
        connection.exec_driver_sql("SET LOCAL statement_timeout = 0")
        connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_UPGRADE_LOCK)))
