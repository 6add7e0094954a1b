"""Which databases there are: SQLite, embedded, and PostgreSQL, by psycopg 3."""

from dataclasses import dataclass

import sqlalchemy as sa

_SECRETS = ("password", "sslpassword")


class UnusableDatabase(Exception):
    """The database cannot be used as it was named; the message says what to do and holds no password."""


@dataclass(eq=False)
class NotADatabaseUrl(UnusableDatabase):
    reason: str

    def __str__(self) -> str:
        return (
            f"the database URL cannot be used: {self.reason}; write postgresql://USER:PASSWORD@HOST:PORT/DATABASE "
            "or sqlite:////PATH/meta.db, with %40 for an @ in a password, %2F for a / and so on"
        )


@dataclass(eq=False)
class DriverMissing(UnusableDatabase):
    reason: str

    def __str__(self) -> str:
        return f"the driver for PostgreSQL is not installed ({self.reason}); `pip install 'vnodemap[postgresql]'`"


def database_url(text: str) -> sa.URL:
    """The URL with its driver. Raises `NotADatabaseUrl`."""
    try:
        url = sa.make_url(text)
    except (sa.exc.ArgumentError, ValueError) as error:
        raise NotADatabaseUrl("it is no URL") from error
    if "@" in (url.host or ""):
        raise NotADatabaseUrl("its password or its host holds an @")
    if url.drivername in ("sqlite", "sqlite+pysqlite"):
        return url
    if url.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        return url.set(drivername="postgresql+psycopg")
    if url.drivername.startswith("postgresql+"):
        raise NotADatabaseUrl(
            f"{url.drivername}:// names a driver that is not used here, plain postgresql:// does"
        )
    raise NotADatabaseUrl(f"{url.drivername}:// is neither sqlite:// nor postgresql://")


def shown(url: sa.URL) -> str:
    """The URL for people, without its password, wherever that stands."""
    return url.difference_update_query(_SECRETS).render_as_string(hide_password=True)
