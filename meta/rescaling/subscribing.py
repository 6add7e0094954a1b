"""The use cases of subscribers: they register, beat and acknowledge; the last acknowledgement settles a version."""

from dataclasses import dataclass, replace

import numpy as np

from meta.callers.access import AccessRole, AuditEntry, Caller, require
from meta.errors import NotMoving, TooMany
from meta.hearing import Hearing
from meta.lifecycle import Beat, Fragment, HandedOver, Role, Subscriber
from meta.observability.trouble import Troubles
from meta.reconciliation.publishing import Publishing
from meta.registry.fragments import held_fragment, known_fragment
from meta.rescaling.planning import mapping_version
from meta.rescaling.progress import VnodeProgress, moving_vnodes, runs_of, vnode_progress, vnodes_of
from meta.rescaling.settling import settle
from meta.store.database import Database, Transaction, retry_conflicts

STRANGERS_SHOWN = 10
# Of one fragment: against runaway clients.
SUBSCRIBERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Subscribing:
    database: Database
    publishing: Publishing
    hearing: Hearing
    troubles: Troubles

    @retry_conflicts
    def hear(self, fragment_name: str, beat: Beat, *, by: Caller) -> tuple[Subscriber, Fragment]:
        """A subscriber's registration, heartbeat and acknowledgement, if it has anything to acknowledge.

        Raises `NotMoving` for a report of vnodes that do not move, and `Forbidden` for an applier of a reader's.
        """
        moment = self.hearing.now()
        with self.database.transaction() as tx:
            fragment = held_fragment(tx, fragment_name)
            known = tx.subscribers.get(fragment_name, beat.id)
            _require_allowed(known, beat.role, by)
            if known is None:
                _require_room(tx, fragment_name)
            heard = Subscriber(
                id=beat.id,
                fragment=fragment_name,
                name=beat.name,
                role=beat.role,
                acknowledged_version=beat.acknowledged_version,
                seen_at_ms=moment.now_ms,
                handed_over=_of_current(tx, fragment, beat.handed_over),
            )
            saved = tx.subscribers.save(self._without_future(heard, fragment))
            settled = settle(tx, fragment, moment)
        if settled:
            self.publishing.publish(fragment_name)
        return saved, fragment

    @retry_conflicts
    def deregister(self, fragment_name: str, subscriber_id: str, *, by: Caller) -> None:
        """A subscriber leaves by itself, and is waited for no more."""
        moment = self.hearing.now()
        with self.database.transaction() as tx:
            fragment = held_fragment(tx, fragment_name)
            _require_allowed(tx.subscribers.get(fragment_name, subscriber_id), Role.READER, by)
            self.troubles.over(_subject(fragment_name, subscriber_id))
            if tx.subscribers.remove(fragment_name, subscriber_id):
                detail = {"subscriber": subscriber_id}
                tx.audit.add(AuditEntry(moment.now_ms, by, "deregister", fragment_name, detail))
            settled = settle(tx, fragment, moment)
        if settled:
            self.publishing.publish(fragment_name)

    def progress(self, fragment_name: str) -> VnodeProgress:
        """Of the current version."""
        moment = self.hearing.now()
        with self.database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            moving = tx.versions.moves(fragment_name, fragment.current.version)
            assert moving is not None
            return vnode_progress(fragment, tx.subscribers.of(fragment_name), moving, moment)

    def _without_future(self, heard: Subscriber, fragment: Fragment) -> Subscriber:
        """A subscriber ahead of a restored database lives, and its acknowledgement is of another history."""
        subject = _subject(fragment.name, heard.id)
        acknowledged = heard.acknowledged_version
        if acknowledged is None or acknowledged <= fragment.current.version:
            self.troubles.over(subject)
            return heard
        self.troubles.tell(
            subject,
            f"{heard.name} acknowledges version {acknowledged} and the database has only {fragment.current.version}: "
            "was it restored from a backup? The subscriber is heard without that acknowledgement",
        )
        return replace(heard, acknowledged_version=None)


def _subject(fragment: str, subscriber_id: str) -> str:
    return f"fragment {fragment}: subscriber {subscriber_id}"


def _require_room(tx: Transaction, fragment: str) -> None:
    if tx.subscribers.count(fragment) >= SUBSCRIBERS_MAX:
        raise TooMany(
            f"subscribers of {fragment}",
            SUBSCRIBERS_MAX,
            SUBSCRIBERS_MAX + 1,
            "let each keep its id; those that stop are forgotten after a day",
        )


def _require_allowed(known: Subscriber | None, role: Role, by: Caller) -> None:
    """A reader's token makes readers; whoever counts as an applier now is waited for, and not its to change."""
    if Role.APPLIER in (role, known.role if known else role):
        require(by, AccessRole.OPERATOR)


def _of_current(tx: Transaction, fragment: Fragment, report: HandedOver | None) -> HandedOver | None:
    """The report, if it is of the current version: one of a version that was superseded is of no use any more."""
    version = fragment.current.version
    if report is None or report.version != version:
        return None
    reported = vnodes_of(report.vnodes)
    strangers = np.flatnonzero(reported & ~moving_vnodes(mapping_version(tx, fragment, version)))
    if len(strangers):
        raise NotMoving(fragment.name, version, strangers[:STRANGERS_SHOWN].tolist())
    return HandedOver(version, runs_of(reported))
