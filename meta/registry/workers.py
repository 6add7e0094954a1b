"""Workers with their units: what a rescale puts vnodes on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from meta.callers.access import AuditEntry, Caller
from meta.errors import TooMany, UnitsNotAlive, WorkerDiffers, WorkerInUse, WorkerNotFound
from meta.hearing import Hearing
from meta.lifecycle import Moment, Worker
from meta.mapping.publication import Phase, units_in_body
from meta.mapping.unit import Unit
from meta.store.database import Database, Transaction, retry_conflicts

# Far above what one service is measured with. Two that add at once may pass them by one: they are against runaway
# clients, nothing depends on them.
WORKERS_MAX = 10_000
UNITS_MAX = 65_536


@dataclass(frozen=True, slots=True)
class WorkerUse:
    """A worker, and the fragments that have a mapping with its units or move away from one."""

    worker: Worker
    fragments: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WorkerRegistry:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def register(
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
            return worker_use(tx, known_worker(tx, name)), False

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
            return worker_use(tx, known_worker(tx, name))

    @retry_conflicts
    def remove(self, name: str, *, by: Caller) -> None:
        """Forgets a worker that no fragment is on, for good: should it register again, it has other units."""
        with self.database.transaction() as tx:
            # Held before the fragments are read, see `require_units`.
            worker = held_worker(tx, name)
            fragments = worker_use(tx, worker).fragments
            if fragments:
                raise WorkerInUse(name, list(fragments))
            tx.workers.remove(name)
            units = list(worker.unit_ids)
            tx.audit.add(AuditEntry(self.hearing.now().now_ms, by, "remove", name, {"units": units}))

    def get(self, name: str) -> WorkerUse:
        with self.database.reading() as tx:
            return worker_use(tx, known_worker(tx, name))

    def page(self, *, after: str | None, limit: int) -> list[WorkerUse]:
        """At most `limit` of them by name, after `after`."""
        with self.database.reading() as tx:
            return _uses(tx, tx.workers.page(after=after, limit=limit))


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


def worker_use(tx: Transaction, worker: Worker) -> WorkerUse:
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
