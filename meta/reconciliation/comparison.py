"""etcd's keys beside what SQL keeps: bodies that are missing, left over, or somebody else's.

Cheap while nothing happens: etcd's revision grows with every write, so as long as it stands still nobody wrote. Else
only keys and revisions are read, and the bodies that were written since they were last verified.
"""

from collections.abc import Mapping
from contextlib import suppress
from itertools import groupby

from meta.coordination.publisher import PublishedKeys, Publisher
from meta.errors import DigestConflict
from meta.etcd.values import Snapshot
from meta.hearing import Hearing
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import digest
from meta.observability.trouble import Troubles
from meta.store.database import Database
from meta.store.publications import Head

# How soon keys are listed again where something was written, and how late where nothing seems to have been: a store
# that was restored may stand at the very revision that was seen.
EVERY_MS = 5_000
AT_LEAST_EVERY_MS = 60_000
# Who lists a million keys for seconds does so less often.
_REST = 20

_VERIFIED_AT_ONCE = 500
_BODIES_AT_ONCE = 50

# The revision that wrote a body, its fragment and its version.
_Written = tuple[int, str, int]


class Comparison:
    """Of what this process last saw; for one thread.

    `unknown` are the fragments that etcd has and SQL does not know at all, `foreign` the bodies of kept versions that
    are not SQL's.
    """

    def __init__(
        self, database: Database, publisher: Publisher, hearing: Hearing, troubles: Troubles
    ) -> None:
        self._database = database
        self._publisher = publisher
        self._hearing = hearing
        self._troubles = troubles
        self._listed: Snapshot | None = None
        self._listed_ms = 0
        self._took_ms = 0
        self._verified_revision = 0
        self._disagrees = False
        self._oldest = 0  # the sum over all fragments, which changes when history is forgotten
        self.foreign: dict[tuple[str, int], DigestConflict] = {}
        self.unknown: tuple[str, ...] = ()

    def run(self, heads: Mapping[str, Head]) -> None:
        """Compares if it is time to. Raises etcd's `EtcdError` family."""
        store = self._publisher.look()
        lost = self._lost(store)
        if lost:
            self._publisher.seen.clear()
            self._verified_revision = 0
        oldest = sum(head.oldest_version for head in heads.values())
        if not lost and oldest == self._oldest and not self._due(store):
            return
        self._oldest = oldest
        started_ms = self._hearing.now().now_ms
        written = self._list(heads)
        self._verify(written, store.revision)
        self._listed, self._listed_ms = store, started_ms
        self._took_ms = self._hearing.now().now_ms - started_ms

    def _lost(self, store: Snapshot) -> bool:
        """Whether etcd is not the one that was listed, or was set back."""
        last = self._listed
        return last is not None and (store.cluster_id != last.cluster_id or store.revision < last.revision)

    def _due(self, store: Snapshot) -> bool:
        if self._listed is None:
            return True
        moved = store.revision != self._listed.revision or self._verified_revision < store.revision
        moved = moved or self._disagrees
        wait_ms = max(EVERY_MS, _REST * self._took_ms) if moved else AT_LEAST_EVERY_MS
        # A clock that was set back is no reason to wait for it.
        return not 0 <= self._hearing.now().now_ms - self._listed_ms < wait_ms

    def _list(self, heads: Mapping[str, Head]) -> list[_Written]:
        """Sees what `current` etcd has of each fragment, and mends the bodies where that is SQL's.

        Returns the bodies that are to be verified.
        """
        with self._database.reading() as tx:
            counts = tx.publications.version_counts()
        written: list[_Written] = []
        unknown = []
        listed = set()
        self._disagrees = False
        for keys in self._publisher.listed():
            listed.add(keys.fragment)
            head = heads.get(keys.fragment)
            if head is None:
                unknown.append(keys.fragment)
            elif not self._agrees(keys, head):
                self._disagrees = True
            else:
                self._mend(keys, head, counts.get(keys.fragment, 0))
                written += self._to_verify(keys, head)
        for name in heads.keys() - listed:
            self._publisher.seen.pop(name, None)
        self._tell_unknown(unknown)
        return written

    def _agrees(self, keys: PublishedKeys, head: Head) -> bool:
        seen = self._publisher.seen.get(keys.fragment)
        if seen is None or seen.mod_revision != keys.current:
            # Foreign bytes are told of by who publishes next.
            with suppress(MalformedPublication):
                self._publisher.published(keys.fragment)
            seen = self._publisher.seen.get(keys.fragment)
        return seen is not None and seen.current == head.current

    def _mend(self, keys: PublishedKeys, head: Head, count: int) -> None:
        kept = range(head.oldest_version, head.current.version + 1)
        if any(version < head.oldest_version for version in keys.versions):
            self._publisher.drop_bodies(keys.fragment, head.oldest_version)
        present = {version for version in keys.versions if version in kept}
        if len(present) == count:
            return
        with self._database.reading() as tx:
            missing = tx.publications.versions(keys.fragment) - present
        ordered = sorted(missing)
        for start in range(0, len(ordered), _BODIES_AT_ONCE):
            chunk = ordered[start : start + _BODIES_AT_ONCE]
            with self._database.reading() as tx:
                bodies = tx.publications.bodies(keys.fragment, chunk)
            self._publisher.put_bodies(keys.fragment, bodies)

    def _to_verify(self, keys: PublishedKeys, head: Head) -> list[_Written]:
        return [
            (revision, keys.fragment, version)
            for version, revision in keys.versions.items()
            if head.oldest_version <= version <= head.current.version
            and (revision > self._verified_revision or (keys.fragment, version) in self.foreign)
        ]

    def _verify(self, written: list[_Written], revision: int) -> None:
        """The oldest first, so that one revision says up to where all were verified."""
        written.sort()
        now, later = written[:_VERIFIED_AT_ONCE], written[_VERIFIED_AT_ONCE:]
        by_fragment = sorted(now, key=lambda each: each[1:])
        for fragment, bodies in groupby(by_fragment, key=lambda each: each[1]):
            self._verify_bodies(fragment, [version for _, _, version in bodies])
        self._verified_revision = later[0][0] - 1 if later else revision

    def _verify_bodies(self, fragment: str, versions: list[int]) -> None:
        with self._database.reading() as tx:
            ours = tx.publications.digests(fragment, versions)
        for version, expected in ours.items():
            body = self._publisher.body(fragment, version)
            if body is None:
                continue
            subject = f"fragment {fragment}, version {version}"
            if digest(body) == expected:
                self.foreign.pop((fragment, version), None)
                self._troubles.over(subject)
            else:
                conflict = DigestConflict(fragment, version, digest(body), expected)
                self.foreign[fragment, version] = conflict
                self._troubles.tell(subject, str(conflict))

    def _tell_unknown(self, unknown: list[str]) -> None:
        self.unknown = tuple(unknown)
        if not unknown:
            self._troubles.over("etcd's fragments")
            return
        self._troubles.tell(
            "etcd's fragments",
            f"the database does not know {', '.join(unknown)}: is it new, restored, or another service's? Restore the "
            "database that belongs to this etcd, or point the service at an etcd of its own",
        )
