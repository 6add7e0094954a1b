"""The use cases of a rescale: plan -> token -> apply -> publish -> accept -> acknowledge -> settle.

The one place that orders effects: SQL first, in one transaction, then etcd, which may lag and is brought up by
`reconcile`. Source: design.md, "Jobs, fragments, rescales".
"""

from dataclasses import replace

from meta.coordination.publisher import Outcome, Publisher
from meta.errors import FragmentExists, VersionNotCurrent, VersionNotFound
from meta.hearing import Hearing
from meta.lifecycle import Fragment, Moment, Progress, RescalePlan, Role, Subscriber, Version, progress
from meta.mapping.publication import Current, Phase
from meta.planning import DryRun, Goal, advance, dry_run, mapping_version, planned_under, version_body
from meta.publishing import Publishing, require_known
from meta.registry import FragmentRequest, held_fragment, known_fragment, live_units, new_fragment
from meta.store.database import Database, Transaction, retry_conflicts
from meta.trouble import Troubles

FORGET_MS = 24 * 3600 * 1000


class Rescales:
    """The rescales of all fragments, from a fragment's first version on."""

    def __init__(self, database: Database, publisher: Publisher, hearing: Hearing) -> None:
        self._database = database
        self._hearing = hearing
        self._troubles = Troubles()
        self._publishing = Publishing(database, publisher, self._troubles)

    @retry_conflicts
    def create_fragment(self, request: FragmentRequest) -> Fragment:
        """A fragment with its first version, settled at once."""
        moment = self._hearing.now()
        published = self._publishing.published(request.name)
        with self._database.transaction() as tx:
            if tx.fragments.get(request.name) is not None:
                raise FragmentExists(request.name)
            fragment, body = new_fragment(request, live_units(tx, moment), moment.now_ms)
            require_known(tx, request.name, published)
            if not tx.fragments.add(fragment, body):
                raise FragmentExists(request.name)
        self.publish(fragment.name)
        return fragment

    @retry_conflicts
    def plan(self, fragment_name: str, goal: Goal) -> DryRun:
        """A dry run on the current version, kept under a token until it expires."""
        moment = self._hearing.now()
        # A large plan takes its time, and the database's writers need not wait for it.
        with self._database.reading() as tx:
            planned = dry_run(tx, known_fragment(tx, fragment_name), goal, moment)
        with self._database.transaction() as tx:
            tx.plans.add(planned.stored)
        return planned

    @retry_conflicts
    def apply(self, token: str) -> RescalePlan:
        """Makes the plan the fragment's next version, and publishes it. The same token has the same answer."""
        moment = self._hearing.now()
        with self._database.reading() as tx:
            fragment_name = planned_under(tx, token).fragment
        published = self._publishing.published(fragment_name)
        with self._database.transaction() as tx:
            tx.fragments.hold(fragment_name)
            planned = planned_under(tx, token)
            if planned.applied_version is None:
                require_known(tx, fragment_name, published)
                planned = advance(tx, planned, moment)
                _settle(tx, known_fragment(tx, fragment_name), moment)
        self.publish(fragment_name)
        return planned

    @retry_conflicts
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

    @retry_conflicts
    def hear(
        self, fragment_name: str, subscriber_id: str, *, name: str, role: Role, acknowledged: int | None
    ) -> tuple[Subscriber, Fragment]:
        """A subscriber's registration, heartbeat and acknowledgement, if it has anything to acknowledge."""
        moment = self._hearing.now()
        with self._database.transaction() as tx:
            fragment = held_fragment(tx, fragment_name)
            heard = Subscriber(subscriber_id, fragment_name, name, role, acknowledged, moment.now_ms)
            saved = tx.subscribers.save(self._without_future(heard, fragment))
            settled = _settle(tx, fragment, moment)
        if settled:
            self.publish(fragment_name)
        return saved, fragment

    @retry_conflicts
    def deregister(self, fragment_name: str, subscriber_id: str) -> None:
        """A subscriber leaves by itself, and is waited for no more."""
        moment = self._hearing.now()
        with self._database.transaction() as tx:
            fragment = held_fragment(tx, fragment_name)
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

    def body(self, fragment_name: str, version: int) -> bytes:
        """The published bytes of a version."""
        with self._database.reading() as tx:
            return version_body(tx, known_fragment(tx, fragment_name), version)

    def version(self, fragment_name: str, version: int) -> Version:
        with self._database.reading() as tx:
            return _version(tx, known_fragment(tx, fragment_name), version)

    def history(self, fragment_name: str) -> list[Version]:
        """All versions, oldest first."""
        with self._database.reading() as tx:
            fragment = known_fragment(tx, fragment_name)
            return [_version(tx, fragment, version) for version in range(1, fragment.current.version + 1)]

    def publish(self, fragment_name: str) -> Outcome | None:
        """Brings etcd up to SQL; None where etcd did not take it now."""
        return self._publishing.publish(fragment_name)

    @retry_conflicts
    def reconcile(self) -> None:
        """Settles what is due and brings etcd up to SQL, for every fragment; forgets what is of no use any more."""
        moment = self._hearing.now()
        with self._database.reading() as tx:
            fragments = tx.fragments.all()
        for fragment in fragments:
            if fragment.current.phase is not Phase.SETTLED:
                # Each in a transaction of its own, so that none waits for the others.
                with self._database.transaction() as tx:
                    _settle(tx, held_fragment(tx, fragment.name), moment)
        with self._database.transaction() as tx:
            tx.plans.forget_expired(moment.now_ms - FORGET_MS)
            # Who was silent while nobody could be heard is not forgotten: see `Moment`.
            if moment.now_ms - moment.silence_from_ms > FORGET_MS:
                tx.subscribers.forget_silent(moment.now_ms - FORGET_MS)
        self._publishing.publish_all(fragment.name for fragment in fragments)

    def _without_future(self, heard: Subscriber, fragment: Fragment) -> Subscriber:
        """A subscriber ahead of a restored database lives, and its acknowledgement is of another history."""
        subject = f"fragment {fragment.name}: subscriber {heard.name} ({heard.id})"
        acknowledged = heard.acknowledged_version
        if acknowledged is None or acknowledged <= fragment.current.version:
            self._troubles.over(subject)
            return heard
        self._troubles.tell(
            subject,
            f"it acknowledges version {acknowledged} and the database has only {fragment.current.version}: was it "
            "restored from a backup? The subscriber is heard without that acknowledgement",
        )
        return replace(heard, acknowledged_version=None)


def _settle(tx: Transaction, fragment: Fragment, moment: Moment) -> bool:
    if not _progress(tx, fragment, moment).may_settle:
        return False
    version, phase = fragment.current.version, fragment.current.phase
    return tx.fragments.change_phase(fragment.name, version, phase, Phase.SETTLED, now_ms=moment.now_ms)


def _progress(tx: Transaction, fragment: Fragment, moment: Moment) -> Progress:
    return progress(fragment, tx.subscribers.of(fragment.name), moment)


def _version(tx: Transaction, fragment: Fragment, version: int) -> Version:
    body = mapping_version(tx, fragment, version)
    moves = tx.fragments.moves(fragment.name, version)
    assert moves is not None
    return Version(body, tuple(tx.fragments.phases(fragment.name, version)), moves)
