"""Publishes mapping versions through etcd: one guarded transaction, immutable bodies.

What is published is a function of SQL, so any replica may publish, at any time and any number of times:
a replayed or stale publish changes nothing. Source: design.md, "SQL is the truth, etcd the publication".
"""

from dataclasses import dataclass
from enum import Enum, auto

from meta.etcd.client import EtcdClient
from meta.etcd.values import ModRevisionIs, Put
from meta.mapping.publication import Current, current_key, digest, version_key


class Publication(Enum):
    WRITTEN = auto()
    UNCHANGED = auto()
    AHEAD = auto()  # etcd holds a later version than SQL: the database was restored from a backup


@dataclass
class DigestConflict(Exception):
    """etcd holds other bytes for this version than SQL: two histories, and no way to know the right one."""

    fragment: str
    version: int
    published: str
    stored: str

    def __str__(self) -> str:
        return (
            f"version {self.version} of {self.fragment} is published with digest {self.published} but stored with "
            f"{self.stored}: the database and etcd hold different histories. Nothing was changed; point the service "
            "at the etcd that belongs to this database, or restore the database"
        )


@dataclass(frozen=True, slots=True)
class Publisher:
    etcd: EtcdClient
    root: str

    def publish(self, fragment: str, current: Current, body: bytes) -> Publication:
        """Writes `versions/{n}` and `current` unless etcd is there already.

        Raises etcd's `EtcdError` family, `DigestConflict`, and `MalformedPublication` for foreign bytes.
        """
        while True:
            outcome = self._try_publish(fragment, current, body)
            if outcome is not None:
                return outcome

    def published(self, fragment: str) -> Current | None:
        """What etcd has as the fragment's current version. Raises `EtcdError` and `MalformedPublication`."""
        head = self.etcd.get(current_key(fragment, self.root))
        return Current.decode(head.value) if head is not None else None

    def _try_publish(self, fragment: str, current: Current, body: bytes) -> Publication | None:
        """None where another replica wrote between our reading and our writing; each round of losers has a
        winner that moved (version, phase) on, so this ends."""
        head_key = current_key(fragment, self.root)
        body_key = version_key(fragment, current.version, self.root)
        head = self.etcd.get(head_key)
        stored = self.etcd.get(body_key)
        if stored is not None and stored.value != body:
            raise DigestConflict(fragment, current.version, digest(stored.value), current.digest)
        published = Current.decode(head.value) if head is not None else None
        if published is not None and current.contradicts(published):
            raise DigestConflict(fragment, current.version, published.digest, current.digest)
        if published is not None and published.version > current.version:
            return Publication.AHEAD
        newest = current if current.supersedes(published) else published
        if stored is not None and newest == published:
            return Publication.UNCHANGED
        assert newest is not None
        result = self.etcd.txn(
            [
                ModRevisionIs(head_key, head.mod_revision if head else 0),
                ModRevisionIs(body_key, stored.mod_revision if stored else 0),
            ],
            [Put(body_key, body), Put(head_key, newest.encode())],
        )
        return Publication.WRITTEN if result.succeeded else None
