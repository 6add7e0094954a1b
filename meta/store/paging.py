"""Pages of rows by key: each goes on after the last row of the one before."""

from typing import Any, TypeVar

import sqlalchemy as sa

S = TypeVar("S", bound=sa.Select[Any])


def page_by_name(
    statement: S, name: sa.Column[str], connection: sa.Connection, limit: int, after: str | None
) -> S:
    """At most `limit` by name, from the first one after `after` on."""
    # In the order of Python and of SQLite; a PostgreSQL database has its own idea of an alphabet.
    ordered = name if connection.dialect.name == "sqlite" else sa.collate(name, "C")
    if after is not None:
        statement = statement.where(ordered > after)
    return statement.order_by(ordered).limit(limit)


def page_newest_first(
    statement: S, at_ms: sa.Column[int], id_: sa.Column[str], limit: int, after: tuple[int, str] | None
) -> S:
    """At most `limit`, the newest first: those after the one of this instant and id."""
    if after is not None:
        statement = statement.where(sa.tuple_(at_ms, id_) < sa.tuple_(*map(sa.literal, after)))
    return statement.order_by(at_ms.desc(), id_.desc()).limit(limit)
