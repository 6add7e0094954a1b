"""Use cases on what a rescale works with: workers with their units, and fragments with their first mapping."""

from collections.abc import Iterable
from dataclasses import dataclass

from meta.errors import (
    BadFragment,
    FragmentNotFound,
    WorkerDiffers,
    WorkerNotFound,
)
from meta.hearing import Hearing
from meta.lifecycle import Fragment, KeyField, Moment, Worker
from meta.mapping.placement import choose_units
from meta.mapping.plan import first_mapping
from meta.mapping.publication import Current, MappingVersion, Phase, digest, encode_body
from meta.mapping.unit import Unit
from meta.store.database import Database, Transaction, retry_conflicts
from storage_keys.errors import StorageKeyError, about
from storage_keys.hash import hash_class, hash_id
from storage_keys.type_name import parse_type
from storage_keys.types import KeyType
from storage_keys.vnode import check_vnode_count

# What the database's column holds: 24 decimals, or 32 of anything else.
HASH_ID_MAX = 255


@dataclass(frozen=True, slots=True)
class FragmentRequest:
    name: str
    vnode_count: int
    distribution_key: tuple[KeyField, ...]
    parallelism: int
    applier_timeout_ms: int


@dataclass(frozen=True, slots=True)
class Registry:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def add_worker(
        self, name: str, *, parallelism: int, heartbeat_timeout_ms: int | None
    ) -> tuple[Worker, bool]:
        """The worker, and whether it is new.

        Registering again with the same number of units is a heartbeat, and sets the timeout.
        """
        now_ms = self.hearing.now().now_ms
        with self.database.transaction() as tx:
            added = tx.workers.add(
                name, parallelism=parallelism, heartbeat_timeout_ms=heartbeat_timeout_ms, now_ms=now_ms
            )
            if added is not None:
                return added, True
            known = tx.workers.get(name)
            assert known is not None, "workers are not removed"
            if len(known.unit_ids) != parallelism:
                raise WorkerDiffers(name, len(known.unit_ids))
            return tx.workers.renew(name, heartbeat_timeout_ms=heartbeat_timeout_ms, now_ms=now_ms), False

    @retry_conflicts
    def beat(self, worker: str) -> None:
        with self.database.transaction() as tx:
            if not tx.workers.beat(worker, self.hearing.now().now_ms):
                raise WorkerNotFound(worker)

    def workers(self) -> list[Worker]:
        with self.database.reading() as tx:
            return tx.workers.all()

    def fragment(self, name: str) -> Fragment:
        with self.database.reading() as tx:
            return known_fragment(tx, name)

    def fragments(self) -> list[Fragment]:
        with self.database.reading() as tx:
            return tx.fragments.all()


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
    return tuple(unit for worker in tx.workers.all() if worker.alive(moment) for unit in worker.units)


def new_fragment(request: FragmentRequest, live: Iterable[Unit], now_ms: int) -> tuple[Fragment, bytes]:
    """The fragment and its version 1, which gives each unit one contiguous run of vnodes and is settled."""
    fragment_hash = _hash_id(request)
    units = choose_units(live, None, request.parallelism)
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
    )
    return fragment, body


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
