"""The service's database, opened by `serve` and by the commands that need no service."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from meta.store.database import Database
from meta.store.failures import why_not_opened
from meta.store.migrations import DatabaseFromTheFuture, upgrade
from meta.store.url import UnusableDatabase
from meta.vnodectl.session import ServeError


def make_folder(data_dir: Path) -> None:
    """For this user alone, if it is new. Raises `ServeError`."""
    with _usable(data_dir):
        data_dir.mkdir(mode=0o700, parents=True, exist_ok=True)


def embedded_url(data_dir: Path) -> str:
    """SQLite in this folder; its file is for this user alone, if it is new. Raises `ServeError`."""
    file = data_dir / "meta.db"
    with _usable(data_dir):
        if not file.exists():
            file.touch(mode=0o600)
    return f"sqlite:///{file}"


@contextmanager
def _usable(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ServeError(
            f"{data_dir} cannot be used ({error.strerror}); choose another --data-dir"
        ) from error


@contextmanager
def opened(url: str) -> Iterator[Database]:
    """The database, with all tables of this version. Raises `ServeError`."""
    try:
        database = Database(url)
    except UnusableDatabase as error:
        raise ServeError(str(error)) from error
    try:
        upgrade(database.engine)
        yield database
    except DatabaseFromTheFuture as error:
        raise ServeError(str(error)) from error
    except sa.exc.DBAPIError as error:
        raise ServeError(why_not_opened(database.engine.url, error)) from error
    finally:
        database.close()


def now_ms() -> int:
    return time.time_ns() // 1_000_000
