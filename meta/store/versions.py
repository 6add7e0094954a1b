"""The versions of fragments as a reader lists and compares them, as rows."""

import json
from dataclasses import dataclass, replace
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import Cause, PhaseChange, RescalePhase
from meta.store.tables import fragments, mapping_versions, phase_changes


@dataclass(frozen=True, slots=True)
class MappingState:
    """All that changes of a version's mapping, and the digest of what does not."""

    version: int
    phase: RescalePhase
    digest: str


@dataclass(frozen=True, slots=True)
class VersionRecord:
    """A version without its owners."""

    fragment: str
    version: int
    phases: tuple[PhaseChange, ...]
    moves: int
    cause: Cause
    plan: str | None
    unit_ids: tuple[int, ...]
    previous_version: int | None
    created_at_ms: int

    @property
    def phase(self) -> RescalePhase:
        return max((change.phase for change in self.phases), key=lambda phase: phase.rank)


class Versions:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def current_state(self, fragment: str) -> MappingState | None:
        """None where there is no such fragment. One small statement: it is asked for all the time."""
        row = self._connection.execute(_CURRENT, {"fragment": fragment}).one_or_none()
        return MappingState(row.version, RescalePhase(row.phase), row.digest) if row else None

    def state(self, fragment: str, version: int) -> MappingState | None:
        """None where it is not kept."""
        rows = self._connection.execute(_OF_VERSION, {"fragment": fragment, "of_version": version}).all()
        if not rows:
            return None
        phases = [RescalePhase(row.phase) for row in rows]
        return MappingState(version, max(phases, key=lambda phase: phase.rank), rows[0].digest)

    def page(
        self, fragment: str, limit: int, *, after: int | None = None, newest_first: bool = False
    ) -> list[VersionRecord]:
        """At most `limit` that are kept, in order of versions or against it: those that come after `after`."""
        of_fragment = mapping_versions.c.fragment == fragment
        number = mapping_versions.c.version
        statement = sa.select(mapping_versions).where(of_fragment).limit(limit)
        statement = statement.order_by(number.desc() if newest_first else number)
        if after is not None:
            statement = statement.where(number < after if newest_first else number > after)
        # A few rows at a time: each has a body, of which little is kept.
        rows = self._connection.execute(statement, execution_options={"yield_per": 10})
        bare = [_record(row) for row in rows]
        phases = self._phases(fragment, [record.version for record in bare])
        return [replace(record, phases=tuple(phases[record.version])) for record in bare]

    def began_at_ms(self, fragment: str, version: int) -> int | None:
        statement = sa.select(mapping_versions.c.created_at_ms).where(
            mapping_versions.c.fragment == fragment, mapping_versions.c.version == version
        )
        return self._connection.execute(statement).scalar_one_or_none()

    def _phases(self, fragment: str, versions: list[int]) -> dict[int, list[PhaseChange]]:
        found: dict[int, list[PhaseChange]] = {version: [] for version in versions}
        if not versions:
            return found
        rows = self._connection.execute(
            sa.select(phase_changes).where(
                phase_changes.c.fragment == fragment,
                phase_changes.c.version.between(min(versions), max(versions)),
            )
        )
        changes = [PhaseChange(row.version, RescalePhase(row.phase), row.at_ms) for row in rows]
        # By rank, since two phases may fall into one millisecond.
        for change in sorted(changes, key=lambda change: change.phase.rank):
            found[change.version].append(change)
        return found


_CURRENT = (
    sa.select(fragments.c.version, fragments.c.phase, mapping_versions.c.digest)
    .join(
        mapping_versions,
        sa.and_(
            mapping_versions.c.fragment == fragments.c.name,
            mapping_versions.c.version == fragments.c.version,
        ),
    )
    .where(fragments.c.name == sa.bindparam("fragment"))
)
_OF_VERSION = (
    sa.select(mapping_versions.c.digest, phase_changes.c.phase)
    .join(
        phase_changes,
        sa.and_(
            phase_changes.c.fragment == mapping_versions.c.fragment,
            phase_changes.c.version == mapping_versions.c.version,
        ),
    )
    .where(
        mapping_versions.c.fragment == sa.bindparam("fragment"),
        mapping_versions.c.version == sa.bindparam("of_version"),
    )
)


def _record(row: sa.Row[Any]) -> VersionRecord:
    # Not `decode_body`, which also proves that it is as we wrote it: 20 times the time.
    body = json.loads(row.body)
    members = [member for of_worker in body["units"].values() for member in of_worker]
    return VersionRecord(
        fragment=row.fragment,
        version=row.version,
        phases=(),
        moves=row.moves,
        cause=Cause(row.cause),
        plan=row.plan,
        unit_ids=tuple(sorted(unit_id for unit_id, _weight in members)),
        previous_version=body["previous"]["version"] if body["previous"] else None,
        created_at_ms=row.created_at_ms,
    )
