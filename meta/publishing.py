"""Brings etcd up to SQL, and compares both before SQL goes on."""

import logging
from collections.abc import Iterable
from dataclasses import dataclass

from meta.coordination.publisher import DigestOf, Outcome, Publisher, require_same_history
from meta.errors import DatabaseBehind, DigestConflict, FragmentPublishedElsewhere
from meta.etcd.errors import EtcdError
from meta.lifecycle import Fragment
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import Current
from meta.registry import known_fragment
from meta.store.database import Database, Transaction
from meta.trouble import Troubles


@dataclass(frozen=True, slots=True)
class Publishing:
    database: Database
    publisher: Publisher
    troubles: Troubles

    def publish(self, fragment: str) -> Outcome | None:
        """None where etcd did not take it; `publish_all`, which comes every second, makes good what it can."""
        try:
            return self._publish(fragment)
        except EtcdError as error:
            self._not_yet(fragment, error)
            return None

    def publish_all(self, fragments: Iterable[str]) -> None:
        for fragment in fragments:
            try:
                self._publish(fragment)
            except EtcdError as error:
                # The others would wait for it in vain too, one timeout each.
                self._not_yet(fragment, error)
                return

    def published(self, fragment: str) -> Current | None:
        """What etcd has; None too where it cannot tell, since SQL is the truth and waits for nobody."""
        try:
            return self.publisher.published(fragment)
        except (EtcdError, MalformedPublication) as error:
            self.troubles.tell(
                f"fragment {fragment}", f"not compared with etcd before SQL goes on: {error}", logging.WARNING
            )
            return None

    def _publish(self, name: str) -> Outcome | None:
        fragment, body = self._newest(name)
        try:
            outcome = self.publisher.publish(name, fragment.current, body, self._digest_of(name))
        except (DigestConflict, MalformedPublication) as error:
            self.troubles.tell(f"fragment {name}", str(error))
            return None
        # Ahead of what we read may only mean that another thread was quicker.
        if outcome is Outcome.AHEAD and self._newest(name)[0].current == fragment.current:
            version = fragment.current.version
            self.troubles.tell(
                f"fragment {name}",
                f"etcd is ahead of the database (version {version} here): was it restored from a backup?",
            )
        else:
            self.troubles.over(f"fragment {name}")
        return outcome

    def _newest(self, name: str) -> tuple[Fragment, bytes]:
        with self.database.reading() as tx:
            fragment = known_fragment(tx, name)
            body = tx.fragments.body(name, fragment.current.version)
            assert body is not None
            return fragment, body

    def _digest_of(self, name: str) -> DigestOf:
        def digest_of(version: int) -> str | None:
            with self.database.reading() as tx:
                return tx.fragments.digest(name, version)

        return digest_of

    def _not_yet(self, name: str, error: Exception) -> None:
        self.troubles.tell(f"fragment {name}", f"etcd is not up to date: {error}", logging.WARNING)


def require_known(tx: Transaction, name: str, published: Current | None) -> None:
    """Before SQL goes on: it must know what etcd has, lest a published version gets a second meaning.

    `published` was read before this transaction began, so that what others published since does not matter.
    """
    if published is None:
        return
    fragment = tx.fragments.get(name)
    if fragment is None:
        raise FragmentPublishedElsewhere(name, published.version)
    if published.version > fragment.current.version:
        raise DatabaseBehind(name, fragment.current.version, published.version)
    require_same_history(name, published, lambda version: tx.fragments.digest(name, version))
