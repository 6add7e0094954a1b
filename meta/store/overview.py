"""What a scrape of the metrics reads: all fragments and their subscribers, summed up by the database."""

from collections.abc import Collection
from dataclasses import dataclass

import sqlalchemy as sa

from meta.lifecycle import Moment, Role
from meta.mapping.publication import Current, Phase
from meta.store.tables import at_current, fragments, mapping_versions, subscribers


@dataclass(frozen=True, slots=True)
class FragmentHead:
    """`since_ms` is when its current version began."""

    name: str
    current: Current
    oldest_version: int
    since_ms: int


@dataclass(frozen=True, slots=True)
class Audience:
    """A fragment's subscribers of one role: those heard within its timeout, and how far the last of these is."""

    fragment: str
    role: Role
    heard: int
    silent: int
    acknowledged_version: int


class Overview:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def fragments(self) -> list[FragmentHead]:
        columns = fragments.c
        statement = sa.select(
            columns.name,
            columns.version,
            columns.phase,
            columns.oldest_version,
            mapping_versions.c.digest,
            mapping_versions.c.created_at_ms,
        ).select_from(at_current)
        return [
            FragmentHead(
                row.name,
                Current(row.version, Phase(row.phase), row.digest),
                row.oldest_version,
                row.created_at_ms,
            )
            for row in self._connection.execute(statement)
        ]

    def bodies(self, names: Collection[str]) -> dict[str, bytes]:
        """Of the current versions."""
        statement = (
            sa.select(fragments.c.name, mapping_versions.c.body)
            .select_from(at_current)
            .where(fragments.c.name.in_(names))
        )
        return {row.name: row.body for row in self._connection.execute(statement)}

    def audiences(self, moment: Moment) -> list[Audience]:
        # Silence counts only from `silence_from_ms` on: see `Moment`.
        heard = sa.or_(
            moment.now_ms - subscribers.c.seen_at_ms < fragments.c.applier_timeout_ms,
            moment.now_ms - moment.silence_from_ms < fragments.c.applier_timeout_ms,
        )
        acknowledged = sa.func.coalesce(subscribers.c.acknowledged_version, 0)
        statement = (
            sa.select(
                subscribers.c.fragment,
                subscribers.c.role,
                sa.func.sum(sa.case((heard, 1), else_=0)).label("heard"),
                sa.func.count().label("registered"),
                sa.func.min(sa.case((heard, acknowledged))).label("acknowledged"),
            )
            .join(fragments, fragments.c.name == subscribers.c.fragment)
            .group_by(subscribers.c.fragment, subscribers.c.role)
        )
        return [
            Audience(
                row.fragment, Role(row.role), row.heard, row.registered - row.heard, row.acknowledged or 0
            )
            for row in self._connection.execute(statement)
        ]
