"""The versions and the plans of a fragment, as they were: what is read of them."""

from dataclasses import dataclass

from meta.errors import FragmentNotFound, PlanNotFound, VersionNotFound
from meta.lifecycle import Fragment, RescalePlan, Version
from meta.mapping.diff import Diff
from meta.mapping.publication import MappingVersion
from meta.registry.fragments import known_fragment
from meta.rescaling.planning import DryRun, mapping_version, version_body
from meta.store.database import Database, Transaction
from meta.store.versions import MappingState, VersionRecord


@dataclass(frozen=True, slots=True)
class VersionPair:
    """Two versions of one fragment."""

    before: MappingVersion
    after: MappingVersion

    @property
    def diff(self) -> Diff:
        """Raises `UnrelatedVnodeCounts`."""
        return Diff(self.before.mapping, self.after.mapping)


@dataclass(frozen=True, slots=True)
class History:
    database: Database

    def state(self, fragment_name: str, version: int | None = None) -> MappingState:
        """Of one version, or of the current one: whether anything has changed, without reading the mapping."""
        with self.database.reading() as tx:
            if version is None:
                current = tx.versions.current_state(fragment_name)
                if current is None:
                    raise FragmentNotFound(fragment_name)
                return current
            found = tx.versions.state(fragment_name, version)
            if found is None:
                fragment = known_fragment(tx, fragment_name)
                raise VersionNotFound(
                    fragment_name, version, fragment.oldest_version, fragment.current.version
                )
            return found

    def body(self, fragment_name: str, version: int) -> bytes:
        """The published bytes of a version."""
        with self.database.reading() as tx:
            return version_body(tx, known_fragment(tx, fragment_name), version)

    def mapping(self, fragment_name: str) -> MappingVersion:
        """The current version."""
        with self.database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            return mapping_version(tx, fragment, fragment.current.version)

    def version(self, fragment_name: str, version: int) -> Version:
        with self.database.reading() as tx:
            return _version(tx, known_fragment(tx, fragment_name), version)

    def versions(
        self, fragment_name: str, *, after: int | None = None, limit: int = 1_000, newest_first: bool = False
    ) -> list[VersionRecord]:
        """Those that are kept, the oldest first or the newest: at most `limit` that come after `after`."""
        with self.database.reading() as tx:
            known_fragment(tx, fragment_name)
            return tx.versions.page(fragment_name, limit, after=after, newest_first=newest_first)

    def comparison(self, fragment_name: str, source: int | None, target: int | None) -> VersionPair:
        """From `source` to `target`; by default to the current version, from the one before `target`."""
        with self.database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            after = target or fragment.current.version
            before = source or max(1, after - 1)
            return VersionPair(mapping_version(tx, fragment, before), mapping_version(tx, fragment, after))

    def plans(self, fragment_name: str, *, after: tuple[int, str] | None, limit: int) -> list[RescalePlan]:
        """At most `limit`, the last made first: those after the one of this instant and id."""
        with self.database.reading() as tx:
            known_fragment(tx, fragment_name)
            return tx.plans.newest(fragment_name, limit, after=after)

    def plan(self, plan_id: str, *, with_reasons: bool = True) -> DryRun:
        """As it was made. Raises `PlanNotFound`, and `VersionNotFound` where its base is not kept any more."""
        with self.database.reading() as tx:
            stored = tx.plans.get(plan_id)
            if stored is None:
                raise PlanNotFound(plan_id)
            base = mapping_version(tx, known_fragment(tx, stored.fragment), stored.base_version)
            return DryRun(stored, base.mapping, tx.plans.reasons(plan_id) if with_reasons else ())


def _version(tx: Transaction, fragment: Fragment, version: int) -> Version:
    body = mapping_version(tx, fragment, version)
    moves, caused = tx.versions.moves(fragment.name, version), tx.versions.cause(fragment.name, version)
    assert moves is not None
    assert caused is not None
    return Version(body, tx.versions.phases(fragment.name, version), moves, *caused)
