"""Plans: made on a fragment's current version, checked again when they are applied."""

import hashlib
import json
import secrets
from dataclasses import asdict, dataclass, replace
from functools import lru_cache

from meta.errors import (
    NoLoads,
    PlanExpired,
    PlanNotFound,
    RescaleInFlight,
    StaleBase,
    VersionNotFound,
)
from meta.lifecycle import PLAN_LIFETIME_MS, Cause, Fragment, Moment, NewVersion, RescalePlan
from meta.mapping.diff import Changes, Diff
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import Base, MappingVersion, Phase, decode_body
from meta.registry.fragments import known_fragment
from meta.registry.workers import require_units
from meta.rescaling.goal import ByLoad, Goal, ToVersion, ToVnodeCount
from meta.rescaling.loads import KnownLoads, loads_known
from meta.rescaling.proposal import Fleet, Proposal, levelled, recounted, rolled_back
from meta.store.database import Transaction


@dataclass(frozen=True, slots=True)
class DryRun:
    """A plan with what it changes in the mapping that it was made on, `previous`.

    `reasons` has one text for each of `moves`; it is empty where nobody asked for them.
    """

    stored: RescalePlan
    previous: VnodeMapping
    reasons: tuple[str, ...]

    @property
    def moves(self) -> Changes:
        return Diff(self.previous, self.stored.mapping).moves


@dataclass(frozen=True, slots=True)
class Basis:
    """All that a plan is made from, as it was at one instant: `then` for a rollback, `known` for a plan by load."""

    fragment: Fragment
    base: MappingVersion
    fleet: Fleet
    then: MappingVersion | None
    known: KnownLoads | None
    now_ms: int


def basis_of(tx: Transaction, fragment: Fragment, goal: Goal, moment: Moment) -> Basis:
    """What a plan for `goal` on the fragment's current version is made from. Raises `VersionNotFound`."""
    then = mapping_version(tx, fragment, goal.aim.version) if isinstance(goal.aim, ToVersion) else None
    return Basis(
        fragment=fragment,
        base=mapping_version(tx, fragment, fragment.current.version),
        fleet=Fleet(tx.workers.all(), moment),
        then=then,
        known=loads_known(tx, fragment, moment.now_ms) if isinstance(goal.measure, ByLoad) else None,
        now_ms=moment.now_ms,
    )


def dry_run(basis: Basis, goal: Goal, cause: Cause = Cause.RESCALE) -> DryRun:
    """What `goal` comes to, not stored yet. Raises `MetaError`, `MappingError`.

    A large plan by load takes seconds, so no transaction is to be open meanwhile.
    """
    proposal = _proposal(basis, goal)
    stored = _stored_plan(basis.fragment, goal, proposal, cause, basis.now_ms)
    return DryRun(stored, basis.base.mapping, proposal.reasons)


def _proposal(basis: Basis, goal: Goal) -> Proposal:
    base, fleet, known = basis.base, basis.fleet, basis.known
    if isinstance(goal.aim, ToVnodeCount):
        return recounted(base, goal.aim.vnode_count, fleet)
    if basis.then is not None:
        return rolled_back(base, basis.then, fleet)
    if known is None:
        return levelled(goal, base, fleet, None)
    if known.loads is None:
        raise NoLoads(basis.fragment.name, known.newest_age_ms)
    proposal = levelled(goal, base, fleet, known.loads)
    return replace(proposal, warnings=(*proposal.warnings, *known.warnings))


def planned_under(tx: Transaction, token: str) -> RescalePlan:
    found = tx.plans.get(token.partition(".")[0])
    if found is None or found.token != token:
        raise PlanNotFound(token)
    return found


def advance(tx: Transaction, planned: RescalePlan, moment: Moment) -> int:
    """Makes the plan the fragment's next version, unless it changes nothing; the version that it led to."""
    fragment = known_fragment(tx, planned.fragment)
    _require_applicable(tx, fragment, planned, moment)
    base = mapping_version(tx, fragment, planned.base_version)
    if planned.mapping == base.mapping and planned.units == base.units:
        return base.version
    new = NewVersion.of(_next_version(base, planned), Phase.RESCALING, planned.cause, planned.id)
    if not tx.fragments.begin_version(fragment.name, base.version, new, now_ms=moment.now_ms):
        raise StaleBase(fragment.name, base.version, new.current.version)
    return new.current.version


def as_before(tx: Transaction, fragment: Fragment) -> MappingVersion:
    """The version that an abort of the current one goes on with: that one's base again, in which nothing moved."""
    aborted = mapping_version(tx, fragment, fragment.current.version)
    base = aborted.previous
    assert base is not None, "a fragment's first version settled at once"
    # Its base is its `previous` too: a reader goes from there to the same owners.
    return replace(aborted, version=aborted.version + 1, units=base.units, mapping=base.mapping)


def version_body(tx: Transaction, fragment: Fragment, version: int) -> bytes:
    body = tx.versions.body(fragment.name, version)
    if body is None:
        raise VersionNotFound(fragment.name, version, fragment.oldest_version, fragment.current.version)
    return body


def mapping_version(tx: Transaction, fragment: Fragment, version: int) -> MappingVersion:
    return _decoded(version_body(tx, fragment, version))


# The largest takes half a second, and a version in flight is looked at every second and by every report of it.
@lru_cache(maxsize=16)
def _decoded(body: bytes) -> MappingVersion:
    return decode_body(body)


def _stored_plan(
    fragment: Fragment, goal: Goal, proposal: Proposal, cause: Cause, now_ms: int
) -> RescalePlan:
    current = fragment.current
    # All that a token stands for: whoever applies it gets these owners on these units, from this very base.
    content = {
        "base": {"version": current.version, "digest": current.digest},
        "fragment": fragment.name,
        "owners": str(proposal.mapping),
        "units": [asdict(unit) for unit in proposal.units],
    }
    return RescalePlan(
        id=secrets.token_hex(6),
        fragment=fragment.name,
        base_version=current.version,
        units=proposal.units,
        mapping=proposal.mapping,
        certificate=proposal.certificate,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + PLAN_LIFETIME_MS,
        digest=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12],
        goal=goal,
        cause=cause,
        leaving=proposal.leaving,
        remaining_moves=proposal.remaining_moves,
        warnings=proposal.warnings,
    )


def _require_applicable(tx: Transaction, fragment: Fragment, planned: RescalePlan, moment: Moment) -> None:
    current = fragment.current
    if current.phase is not Phase.SETTLED:
        raise RescaleInFlight(fragment.name, current.version, current.phase)
    if current.version != planned.base_version:
        raise StaleBase(fragment.name, planned.base_version, current.version)
    if moment.now_ms >= planned.expires_at_ms:
        raise PlanExpired(fragment.name, planned.token)
    # Another vnode count gives nothing to anybody.
    if not isinstance(planned.goal.aim, ToVnodeCount):
        require_units(tx, planned.units, moment)


def _next_version(base: MappingVersion, planned: RescalePlan) -> MappingVersion:
    return MappingVersion(
        fragment=planned.fragment,
        version=base.version + 1,
        hash_id=base.hash_id,
        units=tuple(sorted(planned.units)),
        mapping=planned.mapping,
        previous=Base(base.version, base.units, base.mapping),
    )
