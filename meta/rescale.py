"""The use cases of a rescale: plan -> token -> apply -> publish -> accept -> acknowledge -> settle.

The one place that orders effects: SQL first, in one transaction, then etcd, which may lag and is brought up by
`reconcile`. Source: design.md, "Jobs, fragments, rescales".
"""

import hashlib
import json
import logging
import secrets
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace

from meta.coordination.publisher import DigestConflict, Publication, Publisher
from meta.errors import (
    DatabaseBehind,
    PlanExpired,
    PlanNotFound,
    RescaleInFlight,
    StaleBase,
    UnitsNotAlive,
    VersionNotCurrent,
    VersionNotFound,
)
from meta.etcd.errors import EtcdError
from meta.hearing import Hearing
from meta.lifecycle import (
    PLAN_LIFETIME_MS,
    Certificate,
    Fragment,
    Moment,
    PhaseChange,
    Progress,
    RescalePlan,
    Subscriber,
    progress,
)
from meta.mapping.errors import MalformedPublication
from meta.mapping.placement import choose_units
from meta.mapping.plan import Plan, plan
from meta.mapping.publication import Base, Current, MappingVersion, Phase, decode_body, digest, encode_body
from meta.mapping.unit import Unit
from meta.registry import known_fragment, live_units
from meta.store.database import Database, Transaction

log = logging.getLogger(__name__)

FORGET_SUBSCRIBERS_MS = 24 * 3600 * 1000


@dataclass(frozen=True, slots=True)
class Goal:
    """What a rescale is asked for: a number of units, or exactly these."""

    parallelism: int | None = None
    unit_ids: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Version:
    """One row of a fragment's history."""

    body: MappingVersion
    phases: tuple[PhaseChange, ...]
    moves: int


class Rescales:
    """The rescales of all fragments."""

    def __init__(self, database: Database, publisher: Publisher, hearing: Hearing) -> None:
        self._database = database
        self._publisher = publisher
        self._hearing = hearing

    def plan(self, fragment_name: str, goal: Goal) -> tuple[RescalePlan, Plan]:
        """A dry run on the current version, kept under a token until it expires."""
        moment = self._hearing.now()
        with self._database.transaction() as tx:
            fragment = known_fragment(tx, fragment_name)
            base = _version_body(tx, fragment, fragment.current.version)
            live = live_units(tx, moment)
            units = _chosen_units(live, base, goal)
            planned = plan(base.mapping, (*units, *_drained(live, units, base)))
            stored = _stored_plan(fragment, base, units, planned, moment.now_ms)
            tx.plans.add(stored)
            return stored, planned

    def apply(self, token: str) -> RescalePlan:
        """Makes the plan the fragment's next version, and publishes it. The same token has the same answer."""
        moment = self._hearing.now()
        self._refuse_behind(token)
        with self._database.transaction() as tx:
            planned = _planned(tx, token)
            if planned.applied_version is None:
                planned = _advance(tx, planned, moment)
                _settle(tx, known_fragment(tx, planned.fragment), moment)
        self.publish(planned.fragment)
        return planned

    def accept(self, fragment_name: str, version: int) -> Current:
        """The point of no return, asked for by an applier before anything uses `version`."""
        now_ms = self._hearing.now().now_ms
        with self._database.transaction() as tx:
            accepted = tx.fragments.change_phase(
                fragment_name, version, Phase.RESCALING, Phase.ACCEPTED, now_ms=now_ms
            )
            current = known_fragment(tx, fragment_name).current
            if version > current.version:
                raise VersionNotFound(fragment_name, version, current.version)
            if version < current.version:
                raise VersionNotCurrent(fragment_name, version, current.version)
        if accepted:
            self.publish(fragment_name)
        return current

    def hear(self, subscriber: Subscriber) -> Subscriber:
        """A subscriber's registration, heartbeat and acknowledgement."""
        moment = self._hearing.now()
        with self._database.transaction() as tx:
            fragment = known_fragment(tx, subscriber.fragment)
            acknowledged = subscriber.acknowledged_version
            if acknowledged is not None and not 1 <= acknowledged <= fragment.current.version:
                raise VersionNotFound(fragment.name, acknowledged, fragment.current.version)
            saved = tx.subscribers.save(subscriber)
            settled = _settle(tx, fragment, moment)
        if settled:
            self.publish(fragment.name)
        return saved

    def dismiss(self, fragment_name: str, subscriber_id: str) -> None:
        """A subscriber leaves by itself, and is waited for no more."""
        moment = self._hearing.now()
        with self._database.transaction() as tx:
            fragment = known_fragment(tx, fragment_name)
            tx.subscribers.remove(fragment_name, subscriber_id)
            settled = _settle(tx, fragment, moment)
        if settled:
            self.publish(fragment_name)

    def progress(self, fragment_name: str) -> Progress:
        moment = self._hearing.now()
        with self._database.reading() as tx:
            return _progress(tx, known_fragment(tx, fragment_name), moment)

    def subscribers(self, fragment_name: str) -> list[Subscriber]:
        with self._database.reading() as tx:
            known_fragment(tx, fragment_name)
            return tx.subscribers.of(fragment_name)

    def body(self, fragment_name: str, version: int | None = None) -> bytes:
        """The published bytes of a version, by default the current one."""
        with self._database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            return _body(tx, fragment, fragment.current.version if version is None else version)

    def history(self, fragment_name: str) -> list[Version]:
        """All versions, oldest first."""
        with self._database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            phases = tx.fragments.phases(fragment_name)
            return [
                Version(
                    body=_version_body(tx, fragment, version),
                    phases=tuple(change for change in phases if change.version == version),
                    moves=moves,
                )
                for version, moves in tx.fragments.moves(fragment_name).items()
            ]

    def publish(self, fragment_name: str) -> Publication | None:
        """Brings etcd up to SQL; None where etcd did not take it now, which `reconcile` makes good."""
        try:
            return self._publish(fragment_name)
        except EtcdError as error:
            log.warning("%s is not published yet: %s", fragment_name, error)
            return None

    def reconcile(self) -> None:
        """Settles what is due and brings etcd up to SQL, for every fragment."""
        moment = self._hearing.now()
        with self._database.transaction() as tx:
            fragments = tx.fragments.all()
            for fragment in fragments:
                _settle(tx, fragment, moment)
            # Who was silent while nobody could be heard is not forgotten: see `Moment`.
            if moment.now_ms - moment.silence_from_ms > FORGET_SUBSCRIBERS_MS:
                tx.subscribers.forget_silent(moment.now_ms - FORGET_SUBSCRIBERS_MS)
        try:
            for fragment in fragments:
                self._publish(fragment.name)
        except EtcdError as error:
            # The others would wait for it in vain too, one timeout each.
            log.warning("not everything is published yet: %s", error)

    def _refuse_behind(self, token: str) -> None:
        """A database restored from a backup must not give a published version a second meaning."""
        with self._database.reading() as tx:
            planned = _planned(tx, token)
            current = known_fragment(tx, planned.fragment).current
        try:
            published = self._publisher.published(planned.fragment)
        except (EtcdError, MalformedPublication) as error:
            log.warning("%s: not compared with etcd before applying: %s", planned.fragment, error)
            return
        if published is not None and published.version > current.version:
            # Not behind if another request was quicker than our reading.
            with self._database.reading() as tx:
                current = known_fragment(tx, planned.fragment).current
            if published.version > current.version:
                raise DatabaseBehind(planned.fragment, current.version, published.version)

    def _publish(self, fragment_name: str) -> Publication | None:
        fragment, body = self._newest(fragment_name)
        try:
            outcome = self._publisher.publish(fragment_name, fragment.current, body)
        except (DigestConflict, MalformedPublication) as error:
            log.error("%s: %s", fragment_name, error)
            return None
        # Ahead of what we read may only mean that another thread was quicker.
        if outcome is Publication.AHEAD and self._newest(fragment_name)[0].current == fragment.current:
            log.error(
                "%s: etcd is ahead of the database (version %d here): was it restored from a backup?",
                fragment_name,
                fragment.current.version,
            )
        return outcome

    def _newest(self, fragment_name: str) -> tuple[Fragment, bytes]:
        with self._database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            return fragment, _body(tx, fragment, fragment.current.version)


def _advance(tx: Transaction, planned: RescalePlan, moment: Moment) -> RescalePlan:
    fragment = known_fragment(tx, planned.fragment)
    _check_applicable(tx, fragment, planned, moment)
    if not planned.changes:
        return _applied(tx, planned, planned.base.version)
    body = _next_body(_version_body(tx, fragment, planned.base.version), planned)
    new = Current(planned.base.version + 1, Phase.RESCALING, digest(body))
    moves, now_ms = planned.certificate.moves, moment.now_ms
    if not tx.fragments.begin_version(fragment.name, planned.base, new, body, moves=moves, now_ms=now_ms):
        raise StaleBase(fragment.name, planned.base.version, new.version)
    return _applied(tx, planned, new.version)


def _settle(tx: Transaction, fragment: Fragment, moment: Moment) -> bool:
    if not _progress(tx, fragment, moment).may_settle:
        return False
    version, phase = fragment.current.version, fragment.current.phase
    return tx.fragments.change_phase(fragment.name, version, phase, Phase.SETTLED, now_ms=moment.now_ms)


def _progress(tx: Transaction, fragment: Fragment, moment: Moment) -> Progress:
    return progress(fragment, tx.subscribers.of(fragment.name), moment)


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


def _stored_plan(
    fragment: Fragment, base: MappingVersion, units: tuple[Unit, ...], planned: Plan, now_ms: int
) -> RescalePlan:
    content = {
        "base": asdict(fragment.current),
        "fragment": fragment.name,
        "owners": str(planned.mapping),
        "units": [asdict(unit) for unit in units],
    }
    return RescalePlan(
        id=secrets.token_hex(4),
        fragment=fragment.name,
        base=fragment.current,
        units=units,
        previous=base.mapping,
        mapping=planned.mapping,
        certificate=Certificate.of(planned),
        created_at_ms=now_ms,
        expires_at_ms=now_ms + PLAN_LIFETIME_MS,
        digest=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12],
    )


def _planned(tx: Transaction, token: str) -> RescalePlan:
    found = tx.plans.get(token.partition(".")[0])
    if found is None or found.token != token:
        raise PlanNotFound(token)
    return found


def _applied(tx: Transaction, planned: RescalePlan, version: int) -> RescalePlan:
    tx.plans.mark_applied(planned.id, version)
    return replace(planned, applied_version=version)


def _check_applicable(tx: Transaction, fragment: Fragment, planned: RescalePlan, moment: Moment) -> None:
    current = fragment.current
    if current.phase is not Phase.SETTLED:
        raise RescaleInFlight(fragment.name, current.version, current.phase)
    if current.version != planned.base.version:
        raise StaleBase(fragment.name, planned.base.version, current.version)
    if moment.now_ms >= planned.expires_at_ms:
        raise PlanExpired(fragment.name, planned.token)
    lost = {unit.id for unit in planned.units} - {unit.id for unit in live_units(tx, moment)}
    if lost:
        raise UnitsNotAlive(sorted(lost))


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


def _version_body(tx: Transaction, fragment: Fragment, version: int) -> MappingVersion:
    return decode_body(_body(tx, fragment, version))


def _body(tx: Transaction, fragment: Fragment, version: int) -> bytes:
    body = tx.fragments.body(fragment.name, version)
    if body is None:
        raise VersionNotFound(fragment.name, version, fragment.current.version)
    return body
