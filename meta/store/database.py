"""A database and its transactions: the repositories of one transaction, committed together or not at all."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.pool import ConnectionPoolEntry

from meta.store.fragments import Fragments
from meta.store.plans import Plans
from meta.store.subscribers import Subscribers
from meta.store.workers import Workers

SQLITE_BUSY_TIMEOUT_S = 10.0

_READS_ONLY = "vnodemap_reads_only"


@dataclass(frozen=True, slots=True)
class Transaction:
    workers: Workers
    fragments: Fragments
    plans: Plans
    subscribers: Subscribers

    @classmethod
    def on(cls, connection: sa.Connection) -> "Transaction":
        return cls(Workers(connection), Fragments(connection), Plans(connection), Subscribers(connection))


class Database:
    """One SQL database by its SQLAlchemy URL. Only `transaction` commits; `reading` does not wait for writers."""

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url)

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self.engine.begin() as connection:
            yield Transaction.on(connection)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self.engine.connect().execution_options(**{_READS_ONLY: True}) as connection:
            yield Transaction.on(connection)

    def close(self) -> None:
        self.engine.dispose()


def open_engine(url: str) -> sa.Engine:
    engine = sa.create_engine(url)
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin)
    return engine


def _configure_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # The driver's own transactions begin too late (at the first write); ours begin in `_begin`.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(SQLITE_BUSY_TIMEOUT_S * 1000)}")
    cursor.execute("PRAGMA journal_mode = WAL")
    # A version must outlive a power cut once the API said 2xx.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


def _begin(connection: sa.Connection) -> None:
    # A read that turns into a write in a deferred transaction fails at once when another wrote meanwhile.
    reads_only = connection.get_execution_options().get(_READS_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
