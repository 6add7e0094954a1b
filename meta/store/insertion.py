"""`INSERT ... ON CONFLICT`, which both databases have, in two dialects of one form."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite


def added(connection: sa.Connection, table: sa.Table, values: dict[str, Any]) -> bool:
    """Adds the row in one statement; False where its key is taken, by whomever, and then nothing is written."""
    statement = insert_into(table, connection).values(values).on_conflict_do_nothing()
    # For an INSERT the count is given up unless it is asked for.
    result = connection.execute(statement, execution_options={"preserve_rowcount": True})
    assert result.rowcount in (0, 1)
    return result.rowcount == 1


def insert_into(table: sa.Table, connection: sa.Connection) -> postgresql.Insert | sqlite.Insert:
    """An insert into `table` that can be told what to do where the row is there already."""
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)
