"""Publishes mapping versions through etcd: one guarded transaction, immutable bodies.

What is published is a function of SQL, so any replica may publish, at any time and any number of times:
a replayed or stale publish changes nothing. Source: design.md, "SQL is the truth, etcd the publication".
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import groupby

from meta.errors import DigestConflict
from meta.etcd.client import EtcdClient
from meta.etcd.values import Delete, KeyValue, ModRevisionIs, Put, Snapshot
from meta.mapping.publication import Current, current_key, digest, version_key

# The digest that SQL has for a version of the fragment, None where it has no such version.
DigestOf = Callable[[int], str | None]

# A page of keys is some 1 MB; one of bodies at most 13 MB, far below what the client takes at once.
KEYS_PAGE = 10_000
BODIES_PAGE = 100
# etcd takes 128 operations and 1.5 MiB in one transaction.
_BODIES_MAX = 64
_BYTES_MAX = 1 << 20


class Outcome(Enum):
    WRITTEN = auto()
    UNCHANGED = auto()
    AHEAD = auto()  # etcd holds a later version or phase than SQL: the database was restored from a backup


@dataclass(frozen=True, slots=True)
class Published:
    """A fragment's `current` as etcd had it when it was last looked at."""

    current: Current
    mod_revision: int


@dataclass(frozen=True, slots=True)
class PublishedKeys:
    """The keys that etcd has of a fragment, by the revisions that wrote them last; `current` is 0 where it is not."""

    fragment: str
    current: int
    versions: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Publisher:
    """`seen` is what this process last saw of each fragment, so that nothing is read twice to learn the same."""

    etcd: EtcdClient
    root: str
    seen: dict[str, Published] = field(default_factory=dict, compare=False, repr=False)

    def publish(self, fragment: str, current: Current, body: bytes, digest_of: DigestOf) -> Outcome:
        """Writes `versions/{n}` and `current` unless etcd is there already.

        Raises etcd's `EtcdError` family, `DigestConflict` where etcd is of another history than SQL, which
        `digest_of` tells, and `MalformedPublication` for foreign bytes.
        """
        if self._continued(fragment, current, body, digest_of):
            return Outcome.WRITTEN
        while True:
            outcome = self._try_publish(fragment, current, body, digest_of)
            if outcome is not None:
                return outcome

    def published(self, fragment: str) -> Current | None:
        """What etcd has as the fragment's current version. Raises `EtcdError` and `MalformedPublication`."""
        self.seen.pop(fragment, None)
        head = self.etcd.get(current_key(fragment, self.root))
        if head is None:
            return None
        current = Current.decode(head.value)
        self.seen[fragment] = Published(current, head.mod_revision)
        return current

    def body(self, fragment: str, version: int) -> bytes | None:
        found = self.etcd.get(version_key(fragment, version, self.root))
        return found.value if found is not None else None

    def bodies(self, fragment: str, since_version: int) -> Iterator[tuple[int, bytes]]:
        """The bodies that etcd has of this version and of later ones, in order."""
        prefix = self._versions(fragment)
        # The key just before: that of a version 0 would come before version 1's.
        after = version_key(fragment, since_version, self.root)[:-1]
        for found in self._pages(prefix, after, BODIES_PAGE):
            version = _version(found.key, prefix)
            if version is not None and version >= since_version:
                yield version, found.value

    def put_bodies(self, fragment: str, bodies: Iterable[tuple[int, bytes]]) -> None:
        """Writes those that are not there. One that another replica wrote meanwhile keeps its chunk out."""
        for chunk in _chunks(bodies):
            keys = [(version_key(fragment, version, self.root), body) for version, body in chunk]
            self.etcd.txn([ModRevisionIs(key, 0) for key, _ in keys], [Put(*each) for each in keys])

    def drop_bodies(self, fragment: str, before_version: int) -> None:
        """Removes the bodies of all versions before this one, if `current` is still the one that was seen."""
        head = self.seen.get(fragment)
        if head is None:  # another thread looks at it anew just now
            return
        first, until = (version_key(fragment, version, self.root) for version in (1, before_version))
        unchanged = ModRevisionIs(current_key(fragment, self.root), head.mod_revision)
        self.etcd.txn([unchanged], [Delete(first, until)])

    def look(self) -> Snapshot:
        """The store's revision now, which grows with every write of anybody."""
        return self.etcd.read(self._fragments)

    def listed(self) -> Iterator[PublishedKeys]:
        """What etcd has, a fragment at a time; each page of it is of its own revision."""
        pages = self._pages(self._fragments, None, KEYS_PAGE, keys_only=True)
        for fragment, found in groupby(pages, lambda each: self._fragment(each.key)):
            yield self._keys_of(fragment, found)

    @property
    def _fragments(self) -> str:
        return f"{self.root}/fragments/"

    def _versions(self, fragment: str) -> str:
        return current_key(fragment, self.root).removesuffix("current") + "versions/"

    def _fragment(self, key: str) -> str:
        return key.removeprefix(self._fragments).partition("/")[0]

    def _keys_of(self, fragment: str, found: Iterable[KeyValue]) -> PublishedKeys:
        prefix = f"{self._fragments}{fragment}/"
        current, versions = 0, {}
        for each in found:
            version = _version(each.key, prefix + "versions/")
            if version is not None:
                versions[version] = each.mod_revision
            elif each.key == prefix + "current":
                current = each.mod_revision
        return PublishedKeys(fragment, current, versions)

    def _pages(
        self, prefix: str, after: str | None, limit: int, *, keys_only: bool = False
    ) -> Iterator[KeyValue]:
        while True:
            page = self.etcd.range(prefix, after=after, limit=limit, keys_only=keys_only)
            yield from page.values
            if not page.more:
                return
            after = page.values[-1].key

    def _continued(self, fragment: str, current: Current, body: bytes, digest_of: DigestOf) -> bool:
        """Whether it was written without a read: as long as `current` is the one that was seen, all is known."""
        head = self.seen.get(fragment)
        if head is None or not current.supersedes(head.current) or current.contradicts(head.current):
            return False
        require_same_history(fragment, head.current, digest_of)
        head_key = current_key(fragment, self.root)
        unchanged, put_head = ModRevisionIs(head_key, head.mod_revision), Put(head_key, current.encode())
        if current.version == head.current.version:
            result = self.etcd.txn([unchanged], [put_head])
        else:
            body_key = version_key(fragment, current.version, self.root)
            result = self.etcd.txn([unchanged, ModRevisionIs(body_key, 0)], [Put(body_key, body), put_head])
        if result.succeeded:
            self.seen[fragment] = Published(current, result.revision)
        return result.succeeded

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
        if head is not None and published is not None:
            require_same_history(fragment, published, digest_of)
            # Below a later version a body need not be there: retention may have taken it.
            complete = stored is not None or published.version > current.version
            if complete and not current.supersedes(published):
                self.seen[fragment] = Published(published, head.mod_revision)
                return Outcome.UNCHANGED if published == current else Outcome.AHEAD
        newest = current if current.supersedes(published) else published
        assert newest is not None
        result = self.etcd.txn(
            [
                ModRevisionIs(head_key, head.mod_revision if head else 0),
                ModRevisionIs(body_key, stored.mod_revision if stored else 0),
            ],
            [*([] if stored else [Put(body_key, body)]), Put(head_key, newest.encode())],
        )
        if not result.succeeded:
            return None
        self.seen[fragment] = Published(newest, result.revision)
        return Outcome.WRITTEN


def require_same_history(fragment: str, published: Current, digest_of: DigestOf) -> None:
    """Raises `DigestConflict`, also where SQL has gone on since: going over it would hide it for ever."""
    ours = digest_of(published.version)
    if ours is not None and ours != published.digest:
        raise DigestConflict(fragment, published.version, published.digest, ours)


def _version(key: str, prefix: str) -> int | None:
    digits = key.removeprefix(prefix) if key.startswith(prefix) else ""
    return int(digits) if digits.isascii() and digits.isdigit() else None


def _chunks(bodies: Iterable[tuple[int, bytes]]) -> Iterator[list[tuple[int, bytes]]]:
    chunk: list[tuple[int, bytes]] = []
    size = 0
    for version, body in bodies:
        if chunk and (len(chunk) == _BODIES_MAX or size + len(body) > _BYTES_MAX):
            yield chunk
            chunk, size = [], 0
        chunk.append((version, body))
        size += len(body)
    if chunk:
        yield chunk
