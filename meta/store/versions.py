"""The versions of fragments, as rows: what is read of them. `Fragments` adds them."""

import json
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import sqlalchemy as sa

from meta.lifecycle import Cause, PhaseChange, RescalePhase, in_order
from meta.store.tables import at_current, fragments, mapping_versions, phase_changes

T = TypeVar("T")


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
        return self.phases[-1].phase


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
        return [replace(record, phases=phases[record.version]) for record in bare]

    def began_at_ms(self, fragment: str, version: int) -> int | None:
        return self._of_version(mapping_versions.c.created_at_ms, fragment, version)

    def body(self, fragment: str, version: int) -> bytes | None:
        """The very bytes that are published for this version."""
        return self._of_version(mapping_versions.c.body, fragment, version)

    def digest(self, fragment: str, version: int) -> str | None:
        return self._of_version(mapping_versions.c.digest, fragment, version)

    def moves(self, fragment: str, version: int) -> int | None:
        """How many vnodes this version moved."""
        return self._of_version(mapping_versions.c.moves, fragment, version)

    def cause(self, fragment: str, version: int) -> tuple[Cause, str | None] | None:
        """Why there is this version, and the id of the plan that it came of."""
        statement = sa.select(mapping_versions.c.cause, mapping_versions.c.plan).where(
            mapping_versions.c.fragment == fragment, mapping_versions.c.version == version
        )
        row = self._connection.execute(statement).one_or_none()
        return (Cause(row.cause), row.plan) if row else None

    def phases(self, fragment: str, version: int) -> tuple[PhaseChange, ...]:
        """Every phase that this version went through, in order."""
        return self._phases(fragment, [version])[version]

    def settled_before(self, fragment: str, version: int) -> int | None:
        """The last version before this one that settled and is kept."""
        settled = sa.select(sa.func.max(phase_changes.c.version)).where(
            phase_changes.c.fragment == fragment,
            phase_changes.c.version < version,
            phase_changes.c.phase == RescalePhase.SETTLED,
        )
        found: int | None = self._connection.execute(settled).scalar_one()
        return found

    def _phases(self, fragment: str, versions: list[int]) -> dict[int, tuple[PhaseChange, ...]]:
        if not versions:
            return {}
        rows = self._connection.execute(
            sa.select(phase_changes).where(
                phase_changes.c.fragment == fragment,
                phase_changes.c.version.between(min(versions), max(versions)),
            )
        )
        found: dict[int, list[PhaseChange]] = {version: [] for version in versions}
        for row in rows:
            found[row.version].append(PhaseChange(row.version, RescalePhase(row.phase), row.at_ms))
        return {version: in_order(changes) for version, changes in found.items()}

    def _of_version(self, column: sa.Column[T], fragment: str, version: int) -> T | None:
        statement = sa.select(column).where(
            mapping_versions.c.fragment == fragment, mapping_versions.c.version == version
        )
        return self._connection.execute(statement).scalar_one_or_none()


_CURRENT = (
    sa.select(fragments.c.version, fragments.c.phase, mapping_versions.c.digest)
    .select_from(at_current)
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
