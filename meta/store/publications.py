"""What is to be published, as rows: for all fragments at once, and without the bodies unless they are asked for."""

from collections.abc import Iterable
from dataclasses import dataclass

import sqlalchemy as sa

from meta.mapping.publication import Current, Phase
from meta.store.tables import at_current, fragments, mapping_versions


@dataclass(frozen=True, slots=True)
class Head:
    """A fragment's current version, and the oldest one that is kept; some between both may be missing."""

    current: Current
    oldest_version: int


class Publications:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def heads(self) -> dict[str, Head]:
        """By the fragments' names."""
        columns = (*_HEAD, mapping_versions.c.digest)
        rows = self._connection.execute(sa.select(*columns).select_from(at_current))
        return {
            name: Head(Current(version, Phase(phase), digest), oldest)
            for name, version, phase, oldest, digest in rows
        }

    def version_counts(self) -> dict[str, int]:
        """How many versions of each fragment are kept."""
        by_fragment = mapping_versions.c.fragment
        rows = self._connection.execute(sa.select(by_fragment, sa.func.count()).group_by(by_fragment))
        return {row[0]: row[1] for row in rows}

    def versions(self, fragment: str) -> set[int]:
        statement = sa.select(mapping_versions.c.version).where(mapping_versions.c.fragment == fragment)
        return set(self._connection.execute(statement).scalars())

    def digests(self, fragment: str, versions: Iterable[int]) -> dict[int, str]:
        """Of those of these versions that are kept."""
        columns = mapping_versions.c.version, mapping_versions.c.digest
        rows = self._connection.execute(sa.select(*columns).where(_these(fragment, versions)))
        return {row.version: row.digest for row in rows}

    def bodies(self, fragment: str, versions: Iterable[int]) -> list[tuple[int, bytes]]:
        """Of those of these versions that are kept, in order."""
        columns = mapping_versions.c.version, mapping_versions.c.body
        rows = self._connection.execute(sa.select(*columns).where(_these(fragment, versions)))
        return sorted((row.version, row.body) for row in rows)


def _these(fragment: str, versions: Iterable[int]) -> sa.ColumnElement[bool]:
    return sa.and_(mapping_versions.c.fragment == fragment, mapping_versions.c.version.in_(list(versions)))


_HEAD = (fragments.c.name, fragments.c.version, fragments.c.phase, fragments.c.oldest_version)
