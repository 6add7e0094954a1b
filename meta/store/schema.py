"""Whether the database answers, and has the tables of this program: asked by a connection that nobody waits for."""

from dataclasses import dataclass
from functools import cached_property

import sqlalchemy as sa
from alembic.script import ScriptDirectory

from meta.store.migrations import alembic_config


@dataclass(frozen=True, slots=True)
class DatabaseTrouble:
    """`serves`: whether requests are answered all the same, by tables that a newer vnodemap has added to."""

    said: str
    serves: bool = False

    def __str__(self) -> str:
        return self.said


class SchemaProbe:
    """For one thread at a time. Raises what the driver raises, and so takes as long as the driver does."""

    def __init__(self, engine: sa.Engine) -> None:
        # Connected in the same way, and never waiting for those of the requests.
        self._pool = engine.pool.recreate()
        self._driver_error = engine.dialect.loaded_dbapi.Error

    def trouble(self) -> DatabaseTrouble | None:
        """What is the matter with the database, if anything is."""
        try:
            revisions = self._revisions()
        except self._driver_error as error:
            return DatabaseTrouble(f"the database cannot be used: {' '.join(str(error).split())}")
        if revisions == [self._newest]:
            return None
        found = ", ".join(revisions) or "none"
        if set(revisions) - self._known:
            return DatabaseTrouble(
                f"the database is at revision {found}, newer than this vnodemap's {self._newest}: upgrade this replica "
                "too, or restore the backup that fits it",
                serves=True,
            )
        return DatabaseTrouble(
            f"the database is at revision {found} and this vnodemap needs {self._newest}: restart the service, "
            "which upgrades it"
        )

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
    def _script(self) -> ScriptDirectory:
        return ScriptDirectory.from_config(alembic_config())

    @property
    def _newest(self) -> str | None:
        return self._script.get_current_head()

    @cached_property
    def _known(self) -> frozenset[str]:
        return frozenset(revision.revision for revision in self._script.walk_revisions())
