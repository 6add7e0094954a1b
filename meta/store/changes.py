"""What followers of fragments read: the newest state of several, and the changes since one that they know."""

from collections.abc import Collection

import sqlalchemy as sa

from meta.mapping.publication import Current, Phase
from meta.store.tables import at_current, fragments, mapping_versions, phase_changes

# Above it, all are read and most are thrown away: a statement has no thousands of parameters.
_NAMED_MAX = 200

# Not how else a version may have ended: that is not published.
_PUBLISHED = tuple(phase.value for phase in Phase)
_RANK = sa.case({phase.value: phase.rank for phase in Phase}, value=phase_changes.c.phase)


class Changes:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def newest(self, names: Collection[str]) -> dict[str, Current]:
        """By fragment; without those that do not exist."""
        columns = (fragments.c.name, fragments.c.version, fragments.c.phase, mapping_versions.c.digest)
        statement = sa.select(*columns).select_from(at_current)
        if len(names) <= _NAMED_MAX:
            statement = statement.where(fragments.c.name.in_(names))
        rows = self._connection.execute(statement)
        return {row.name: _current(row.version, row.phase, row.digest) for row in rows if row.name in names}

    def since(self, name: str, version: int, rank: int, limit: int) -> list[Current]:
        """The first `limit` changes after (version, rank of its phase) that are kept, oldest first."""
        later = sa.or_(
            phase_changes.c.version > version, sa.and_(phase_changes.c.version == version, rank < _RANK)
        )
        of_version = sa.and_(
            mapping_versions.c.fragment == phase_changes.c.fragment,
            mapping_versions.c.version == phase_changes.c.version,
        )
        statement = (
            sa.select(phase_changes.c.version, phase_changes.c.phase, mapping_versions.c.digest)
            .join(mapping_versions, of_version)
            .where(phase_changes.c.fragment == name, phase_changes.c.phase.in_(_PUBLISHED), later)
            .order_by(phase_changes.c.version, _RANK)
            .limit(limit)
        )
        rows = self._connection.execute(statement)
        return [_current(row.version, row.phase, row.digest) for row in rows]


def _current(version: int, phase: str, digest: str) -> Current:
    return Current(version, Phase(phase), digest)
