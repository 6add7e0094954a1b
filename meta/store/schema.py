"""Whether the database answers, and has the tables of this program: asked by a connection that nobody waits for."""

from functools import cached_property

import sqlalchemy as sa
from alembic.script import ScriptDirectory

from meta.store.migrations import alembic_config


class SchemaProbe:
    """For one thread at a time. Raises what the driver raises, and so takes as long as the driver does."""

    def __init__(self, engine: sa.Engine) -> None:
        # Connected in the same way, and never waiting for those of the requests.
        self._pool = engine.pool.recreate()
        self._driver_error = engine.dialect.loaded_dbapi.Error

    def trouble(self) -> str | None:
        """What is the matter with the database, if anything is."""
        try:
            revisions = self._revisions()
        except self._driver_error as error:
            return f"the database cannot be used: {' '.join(str(error).split())}"
        if revisions != [self._newest]:
            found = ", ".join(revisions) or "none"
            return (
                f"the database is at revision {found} and this vnodemap needs {self._newest}: restart the service, "
                "which upgrades an older one, or run the version of vnodemap that the database is from"
            )
        return None

    def close(self) -> None:
        self._pool.dispose()

    def _revisions(self) -> list[str]:
        connection = self._pool.connect()
        try:
            cursor = connection.cursor()
            cursor.execute("SELECT version_num FROM alembic_version")
            return sorted(row[0] for row in cursor.fetchall())
        finally:
            connection.close()

    @cached_property
    def _newest(self) -> str | None:
        return ScriptDirectory.from_config(alembic_config()).get_current_head()
