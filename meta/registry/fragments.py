"""Fragments with their first mapping."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from meta.callers.access import AuditEntry, Caller
from meta.errors import (
    BadFragment,
    FragmentExists,
    FragmentNotFound,
    TooMany,
)
from meta.hearing import Hearing
from meta.lifecycle import AdaptivePolicy, Fragment, KeyField, Moment, Worker
from meta.mapping.placement import choose_units
from meta.mapping.plan import first_mapping
from meta.mapping.publication import (
    Current,
    MappingVersion,
    Phase,
    decode_body,
    digest,
    encode_body,
    units_in_body,
)
from meta.mapping.unit import Unit
from meta.registry.workers import known_worker, live_units, require_units, worker_use
from meta.rescaling.adaptive import NotNow, hindrance, wish
from meta.store.database import Database, Transaction, retry_conflicts
from storage_keys.errors import StorageKeyError, about
from storage_keys.hash import hash_class, hash_id
from storage_keys.type_name import parse_type
from storage_keys.types import KeyType
from storage_keys.vnode import check_vnode_count

# What the database's column holds: 24 decimals, or 32 of anything else.
HASH_ID_MAX = 255

# Far above what one service is measured with. Two that add at once may pass them by one: they are against runaway
# clients, nothing depends on them.
FRAGMENTS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class FragmentRequest:
    name: str
    vnode_count: int
    distribution_key: tuple[KeyField, ...]
    parallelism: int | AdaptivePolicy
    applier_timeout_ms: int
    table_ids: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class FragmentChange:
    """What is to change of a fragment besides its mapping; None: stays as it is."""

    parallelism: AdaptivePolicy | Literal["fixed"] | None = None
    applier_timeout_ms: int | None = None
    table_ids: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class FragmentState:
    """A fragment with the units of its current mapping, `lost_units` being those that are not alive.

    `not_now`: why an adaptive one that should move does not yet.
    """

    fragment: Fragment
    units: tuple[int, ...]
    lost_units: tuple[int, ...] = field(default=())
    not_now: NotNow | None = None


@dataclass(frozen=True, slots=True)
class FragmentRegistry:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def change(self, name: str, change: FragmentChange, *, by: Caller) -> FragmentState:
        """A new policy moves nothing by itself here: an adaptive fragment does so once it may."""
        moment = self.hearing.now()
        with self.database.transaction() as tx:
            before = held_fragment(tx, name)
            changed = _changed(before, change)
            # A plan may have left fewer vnodes than its `min`: other fields can be changed all the same.
            if change.parallelism is not None:
                _require_policy(changed.adaptive, changed.vnode_count)
            if changed != before:
                tx.fragments.change(changed)
                tx.audit.add(AuditEntry(moment.now_ms, by, "change", name, _said(change)))
            return _states(tx, [changed], moment)[0]

    def get(self, name: str) -> Fragment:
        with self.database.reading() as tx:
            return known_fragment(tx, name)

    def state(self, name: str) -> FragmentState:
        with self.database.reading() as tx:
            return _states(tx, [known_fragment(tx, name)], self.hearing.now())[0]

    def states(self, *, after: str | None, limit: int, worker: str | None = None) -> list[FragmentState]:
        """At most `limit` fragments by name, after `after`: all of them, or those that are on `worker`."""
        with self.database.reading() as tx:
            if worker is None:
                fragments = tx.fragments.page(after=after, limit=limit)
            else:
                names = worker_use(tx, known_worker(tx, worker)).fragments
                later = [name for name in names if after is None or name > after][:limit]
                fragments = [known_fragment(tx, name) for name in later]
            return _states(tx, fragments, self.hearing.now())


def known_fragment(tx: Transaction, name: str) -> Fragment:
    fragment = tx.fragments.get(name)
    if fragment is None:
        raise FragmentNotFound(name)
    return fragment


def held_fragment(tx: Transaction, name: str) -> Fragment:
    """The fragment, as nobody else changes it until this transaction ends."""
    tx.fragments.hold(name)
    return known_fragment(tx, name)


def add_fragment(tx: Transaction, request: FragmentRequest, moment: Moment, *, by: Caller) -> Fragment:
    """A fragment with its version 1. Raises `FragmentExists`, `TooMany`, `UnitsNotAlive`, `MappingError`."""
    fragment, units, body = _new_fragment(request, live_units(tx, moment), moment.now_ms)
    require_units(tx, units, moment)
    if not tx.fragments.add(fragment, body):
        raise FragmentExists(request.name)
    if (count := tx.fragments.count()) > FRAGMENTS_MAX:
        raise TooMany("fragments", FRAGMENTS_MAX, count, "use those there are, or another service")
    detail = {
        "version": 1,
        "vnode_count": fragment.vnode_count,
        "units": len(units),
        "adaptive": fragment.adaptive and asdict(fragment.adaptive),
        "table_ids": list(fragment.table_ids),
    }
    tx.audit.add(AuditEntry(moment.now_ms, by, "create", request.name, detail))
    return fragment


def _new_fragment(
    request: FragmentRequest, live: Iterable[Unit], now_ms: int
) -> tuple[Fragment, tuple[Unit, ...], bytes]:
    """The fragment, and its version 1, which gives each of its units one contiguous run of vnodes and is settled."""
    fragment_hash = _hash_id(request)
    policy = request.parallelism if isinstance(request.parallelism, AdaptivePolicy) else None
    _require_policy(policy, request.vnode_count)
    units = _first_units(request, tuple(live))
    body = encode_body(
        MappingVersion(
            fragment=request.name,
            version=1,
            hash_id=fragment_hash,
            units=units,
            mapping=first_mapping(request.vnode_count, units),
            previous=None,
        )
    )
    fragment = Fragment(
        name=request.name,
        vnode_count=request.vnode_count,
        distribution_key=request.distribution_key,
        hash_id=fragment_hash,
        applier_timeout_ms=request.applier_timeout_ms,
        created_at_ms=now_ms,
        current=Current(1, Phase.SETTLED, digest(body)),
        table_ids=request.table_ids,
        adaptive=policy,
    )
    return fragment, units, body


def _first_units(request: FragmentRequest, live: tuple[Unit, ...]) -> tuple[Unit, ...]:
    policy = request.parallelism
    if isinstance(policy, int):
        return choose_units(live, None, policy)
    bearing = sum(unit.weight > 0 for unit in live)
    return choose_units(live, None, max(policy.min, min(bearing, policy.max, request.vnode_count)))


def _require_policy(policy: AdaptivePolicy | None, vnode_count: int) -> None:
    if policy is None:
        return
    if policy.min > policy.max:
        raise BadFragment("parallelism", f"min {policy.min} is above max {policy.max}; swap or widen them")
    if policy.min > vnode_count:
        raise BadFragment(
            "parallelism", f"min {policy.min} is more units than {vnode_count} vnodes; ask for at most that"
        )


def _changed(fragment: Fragment, change: FragmentChange) -> Fragment:
    if change.parallelism is not None:
        policy = change.parallelism if isinstance(change.parallelism, AdaptivePolicy) else None
        fragment = replace(fragment, adaptive=policy)
    if change.applier_timeout_ms is not None:
        fragment = replace(fragment, applier_timeout_ms=change.applier_timeout_ms)
    if change.table_ids is not None:
        fragment = replace(fragment, table_ids=change.table_ids)
    return fragment


def _said(change: FragmentChange) -> dict[str, Any]:
    return {name: value for name, value in asdict(change).items() if value is not None}


def _states(tx: Transaction, fragments: Sequence[Fragment], moment: Moment) -> list[FragmentState]:
    workers = tx.workers.all()
    alive = {unit_id for worker in workers if worker.alive(moment) for unit_id in worker.unit_ids}
    found = []
    for fragment in fragments:
        body = tx.versions.body(fragment.name, fragment.current.version)
        assert body is not None
        units, _ = units_in_body(body)
        found.append(
            FragmentState(
                fragment=fragment,
                units=tuple(sorted(units)),
                lost_units=tuple(sorted(units - alive)),
                not_now=_not_now(tx, fragment, body, workers, moment),
            )
        )
    return found


def _not_now(
    tx: Transaction, fragment: Fragment, body: bytes, workers: Sequence[Worker], moment: Moment
) -> NotNow | None:
    if fragment.adaptive is None:
        return None
    version = decode_body(body)
    wished = wish(fragment.adaptive, version, workers, moment)
    if wished is None:
        return None
    began_at_ms = tx.versions.began_at_ms(fragment.name, version.version)
    assert began_at_ms is not None
    return hindrance(fragment.adaptive, wished, version, fragment.current, began_at_ms, workers, moment)


def _hash_id(request: FragmentRequest) -> str:
    names = [field.name for field in request.distribution_key]
    if len(set(names)) < len(names):
        raise BadFragment("distribution_key", "a column is named twice; name each once")
    try:
        check_vnode_count(request.vnode_count)
    except StorageKeyError as error:
        raise BadFragment("vnode_count", str(error)) from error
    found = hash_id([_distribution_type(field) for field in request.distribution_key])
    if len(found) > HASH_ID_MAX:
        raise BadFragment("distribution_key", "these are too many columns of long types; name fewer")
    return found


def _distribution_type(field: KeyField) -> KeyType:
    try:
        with about(field.name):
            type_ = parse_type(field.type)
            hash_class(type_)
    except StorageKeyError as error:
        raise BadFragment("distribution_key", str(error)) from error
    return type_
