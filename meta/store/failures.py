"""What a database answers when it cannot, by the codes that SQLite and PostgreSQL give their errors.

None of it is the request's fault, and none of it left anything half done: each transaction is whole or was not.
"""

import sqlite3
from collections.abc import Callable
from enum import StrEnum

import sqlalchemy as sa

from meta.store.url import shown

# SQLSTATEs: https://www.postgresql.org/docs/current/errcodes-appendix.html
_CONFLICTS = frozenset({"40001", "40P01"})  # serialization_failure, deadlock_detected
_BUSY = _CONFLICTS | {"55P03", "57014"}  # lock_not_available, query_canceled (by its timeout)
_FULL = frozenset({"53100"})  # disk_full
_READ_ONLY = frozenset({"25006"})  # read_only_sql_transaction, as a standby answers
# Connection exceptions, authorization, no such database, out of resources, shutdown and start, system error.
_AWAY_CLASSES = ("08", "28", "3D", "53", "57P", "58")


class Failure(StrEnum):
    """What is the matter with the database, for as long as it lasts."""

    UNAVAILABLE = "unavailable"
    BUSY = "busy"
    FULL = "full"

    @property
    def advice(self) -> str:
        return _ADVICE[self]


_ADVICE = {
    Failure.UNAVAILABLE: "the database cannot be used now; try again, and see the service's log and the database's",
    Failure.BUSY: "the database is busy with others and did not take this in time; try again",
    Failure.FULL: "the disk under the database is full, so nothing new is written and nothing was lost; "
    "free some space and try again",
}


def failure_of(error: BaseException) -> Failure | None:
    """None for what is our own mistake, such as a statement that the database does not understand."""
    if isinstance(error, sa.exc.TimeoutError):  # all connections of the pool are in use
        return Failure.BUSY
    if not isinstance(error, sa.exc.DBAPIError):
        return None
    if isinstance(error.orig, sqlite3.Error):
        return _of_sqlite(error.orig)
    return _of_sqlstate(error)


def is_conflict(error: Exception) -> bool:
    """Whether PostgreSQL ended the transaction in favour of another, so that doing it again is the answer."""
    return isinstance(error, sa.exc.DBAPIError) and _sqlstate(error) in _CONFLICTS


def is_busy_sqlite(error: Exception) -> bool:
    return isinstance(error, sqlite3.Error) and _of_sqlite(error) is Failure.BUSY


def tell_failures(engine: sa.Engine, told: Callable[[str], None]) -> None:
    """Calls `told` with the kind of each failure of a statement or of connecting; from any thread."""

    @sa.event.listens_for(engine, "handle_error")
    def tell(context: sa.engine.ExceptionContext) -> None:
        error = context.sqlalchemy_exception
        if error is not None and (failure := failure_of(error)) is not None:
            told("conflict" if is_conflict(error) else failure.value)


def why_not_opened(url: sa.URL, error: sa.exc.DBAPIError) -> str:
    """For who starts a service. PostgreSQL gives no code for a refused connection, so its words decide."""
    said = " ".join(str(error.orig).split())
    if url.get_backend_name() == "sqlite":
        return f"the database {shown(url)} cannot be opened: {said}"
    return f"the database {shown(url)} cannot be opened: {said}. {_what_to_do(url, said)}"


def _what_to_do(url: sa.URL, said: str) -> str:
    if "password" in said or "pg_hba" in said or " role " in said:
        return (
            "Name the right user and password: in the URL (postgresql://USER:PASSWORD@HOST/DATABASE), in "
            "PGPASSWORD or in ~/.pgpass; the server's pg_hba.conf says who may come from where"
        )
    if "database" in said and "does not exist" in said:
        return f"Create it (`createdb {url.database}` as a user who may), or name another in the URL"
    if "permission denied" in said:
        return f"Let the user make tables there: GRANT CREATE ON SCHEMA public TO {url.username}"
    return (
        "Is it running, does it listen on that host and port, and does a firewall let this machine reach it?"
    )


def _of_sqlite(error: sqlite3.Error) -> Failure | None:
    # The low byte is the primary code: https://www.sqlite.org/rescode.html
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_FULL:
            return Failure.FULL
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Failure.BUSY
        case (
            sqlite3.SQLITE_IOERR
            | sqlite3.SQLITE_READONLY
            | sqlite3.SQLITE_CANTOPEN
            | sqlite3.SQLITE_CORRUPT
            | sqlite3.SQLITE_NOTADB
            | sqlite3.SQLITE_PERM
        ):
            return Failure.UNAVAILABLE
    return None


def _of_sqlstate(error: sa.exc.DBAPIError) -> Failure | None:
    state = _sqlstate(error)
    if state in _BUSY:
        return Failure.BUSY
    if state in _FULL:
        return Failure.FULL
    if state in _READ_ONLY or state.startswith(_AWAY_CLASSES):
        return Failure.UNAVAILABLE
    # A connection that broke, or was never made, has no code.
    broken = error.connection_invalidated or (not state and isinstance(error, sa.exc.OperationalError))
    return Failure.UNAVAILABLE if broken else None


def _sqlstate(error: sa.exc.DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""
