"""Brings etcd up to SQL, and compares both before SQL goes on; where etcd is ahead, SQL is brought up to it."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from meta.coordination.publisher import DigestOf, Outcome, Publisher, require_same_history
from meta.errors import CannotAdopt, DatabaseBehind, DigestConflict, FragmentPublishedElsewhere, UnitTaken
from meta.etcd.errors import EtcdError, Rejected
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import Current
from meta.observability.observation import Observation
from meta.observability.trouble import Troubles
from meta.reconciliation.adoption import Adoption
from meta.registry.fragments import known_fragment
from meta.store.database import Database, Transaction

CONFLICTS = (DigestConflict, UnitTaken, CannotAdopt, MalformedPublication)


@dataclass(frozen=True, slots=True)
class _Newest:
    """What is to be published; `plan` is the id of the rescale that it is of."""

    current: Current
    body: bytes
    plan: str | None


@dataclass(frozen=True, slots=True)
class Publishing:
    """`conflicts` are the fragments that neither side may be brought up to the other's in, and why."""

    database: Database
    publisher: Publisher
    adoption: Adoption
    troubles: Troubles
    observation: Observation = field(default_factory=Observation)
    conflicts: dict[str, str] = field(default_factory=dict)

    def publish(self, fragment: str) -> Outcome | None:
        """None where etcd did not take it; `Reconciling`, which comes every second, makes good what it can."""
        self.observation.changed()
        try:
            return self._observed(fragment)
        except EtcdError as error:
            self._not_yet(fragment, error)
            return None

    def publish_all(self, fragments: Iterable[str]) -> None:
        """Raises `EtcdError` where etcd is away: the others would wait for it in vain too, one timeout each."""
        for fragment in fragments:
            try:
                self._observed(fragment)
            except Rejected as error:
                self._not_yet(fragment, error)

    def published(self, name: str) -> Current | None:
        """What etcd has, which SQL has adopted if it was behind and it could. Raises what `Adoption` refuses.

        None too where etcd cannot tell, since SQL is the truth and waits for nobody.
        """
        current = None
        try:
            current = self.publisher.published(name)
            if self._behind(name, current):
                self.adoption.adopt(name)
        except EtcdError as error:
            self._not_yet(name, error)
        except MalformedPublication as error:
            self._in_conflict(name, error)
        return current

    def away(self, error: EtcdError) -> None:
        """Told once for all fragments, until `reached`."""
        self.observation.metrics.etcd_up.set(0)
        self.troubles.tell_once(
            "etcd", f"mappings are not published now, and will be: {error}", logging.WARNING
        )

    def reached(self) -> None:
        self.observation.metrics.etcd_up.set(1)
        self.troubles.over("etcd")

    def _observed(self, name: str) -> Outcome | None:
        with self.observation.publishing(name) as publish:
            outcome = self._publish(name)
            publish.outcome = "conflict" if outcome is None else outcome.name.lower()
            return outcome

    def _publish(self, name: str) -> Outcome | None:
        newest = self._newest(name)
        current = newest.current
        try:
            with self.observation.writing(name, current.version, newest.plan):
                outcome = self.publisher.publish(name, current, newest.body, self._digest_of(name))
            # Ahead of what we read may only mean that another thread was quicker.
            if outcome is Outcome.AHEAD:
                self.adoption.adopt(name)
        except CONFLICTS as error:
            self._in_conflict(name, error)
            return None
        self.conflicts.pop(name, None)
        self.troubles.over(f"fragment {name}")
        return outcome

    def _behind(self, name: str, published: Current | None) -> bool:
        if published is None:
            return False
        with self.database.reading() as tx:
            fragment = tx.fragments.get(name)
        return fragment is not None and published.supersedes(fragment.current)

    def _newest(self, name: str) -> "_Newest":
        with self.database.reading() as tx:
            current = known_fragment(tx, name).current
            body, cause = tx.versions.body(name, current.version), tx.versions.cause(name, current.version)
            assert body is not None
            assert cause is not None
            return _Newest(current, body, cause[1])

    def _digest_of(self, name: str) -> DigestOf:
        def digest_of(version: int) -> str | None:
            with self.database.reading() as tx:
                return tx.versions.digest(name, version)

        return digest_of

    def _in_conflict(self, name: str, error: Exception) -> None:
        self.conflicts[name] = str(error)
        self.troubles.tell(f"fragment {name}", str(error))

    def _not_yet(self, name: str, error: EtcdError) -> None:
        if isinstance(error, Rejected):
            self.troubles.tell(f"fragment {name}", f"not published: {error}", logging.WARNING)
        else:
            self.away(error)


def require_known(tx: Transaction, name: str, published: Current | None) -> None:
    """Before SQL goes on: it must know what etcd has, lest a published version gets a second meaning.

    `published` was read before this transaction began, so that what others published since does not matter.
    """
    if published is None:
        return
    fragment = tx.fragments.get(name)
    if fragment is None:
        raise FragmentPublishedElsewhere(name, published.version)
    if published.supersedes(fragment.current):
        raise DatabaseBehind(name, fragment.current.version, published.version)
    require_same_history(name, published, lambda version: tx.versions.digest(name, version))
