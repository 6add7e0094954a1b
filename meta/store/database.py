"""A database and its transactions: the repositories of one transaction, committed together or not at all.

SQLite has one writer at a time for the whole file. On PostgreSQL writers go on side by side, so whatever decides by
what it read about a fragment first holds that fragment (`Fragments.hold`), and has it for itself until it commits.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa
import stamina
from sqlalchemy.engine.interfaces import DBAPIConnection, DBAPICursor
from sqlalchemy.pool import ConnectionPoolEntry

from meta.store.adoption import Adoption
from meta.store.answers import Answers
from meta.store.audit import Audit
from meta.store.changes import Changes
from meta.store.failures import is_busy_sqlite, is_conflict
from meta.store.fragments import Fragments
from meta.store.loads import Loads
from meta.store.overview import Overview
from meta.store.plans import Plans
from meta.store.publications import Publications
from meta.store.rescales import Rescales
from meta.store.retention import Retention
from meta.store.subscribers import Subscribers
from meta.store.tokens import StoredTokens
from meta.store.url import DriverMissing, database_url
from meta.store.versions import Versions
from meta.store.workers import Workers

SQLITE_BUSY_TIMEOUT_S = 10.0

# The API answers from 40 threads; who finds no connection waits, and is told so after `pool_timeout`. All are kept:
# one that is opened for a single use costs more than the use.
_POOL = {"poolclass": sa.QueuePool, "pool_size": 20, "max_overflow": 0, "pool_timeout": 10.0}
# libpq's, in seconds unless it says otherwise: a server that is cut off is noticed within some 10 s.
_LIBPQ = {
    "connect_timeout": 5,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
    "application_name": "vnodemap",
}
# Keepalives end a session whose client was cut off before it could commit: it would hold its fragment for a minute.
# The last, since a version must outlive a power cut once the API said 2xx, whatever this server's default.
_POSTGRES_SESSION = """
SELECT set_config('lock_timeout', '5s', false),
       set_config('statement_timeout', '30s', false),
       set_config('idle_in_transaction_session_timeout', '60s', false),
       set_config('tcp_keepalives_idle', '5', false),
       set_config('tcp_keepalives_interval', '2', false),
       set_config('tcp_keepalives_count', '3', false),
       set_config('synchronous_commit', coalesce(nullif(current_setting('synchronous_commit'), 'off'), 'on'), false)
"""

_READS_ONLY = "vnodemap_reads_only"
_READING: dict[str, dict[str, Any]] = {
    "sqlite": {_READS_ONLY: True},
    # One snapshot for all statements, as SQLite has it; what only reads never conflicts.
    "postgresql": {"isolation_level": "REPEATABLE READ", "postgresql_readonly": True},
}

# Around a whole use case: PostgreSQL may end one of two transactions that wait for each other, and then nothing of
# it has happened.
retry_conflicts = stamina.retry(on=is_conflict, attempts=8, timeout=20, wait_initial=0.01, wait_max=0.5)


@dataclass(frozen=True, slots=True)
class Transaction:
    workers: Workers
    fragments: Fragments
    versions: Versions
    plans: Plans
    loads: Loads
    rescales: Rescales
    subscribers: Subscribers
    audit: Audit
    changes: Changes
    overview: Overview
    tokens: StoredTokens
    answers: Answers
    publications: Publications
    adoption: Adoption
    retention: Retention

    @classmethod
    def on(cls, connection: sa.Connection) -> "Transaction":
        return cls(
            workers=Workers(connection),
            fragments=Fragments(connection),
            versions=Versions(connection),
            plans=Plans(connection),
            loads=Loads(connection),
            rescales=Rescales(connection),
            subscribers=Subscribers(connection),
            audit=Audit(connection),
            changes=Changes(connection),
            overview=Overview(connection),
            tokens=StoredTokens(connection),
            answers=Answers(connection),
            publications=Publications(connection),
            adoption=Adoption(connection),
            retention=Retention(connection),
        )


class Database:
    """One SQL database by its URL. Only `transaction` commits; `reading` does not wait for writers.

    Raises `UnusableDatabase`; nothing is connected before the first use.
    """

    def __init__(self, url: str) -> None:
        self.engine = open_engine(url)
        self._reading = _READING[self.engine.dialect.name]
        self._one_writer = self.engine.dialect.name == "sqlite"
        self._writing = threading.Lock()

    @contextmanager
    def transaction(self) -> Iterator[Transaction]:
        with self._turn() if self._one_writer else nullcontext(), self.engine.begin() as connection:
            yield Transaction.on(connection)

    @contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self.engine.connect().execution_options(**self._reading) as connection:
            yield Transaction.on(connection)

    def close(self) -> None:
        self.engine.dispose()

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """SQLite lets who finds another writer look again later and later, and whoever comes meanwhile goes first."""
        # Who waited in vain goes on: it is for SQLite to refuse.
        mine = self._writing.acquire(timeout=SQLITE_BUSY_TIMEOUT_S)
        try:
            yield
        finally:
            if mine:
                self._writing.release()


def open_engine(text: str) -> sa.Engine:
    """An engine for the database of this URL. Raises `UnusableDatabase`."""
    url = database_url(text)
    if url.get_backend_name() == "sqlite":
        engine = sa.create_engine(url, **_POOL)
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin)
        return engine
    # What the URL says of the connection counts. Never prepared: behind a pooler a statement may meet another session,
    # and a newer service that alters a table would break this one's prepared statements.
    connecting = {name: value for name, value in _LIBPQ.items() if name not in url.query}
    try:
        engine = sa.create_engine(
            url,
            isolation_level="READ COMMITTED",
            connect_args={**connecting, "prepare_threshold": None},
            pool_pre_ping=True,
            **_POOL,
        )
    except ImportError as error:
        raise DriverMissing(str(error)) from error
    sa.event.listen(engine, "connect", _configure_postgres)
    return engine


def _configure_postgres(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    cursor = connection.cursor()
    cursor.execute(_POSTGRES_SESSION)
    cursor.close()
    connection.commit()


def _configure_sqlite(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
    # The driver's own transactions begin too late (at the first write); ours begin in `_begin`.
    connection.isolation_level = None
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {int(SQLITE_BUSY_TIMEOUT_S * 1000)}")
    _use_wal(cursor)
    # A version must outlive a power cut once the API said 2xx.
    cursor.execute("PRAGMA synchronous = FULL")
    cursor.execute("PRAGMA foreign_keys = ON")
    cursor.close()


@stamina.retry(
    on=is_busy_sqlite, attempts=None, timeout=SQLITE_BUSY_TIMEOUT_S, wait_initial=0.01, wait_max=0.1
)
def _use_wal(cursor: DBAPICursor) -> None:
    """Of several that open a new file at once, SQLite lets one change the mode and the others do not wait."""
    cursor.execute("PRAGMA journal_mode = WAL")


def _begin(connection: sa.Connection) -> None:
    # A read that turns into a write in a deferred transaction fails at once when another wrote meanwhile.
    reads_only = connection.get_execution_options().get(_READS_ONLY, False)
    connection.exec_driver_sql("BEGIN" if reads_only else "BEGIN IMMEDIATE")
