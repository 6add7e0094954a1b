"""etcd ahead of SQL: the database was restored from an older backup, or failed over without its last commits.

Then etcd's immutable bodies are taken into SQL, loudly, as soon as it is proven that both are of one history.
Source: design.md, "SQL is the truth, etcd the publication".
"""

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from meta.callers.access import ITSELF, AuditEntry
from meta.coordination.publisher import Publisher, require_same_history
from meta.errors import CannotAdopt, DigestConflict, UnitTaken
from meta.hearing import Hearing
from meta.lifecycle import Cause, Fragment, NewVersion
from meta.mapping.errors import MappingError
from meta.mapping.publication import Current, MappingVersion, Phase, decode_body, digest
from meta.mapping.unit import Unit
from meta.registry.fragments import held_fragment
from meta.store.database import Database, Transaction, retry_conflicts

log = logging.getLogger(__name__)

# No body tells a worker's own: one that is dead shall show as lost, one that lives beats or registers again.
HEARTBEAT_TIMEOUT_MS = 30_000

# What the columns hold.
_UNIT_ID_MAX = 2**31 - 1
_WORKER_NAME_MAX = 63


@dataclass(frozen=True, slots=True)
class Found:
    """What etcd has beyond SQL: `versions` by number, without those whose bodies etcd no longer keeps.

    `adopted` are the same, the oldest first, as SQL is to have them; all but the last have settled.
    """

    current: Current
    versions: Mapping[int, MappingVersion]
    adopted: tuple[NewVersion, ...]

    @property
    def newest(self) -> MappingVersion:
        return self.versions[self.current.version]

    @property
    def units(self) -> set[Unit]:
        """Of all versions and their bases."""
        sides = [side.units for each in self.versions.values() for side in (each, each.previous) if side]
        return {Unit(unit.id, unit.worker) for units in sides for unit in units}

    @property
    def units_in_use(self) -> set[Unit]:
        """Of the current version, and of its base until it has settled."""
        base = self.newest.previous if self.current.phase is not Phase.SETTLED else None
        units = (*self.newest.units, *(base.units if base else ()))
        return {Unit(unit.id, unit.worker) for unit in units}


@dataclass(frozen=True, slots=True)
class Adoption:
    database: Database
    publisher: Publisher
    hearing: Hearing

    @retry_conflicts
    def adopt(self, name: str) -> bool:
        """Takes what etcd has beyond SQL; False where there is nothing, or SQL has gone on by itself meanwhile.

        Raises `DigestConflict`, `UnitTaken` and `CannotAdopt`, and then nothing is changed; etcd's `EtcdError`
        family, and `MalformedPublication` for a foreign `current`.
        """
        published = self.publisher.published(name)
        with self.database.reading() as tx:
            fragment = tx.fragments.get(name)
        if fragment is None or published is None or not published.supersedes(fragment.current):
            return False
        found = self._found(fragment, published)
        now_ms = self.hearing.now().now_ms
        with self.database.transaction() as tx:
            tx.adoption.hold_ids()
            registered = _take_over(tx, fragment, found, now_ms)
        if registered is None:
            return False
        _tell(fragment, found, registered)
        return True

    def _found(self, fragment: Fragment, published: Current) -> Found:
        bodies = {
            version: body
            for version, body in self.publisher.bodies(fragment.name, fragment.current.version)
            if version <= published.version
        }
        ours = bodies.get(fragment.current.version)
        if ours is not None and digest(ours) != fragment.current.digest:
            raise DigestConflict(
                fragment.name, fragment.current.version, digest(ours), fragment.current.digest
            )
        require_same_history(
            fragment.name, published, {fragment.current.version: fragment.current.digest}.get
        )
        _require(published.version in bodies, fragment, published, "etcd does not have its body")
        newest = digest(bodies[published.version])
        _require(
            newest == published.digest,
            fragment,
            published,
            f"its body has digest {newest} and not {published.digest}",
        )
        try:
            versions = {version: decode_body(body) for version, body in sorted(bodies.items())}
            adopted = {number: _adopted(version, published) for number, version in versions.items()}
        except MappingError as error:
            raise CannotAdopt(
                fragment.name, fragment.current.version, published.version, str(error)
            ) from error
        self._require_history(fragment, published, versions)
        if published.version > fragment.current.version:
            versions.pop(fragment.current.version, None)
        return Found(published, versions, tuple(adopted[number] for number in versions))

    def _require_history(
        self, fragment: Fragment, published: Current, versions: Mapping[int, MappingVersion]
    ) -> None:
        """Each body is the one of its key, and continues the version that it names, where that is at hand."""
        known = {number: version.mapping for number, version in versions.items()}
        with self.database.reading() as tx:
            for base in {each.previous.version for each in versions.values() if each.previous} - known.keys():
                body = tx.versions.body(fragment.name, base)
                if body is not None:
                    known[base] = decode_body(body).mapping
        for number, version in versions.items():
            belongs = (version.fragment, version.version) == (fragment.name, number)
            _require(belongs, fragment, published, f"the body of version {number} is of another one")
            same_hash = version.hash_id == fragment.hash_id
            _require(same_hash, fragment, published, f"version {number} has another distribution key")
            previous = version.previous
            continues = previous is None or known.get(previous.version, previous.mapping) == previous.mapping
            _require(continues, fragment, published, f"version {number} continues another history")


def _take_over(tx: Transaction, fragment: Fragment, found: Found, now_ms: int) -> list[str] | None:
    """The workers that were not known; None where the fragment has gone on."""
    if held_fragment(tx, fragment.name).current != fragment.current:
        return None
    # Who removes a worker now either has done so, and it is registered anew here, or finds it in use.
    tx.workers.keep(unit.worker for unit in found.units_in_use)
    missing = _missing_units(tx, fragment, found)
    registered = tx.adoption.register(missing, heartbeat_timeout_ms=HEARTBEAT_TIMEOUT_MS, now_ms=now_ms)
    tx.adoption.count_ids_from(max(unit.id for unit in found.units))
    gone_on = tx.adoption.go_on(
        fragment.name,
        fragment.current,
        found.adopted,
        now_ms=now_ms,
    )
    assert gone_on, "nobody else changes a fragment that is held"
    if found.current.phase is not Phase.SETTLED:
        tx.adoption.await_strangers(fragment.name, now_ms=now_ms)
    detail = {
        "from_version": fragment.current.version,
        "to_version": found.current.version,
        "phase": found.current.phase,
        "versions": sorted(found.versions),
        "workers": registered,
    }
    tx.audit.add(AuditEntry(now_ms, ITSELF, "adopt", fragment.name, detail))
    return registered


def _missing_units(tx: Transaction, fragment: Fragment, found: Found) -> Iterable[Unit]:
    """Those in use that SQL does not know. Raises `UnitTaken`."""
    known = tx.adoption.workers_of(unit.id for unit in found.units)
    for unit in sorted(found.units):
        worker = known.get(unit.id, unit.worker)
        if worker != unit.worker:
            raise UnitTaken(fragment.name, found.current.version, unit.id, worker, unit.worker)
        storable = unit.id <= _UNIT_ID_MAX and len(unit.worker) <= _WORKER_NAME_MAX
        _require(storable, fragment, found.current, f"unit {unit.id} on {unit.worker} is none of a service's")
    return [unit for unit in found.units_in_use if unit.id not in known]


def _require(holds: bool, fragment: Fragment, published: Current, otherwise: str) -> None:
    if not holds:
        raise CannotAdopt(fragment.name, fragment.current.version, published.version, otherwise)


def _adopted(version: MappingVersion, published: Current) -> NewVersion:
    phase = published.phase if version.version == published.version else Phase.SETTLED
    return NewVersion.of(version, phase, Cause.ADOPTED)


def _tell(fragment: Fragment, found: Found, registered: list[str]) -> None:
    source, target = fragment.current, found.current
    log.warning(
        "fragment %s: the database had only version %d (%s) and etcd has %d (%s): adopted versions %s%s",
        *(fragment.name, source.version, source.phase, target.version, target.phase),
        ", ".join(map(str, sorted(found.versions))),
        f"; registered {', '.join(registered)} with a heartbeat timeout of {HEARTBEAT_TIMEOUT_MS} ms, which these "
        "workers change by registering again"
        if registered
        else "",
    )
