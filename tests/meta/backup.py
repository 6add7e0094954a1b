"""A dump of a database of either kind, to be restored when it has gone on: the rows of all tables."""

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from meta.store.database import Database
from meta.store.tables import metadata, units

_COUNT_ANEW = {
    "postgresql": "SELECT setval('units_id_seq', (SELECT max(id) FROM units))",
    "sqlite": "UPDATE sqlite_sequence SET seq = (SELECT max(id) FROM units) WHERE name = 'units'",
}


class Backup:
    """Of now."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._rows: dict[sa.Table, list[dict[str, Any]]] = {}
        with database.engine.connect() as connection:
            for table in metadata.sorted_tables:
                self._rows[table] = [_given(row) for row in connection.execute(sa.select(table)).mappings()]

    def restore(self) -> None:
        """As `pg_restore` does, the ids that are given next included."""
        with self._database.engine.begin() as connection:
            for table in reversed(metadata.sorted_tables):
                connection.execute(table.delete())
            for table, rows in self._rows.items():
                for row in rows:
                    connection.execute(table.insert().values(row))
            assert self._rows[units]
            connection.exec_driver_sql(_COUNT_ANEW[self._database.engine.dialect.name])


def _given(row: Mapping[str, Any]) -> dict[str, Any]:
    # None would be JSON's null and not the column's.
    return {name: value for name, value in row.items() if value is not None}
