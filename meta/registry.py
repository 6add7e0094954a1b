"""Use cases on what a rescale works with: workers with their units, and fragments with their first mapping."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from meta.access import AuditEntry, Caller
from meta.adaptive import NotNow, hindrance, wish
from meta.errors import (
    BadFragment,
    FragmentExists,
    FragmentNotFound,
    TooMany,
    UnitsNotAlive,
    WorkerDiffers,
    WorkerInUse,
    WorkerNotFound,
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
WORKERS_MAX = 10_000
UNITS_MAX = 65_536
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
class WorkerUse:
    """A worker, and the fragments that have a mapping with its units or move away from one."""

    worker: Worker
    fragments: tuple[str, ...] = ()


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
class Registry:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def add_worker(
        self,
        name: str,
        *,
        parallelism: int,
        heartbeat_timeout_ms: int | None,
        labels: Mapping[str, str] | None = None,
        by: Caller,
    ) -> tuple[WorkerUse, bool]:
        """The worker, and whether it is new.

        Registering again is a heartbeat, and sets the timeout, and the labels unless they are None. With more units
        than it has it gets new ones besides: one that was adopted from etcd has only those that were in use. Raises
        `WorkerDiffers` with less.
        """
        now_ms = self.hearing.now().now_ms
        with self.database.transaction() as tx:
            added = tx.workers.add(
                name,
                parallelism=parallelism,
                labels=labels or {},
                heartbeat_timeout_ms=heartbeat_timeout_ms,
                now_ms=now_ms,
            )
            if added is not None:
                _require_room_for_worker(tx)
                tx.audit.add(AuditEntry(now_ms, by, "register", name, _setting(added)))
                return WorkerUse(added), True
            before = held_worker(tx, name)
            if parallelism < len(before.unit_ids):
                raise WorkerDiffers(name, len(before.unit_ids))
            setting: dict[str, Any] = {
                "labels": before.labels if labels is None else labels,
                "heartbeat_timeout_ms": heartbeat_timeout_ms,
            }
            tx.workers.renew(name, now_ms=now_ms, **setting)
            if parallelism > len(before.unit_ids):
                tx.workers.add_units(name, parallelism - len(before.unit_ids))
                _require_room_for_worker(tx)
            changed = {"parallelism": parallelism, **setting, "labels": dict(setting["labels"])}
            if changed != _setting(before):
                tx.audit.add(AuditEntry(now_ms, by, "change", name, changed))
            return _use_of(tx, known_worker(tx, name)), False

    @retry_conflicts
    def beat(self, worker: str) -> None:
        with self.database.transaction() as tx:
            if not tx.workers.beat(worker, self.hearing.now().now_ms):
                raise WorkerNotFound(worker)

    @retry_conflicts
    def drain(self, name: str, *, draining: bool, by: Caller) -> WorkerUse:
        """From now on no plan chooses its units; `draining` False takes that back."""
        with self.database.transaction() as tx:
            held_worker(tx, name)
            if tx.workers.drain(name, draining):
                verb = "drain" if draining else "undrain"
                tx.audit.add(AuditEntry(self.hearing.now().now_ms, by, verb, name))
            return _use_of(tx, known_worker(tx, name))

    @retry_conflicts
    def remove_worker(self, name: str, *, by: Caller) -> None:
        """Forgets a worker that no fragment is on, for good: should it register again, it has other units."""
        with self.database.transaction() as tx:
            # Held before the fragments are read, see `require_units`.
            worker = held_worker(tx, name)
            fragments = _use_of(tx, worker).fragments
            if fragments:
                raise WorkerInUse(name, list(fragments))
            tx.workers.remove(name)
            units = list(worker.unit_ids)
            tx.audit.add(AuditEntry(self.hearing.now().now_ms, by, "remove", name, {"units": units}))

    def worker(self, name: str) -> WorkerUse:
        with self.database.reading() as tx:
            return _use_of(tx, known_worker(tx, name))

    def workers(self, *, after: str | None, limit: int) -> list[WorkerUse]:
        """At most `limit` of them by name, after `after`."""
        with self.database.reading() as tx:
            return _uses(tx, tx.workers.page(after=after, limit=limit))

    @retry_conflicts
    def change_fragment(self, name: str, change: FragmentChange, *, by: Caller) -> FragmentState:
        """A new policy moves nothing by itself here: an adaptive fragment does so once it may."""
        moment = self.hearing.now()
        with self.database.transaction() as tx:
            before = held_fragment(tx, name)
            changed = _changed(before, change)
            _require_policy(changed.adaptive, changed.vnode_count)
            if changed != before:
                tx.fragments.change(changed)
                tx.audit.add(AuditEntry(moment.now_ms, by, "change", name, _said(change)))
            return _states(tx, [changed], moment)[0]

    def fragment(self, name: str) -> Fragment:
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
                names = _use_of(tx, known_worker(tx, worker)).fragments
                later = [name for name in names if after is None or name > after][:limit]
                fragments = [known_fragment(tx, name) for name in later]
            return _states(tx, fragments, self.hearing.now())


def known_worker(tx: Transaction, name: str) -> Worker:
    worker = tx.workers.get(name)
    if worker is None:
        raise WorkerNotFound(name)
    return worker


def held_worker(tx: Transaction, name: str) -> Worker:
    """The worker, as nobody else changes it until this transaction ends."""
    while not tx.workers.hold(name):
        # It may have registered anew while this waited for its removal.
        known_worker(tx, name)
    return known_worker(tx, name)


def known_fragment(tx: Transaction, name: str) -> Fragment:
    fragment = tx.fragments.get(name)
    if fragment is None:
        raise FragmentNotFound(name)
    return fragment


def held_fragment(tx: Transaction, name: str) -> Fragment:
    """The fragment, as nobody else changes it until this transaction ends."""
    tx.fragments.hold(name)
    return known_fragment(tx, name)


def live_units(tx: Transaction, moment: Moment) -> tuple[Unit, ...]:
    """The units of all workers that are alive, those of draining ones with weight 0: nothing is to be put there."""
    return tuple(
        replace(unit, weight=0.0) if worker.draining else unit
        for worker in tx.workers.all()
        if worker.alive(moment)
        for unit in worker.units
    )


def require_units(tx: Transaction, units: Sequence[Unit], moment: Moment) -> None:
    """Whoever gives units vnodes asks this in the same transaction; a weight of 0 is for what is only left there.

    A worker that is removed meanwhile is either gone here, or its removal waits and finds it in use. Raises
    `UnitsNotAlive` where a unit is not alive, or drains.
    """
    tx.workers.keep(unit.worker for unit in units)
    weight_of = {unit.id: unit.weight for unit in live_units(tx, moment)}
    refused = [
        unit for unit in units if not weight_of.get(unit.id) and (unit.weight or unit.id not in weight_of)
    ]
    if refused:
        draining = sorted({unit.worker for unit in refused if unit.id in weight_of})
        raise UnitsNotAlive(sorted(unit.id for unit in refused), draining)


def add_fragment(tx: Transaction, request: FragmentRequest, moment: Moment, *, by: Caller) -> Fragment:
    """A fragment with its version 1. Raises `FragmentExists`, `TooMany`, `UnitsNotAlive`, `MappingError`."""
    fragment, body = new_fragment(request, live_units(tx, moment), moment.now_ms)
    units = decode_body(body).units
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


def new_fragment(request: FragmentRequest, live: Iterable[Unit], now_ms: int) -> tuple[Fragment, bytes]:
    """The fragment and its version 1, which gives each unit one contiguous run of vnodes and is settled."""
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
    return fragment, body


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


def _setting(worker: Worker) -> dict[str, Any]:
    return {
        "parallelism": len(worker.unit_ids),
        "labels": dict(worker.labels),
        "heartbeat_timeout_ms": worker.heartbeat_timeout_ms,
    }


def _require_room_for_worker(tx: Transaction) -> None:
    workers, units = tx.workers.count()
    advice = "remove those that are gone with `vnodectl worker remove`"
    if workers > WORKERS_MAX:
        raise TooMany("workers", WORKERS_MAX, workers, advice)
    if units > UNITS_MAX:
        raise TooMany("units", UNITS_MAX, units, f"{advice}, or register with fewer units")


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


def _use_of(tx: Transaction, worker: Worker) -> WorkerUse:
    return _uses(tx, [worker])[0]


def _uses(tx: Transaction, workers: Sequence[Worker]) -> list[WorkerUse]:
    worker_of = {unit_id: worker.name for worker in workers for unit_id in worker.unit_ids}
    fragments_of: dict[str, list[str]] = {worker.name: [] for worker in workers}
    naming = workers[0].name if len(workers) == 1 else None
    for fragment, phase, body in tx.fragments.current_bodies(naming):
        units, previous = units_in_body(body)
        counting = units if phase is Phase.SETTLED else units | previous
        for name in {worker_of[unit_id] for unit_id in counting if unit_id in worker_of}:
            fragments_of[name].append(fragment)
    return [WorkerUse(worker, tuple(fragments_of[worker.name])) for worker in workers]


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
