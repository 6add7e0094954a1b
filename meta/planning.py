"""Plans: made on a fragment's current version, checked again when they are applied."""

import hashlib
import json
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from meta.errors import (
    PlanExpired,
    PlanNotFound,
    RescaleInFlight,
    StaleBase,
    UnitsNotAlive,
    VersionNotFound,
)
from meta.lifecycle import PLAN_LIFETIME_MS, Fragment, Moment, RescalePlan
from meta.mapping.mapping import VnodeMapping
from meta.mapping.moves import Moves
from meta.mapping.placement import choose_units
from meta.mapping.plan import Plan, plan
from meta.mapping.publication import Base, Current, MappingVersion, Phase, decode_body, digest, encode_body
from meta.mapping.unit import Unit
from meta.registry import known_fragment, live_units
from meta.store.database import Transaction


@dataclass(frozen=True, slots=True)
class Goal:
    """What a rescale is asked for: a number of units, or exactly these."""

    parallelism: int | None = None
    unit_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class DryRun:
    """A plan to be stored, with what it would change in the mapping that is now `previous`."""

    stored: RescalePlan
    previous: VnodeMapping
    moves: Moves


def dry_run(tx: Transaction, fragment: Fragment, goal: Goal, moment: Moment) -> DryRun:
    base = mapping_version(tx, fragment, fragment.current.version)
    live = live_units(tx, moment)
    units = _chosen_units(live, base, goal)
    planned = plan(base.mapping, (*units, *_drained(live, units, base)))
    return DryRun(_stored_plan(fragment, units, planned, moment.now_ms), base.mapping, planned.moves)


def planned_under(tx: Transaction, token: str) -> RescalePlan:
    found = tx.plans.get(token.partition(".")[0])
    if found is None or found.token != token:
        raise PlanNotFound(token)
    return found


def advance(tx: Transaction, planned: RescalePlan, moment: Moment) -> RescalePlan:
    """Makes the plan the fragment's next version, unless it changes nothing."""
    fragment = known_fragment(tx, planned.fragment)
    _require_applicable(tx, fragment, planned, moment)
    base = mapping_version(tx, fragment, planned.base_version)
    if planned.mapping == base.mapping:
        return _applied(tx, planned, base.version)
    body = _next_body(base, planned)
    new = Current(base.version + 1, Phase.RESCALING, digest(body))
    moves, now_ms = planned.certificate.moves, moment.now_ms
    if not tx.fragments.begin_version(fragment.name, base.version, new, body, moves=moves, now_ms=now_ms):
        raise StaleBase(fragment.name, base.version, new.version)
    return _applied(tx, planned, new.version)


def version_body(tx: Transaction, fragment: Fragment, version: int) -> bytes:
    body = tx.fragments.body(fragment.name, version)
    if body is None:
        raise VersionNotFound(fragment.name, version, fragment.current.version)
    return body


def mapping_version(tx: Transaction, fragment: Fragment, version: int) -> MappingVersion:
    return decode_body(version_body(tx, fragment, version))


def _chosen_units(live: Iterable[Unit], base: MappingVersion, goal: Goal) -> tuple[Unit, ...]:
    if goal.parallelism is not None:
        return choose_units(live, base.mapping, goal.parallelism)
    chosen = tuple(unit for unit in live if unit.id in goal.unit_ids)
    missing = goal.unit_ids - {unit.id for unit in chosen}
    if missing:
        raise UnitsNotAlive(sorted(missing))
    return chosen


def _drained(live: Iterable[Unit], chosen: Iterable[Unit], base: MappingVersion) -> tuple[Unit, ...]:
    """The live units that leave: without them the planner would not know the workers that they are on."""
    leaving = {unit.id for unit in base.units} - {unit.id for unit in chosen}
    return tuple(replace(unit, weight=0.0) for unit in live if unit.id in leaving)


def _stored_plan(fragment: Fragment, units: tuple[Unit, ...], planned: Plan, now_ms: int) -> RescalePlan:
    content = {
        "base": asdict(fragment.current),
        "fragment": fragment.name,
        "owners": str(planned.mapping),
        "units": [asdict(unit) for unit in units],
    }
    return RescalePlan(
        id=secrets.token_hex(4),
        fragment=fragment.name,
        base_version=fragment.current.version,
        units=units,
        mapping=planned.mapping,
        certificate=planned.certificate,
        created_at_ms=now_ms,
        expires_at_ms=now_ms + PLAN_LIFETIME_MS,
        digest=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12],
    )


def _require_applicable(tx: Transaction, fragment: Fragment, planned: RescalePlan, moment: Moment) -> None:
    current = fragment.current
    if current.phase is not Phase.SETTLED:
        raise RescaleInFlight(fragment.name, current.version, current.phase)
    if current.version != planned.base_version:
        raise StaleBase(fragment.name, planned.base_version, current.version)
    if moment.now_ms >= planned.expires_at_ms:
        raise PlanExpired(fragment.name, planned.token)
    lost = {unit.id for unit in planned.units} - {unit.id for unit in live_units(tx, moment)}
    if lost:
        raise UnitsNotAlive(sorted(lost))


def _applied(tx: Transaction, planned: RescalePlan, version: int) -> RescalePlan:
    tx.plans.mark_applied(planned.id, version)
    return replace(planned, applied_version=version)


def _next_body(base: MappingVersion, planned: RescalePlan) -> bytes:
    return encode_body(
        MappingVersion(
            fragment=planned.fragment,
            version=base.version + 1,
            hash_id=base.hash_id,
            units=tuple(sorted(planned.units)),
            mapping=planned.mapping,
            previous=Base(base.version, base.units, base.mapping),
        )
    )
