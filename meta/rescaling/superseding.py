"""A rescale that loses a unit under way goes on without it: one more version of the same rescale.

What the lost unit was to own goes to those that live, and nothing else moves. Source: design.md, "Jobs, fragments,
rescales".
"""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

import numpy as np

from meta.callers.access import ITSELF, AuditEntry
from meta.errors import MetaError, TooManyLost
from meta.lifecycle import Cause, Fragment, Moment, NewVersion, RescalePhase
from meta.mapping.errors import MappingError
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import plan
from meta.mapping.publication import Base, MappingVersion, Phase
from meta.mapping.unit import Unit
from meta.observability.trouble import Troubles
from meta.reconciliation.publishing import Publishing, require_known
from meta.registry.fragments import held_fragment, known_fragment
from meta.registry.workers import live_units
from meta.rescaling.planning import mapping_version
from meta.store.database import Database, Transaction

# That one unit is lost tells of that unit; from two on, more than half of all tell rather of the network or of us.
LOST_TOGETHER_MIN = 2


def lost_units(version: MappingVersion, living: AbstractSet[int]) -> frozenset[int]:
    """The owners that are gone; one that owns nothing is no loss."""
    return frozenset(version.mapping.units) - living


def too_many(lost: AbstractSet[int], version: MappingVersion) -> bool:
    """Whether so many were lost at once that it is wiser to wait for them."""
    owners = len(version.mapping.units)
    return len(lost) == owners or (len(lost) >= LOST_TOGETHER_MIN and 2 * len(lost) > owners)


def without(version: MappingVersion, units: tuple[Unit, ...], phase: Phase) -> MappingVersion:
    """The version that takes the place of `version`, which is in `phase` and of whose units only `units` live."""
    before = version.mapping
    goal = plan(before, units, budget=1).mapping
    # Not even the one move that such a plan may make for a better balance: what a budget or the loads left uneven
    # is so on purpose.
    orphaned = ~np.isin(before.array, [unit.id for unit in units])
    used = phase is not Phase.RESCALING
    return replace(
        version,
        version=version.version + 1,
        units=units,
        mapping=VnodeMapping.from_array(np.where(orphaned, goal.array, before.array)),
        previous=Base(version.version, version.units, version.mapping) if used else version.previous,
    )


@dataclass(frozen=True, slots=True)
class Superseding:
    database: Database
    publishing: Publishing
    troubles: Troubles

    def look_after(self, fragment_name: str, moment: Moment) -> bool:
        """Supersedes the version in flight where units of it are lost; whether it did."""
        subject = f"fragment {fragment_name}: rescale"
        with self.database.reading() as tx:
            lost = _lost(tx, known_fragment(tx, fragment_name), moment)
        if not lost:
            self.troubles.over(subject)
            return False
        try:
            published = self.publishing.published(fragment_name)
            with self.database.transaction() as tx:
                require_known(tx, fragment_name, published)
                return _supersede(tx, held_fragment(tx, fragment_name), moment)
        except (MetaError, MappingError) as error:
            self.troubles.tell(subject, str(error))
            return False


def _lost(tx: Transaction, fragment: Fragment, moment: Moment) -> frozenset[int]:
    if fragment.current.phase is Phase.SETTLED:
        return frozenset()
    version = mapping_version(tx, fragment, fragment.current.version)
    return lost_units(version, {unit.id for unit in live_units(tx, moment)})


def _supersede(tx: Transaction, fragment: Fragment, moment: Moment) -> bool:
    lost, current = _lost(tx, fragment, moment), fragment.current
    if not lost:
        return False
    version = mapping_version(tx, fragment, current.version)
    units = _living(tx, version, moment)
    if too_many(lost, version) or not any(unit.weight for unit in units):
        raise TooManyLost(fragment.name, current.version, sorted(lost))
    _, plan_id = tx.versions.cause(fragment.name, current.version) or (None, None)
    new = NewVersion.of(without(version, units, current.phase), Phase.RESCALING, Cause.SUPERSEDING, plan_id)
    superseded = tx.fragments.end_version(
        fragment.name, current, RescalePhase.SUPERSEDED, new, now_ms=moment.now_ms
    )
    assert superseded, "it is held"
    detail = {
        "rescale": plan_id,
        "lost_units": sorted(lost),
        "superseded_version": current.version,
        "version": new.current.version,
        "moves": new.moves,
    }
    tx.audit.add(AuditEntry(moment.now_ms, ITSELF, "supersede", fragment.name, detail))
    return True


def _living(tx: Transaction, version: MappingVersion, moment: Moment) -> tuple[Unit, ...]:
    """The units of the version that live. Those that drain get nothing more."""
    living = {unit.id: unit for unit in live_units(tx, moment)}
    return tuple(
        unit if living[unit.id].weight else replace(unit, weight=0.0)
        for unit in version.units
        if unit.id in living
    )
