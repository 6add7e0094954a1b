"""Publishes mapping versions through etcd: one guarded transaction, immutable bodies.

What is published is a function of SQL, so any replica may publish, at any time and any number of times:
a replayed or stale publish changes nothing. Source: design.md, "SQL is the truth, etcd the publication".
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from meta.errors import DigestConflict
from meta.etcd.client import EtcdClient
from meta.etcd.values import ModRevisionIs, Put
from meta.mapping.publication import Current, current_key, digest, version_key

# The digest that SQL has for a version of the fragment, None where it has no such version.
DigestOf = Callable[[int], str | None]


class Outcome(Enum):
    WRITTEN = auto()
    UNCHANGED = auto()
    AHEAD = auto()  # etcd holds a later version than SQL: the database was restored from a backup


@dataclass(frozen=True, slots=True)
class Publisher:
    etcd: EtcdClient
    root: str

    def publish(self, fragment: str, current: Current, body: bytes, digest_of: DigestOf) -> Outcome:
        """Writes `versions/{n}` and `current` unless etcd is there already.

        Raises etcd's `EtcdError` family, `DigestConflict` where etcd is of another history than SQL, which
        `digest_of` tells, and `MalformedPublication` for foreign bytes.
        """
        while True:
            outcome = self._try_publish(fragment, current, body, digest_of)
            if outcome is not None:
                return outcome

    def published(self, fragment: str) -> Current | None:
        """What etcd has as the fragment's current version. Raises `EtcdError` and `MalformedPublication`."""
        head = self.etcd.get(current_key(fragment, self.root))
        return Current.decode(head.value) if head is not None else None

    def _try_publish(
        self, fragment: str, current: Current, body: bytes, digest_of: DigestOf
    ) -> Outcome | None:
        """None where another replica wrote between our reading and our writing; each round of losers has a
        winner that moved (version, phase) on, so this ends."""
        head_key = current_key(fragment, self.root)
        body_key = version_key(fragment, current.version, self.root)
        head = self.etcd.get(head_key)
        stored = self.etcd.get(body_key)
        if stored is not None and stored.value != body:
            raise DigestConflict(fragment, current.version, digest(stored.value), current.digest)
        published = Current.decode(head.value) if head is not None else None
        if published is not None:
            require_same_history(fragment, published, digest_of)
            if published.version > current.version:
                return Outcome.AHEAD
        newest = current if current.supersedes(published) else published
        if stored is not None and newest == published:
            return Outcome.UNCHANGED
        assert newest is not None
        result = self.etcd.txn(
            [
                ModRevisionIs(head_key, head.mod_revision if head else 0),
                ModRevisionIs(body_key, stored.mod_revision if stored else 0),
            ],
            [Put(body_key, body), Put(head_key, newest.encode())],
        )
        return Outcome.WRITTEN if result.succeeded else None


def require_same_history(fragment: str, published: Current, digest_of: DigestOf) -> None:
    """Raises `DigestConflict`, also where SQL has gone on since: going over it would hide it for ever."""
    ours = digest_of(published.version)
    if ours is not None and ours != published.digest:
        raise DigestConflict(fragment, published.version, published.digest, ours)
