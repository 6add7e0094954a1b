import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from threading import Barrier

import pytest

from meta.coordination.embedded import EmbeddedEtcd
from meta.coordination.publisher import Outcome, Publisher
from meta.errors import DigestConflict
from meta.etcd.client import EtcdClient
from meta.etcd.values import Delete, KeyValue, ModRevisionIs, Put, Snapshot, TxnResult
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import Current, Phase, current_key, digest, version_key


def body_of(version: int) -> bytes:
    return f"the body of version {version}".encode()


def digest_of(version: int) -> str:
    return digest(body_of(version))


def of_another_history(publisher: Publisher, version: int) -> tuple[str, str]:
    """Publishes a version of a database that had other bodies all along. Returns the conflict's digests."""
    body = other_body_of(version)
    current = Current(version, Phase.SETTLED, digest(body))
    with pytest.raises(DigestConflict) as caught:
        publisher.publish("flights", current, body, lambda earlier: digest(other_body_of(earlier)))
    assert caught.value.held in str(caught.value)
    assert caught.value.offered in str(caught.value)
    return caught.value.held, caught.value.offered


def other_body_of(version: int) -> bytes:
    return f"another body of version {version}".encode()


def current_of(version: int, phase: Phase = Phase.SETTLED) -> Current:
    return Current(version, phase, digest(body_of(version)))


@pytest.fixture
def publisher(etcd: EtcdClient, name: str) -> Publisher:
    return Publisher(etcd, f"/{name}")


def publish(publisher: Publisher, version: int, phase: Phase = Phase.SETTLED) -> Outcome:
    return publisher.publish("flights", current_of(version, phase), body_of(version), digest_of)


def published(publisher: Publisher) -> Current | None:
    found = publisher.etcd.get(current_key("flights", publisher.root))
    return Current.decode(found.value) if found else None


def body_in_etcd(publisher: Publisher, version: int) -> bytes | None:
    found = publisher.etcd.get(version_key("flights", version, publisher.root))
    return found.value if found else None


def everything(publisher: Publisher) -> tuple[KeyValue, ...]:
    return publisher.etcd.range(publisher.root).values


def test_a_version_is_written_once_with_its_body(publisher: Publisher) -> None:
    assert publish(publisher, 1) is Outcome.WRITTEN
    assert published(publisher) == current_of(1)
    assert body_in_etcd(publisher, 1) == body_of(1)
    written = everything(publisher)
    assert len({value.mod_revision for value in written}) == 1, "one transaction"
    assert publish(publisher, 1) is Outcome.UNCHANGED
    assert everything(publisher) == written


def test_each_phase_replaces_the_one_before_and_never_the_one_after(publisher: Publisher) -> None:
    phases = [Phase.RESCALING, Phase.ACCEPTED, Phase.SETTLED]
    assert [publish(publisher, 2, phase) for phase in phases] == [Outcome.WRITTEN] * 3
    written = everything(publisher)
    again = [publish(publisher, 2, phase) for phase in phases]
    assert again == [Outcome.AHEAD, Outcome.AHEAD, Outcome.UNCHANGED]
    assert everything(publisher) == written
    assert published(publisher) == current_of(2)


def test_a_stale_publish_is_told_that_etcd_is_ahead_and_changes_nothing(publisher: Publisher) -> None:
    publish(publisher, 1)
    publish(publisher, 2, Phase.RESCALING)
    written = everything(publisher)
    assert publish(publisher, 1) is Outcome.AHEAD
    assert everything(publisher) == written


def test_a_database_restored_from_a_backup_sees_etcd_ahead(publisher: Publisher) -> None:
    """etcd never saw version 1's body, as after a wipe, and is at version 5."""
    publish(publisher, 5)
    written = everything(publisher)
    assert publish(publisher, 4) is Outcome.AHEAD
    assert everything(publisher) == written


def test_two_histories_are_told_by_both_digests_and_nothing_changes(publisher: Publisher) -> None:
    publish(publisher, 1)
    written = everything(publisher)
    assert of_another_history(publisher, 1) == (digest_of(1), digest(other_body_of(1)))
    assert everything(publisher) == written


def test_a_later_version_does_not_go_over_another_history(publisher: Publisher) -> None:
    """It would hide the conflict for ever: from then on both have the same version and digest."""
    publish(publisher, 1)
    written = everything(publisher)
    assert of_another_history(publisher, 2) == (digest_of(1), digest(other_body_of(1)))
    assert of_another_history(publisher, 7) == (digest_of(1), digest(other_body_of(1)))
    assert everything(publisher) == written


def test_two_histories_are_told_also_where_the_body_is_gone(publisher: Publisher) -> None:
    publish(publisher, 1)
    publisher.etcd.delete(version_key("flights", 1, publisher.root))
    assert of_another_history(publisher, 1) == (digest_of(1), digest(other_body_of(1)))
    assert body_in_etcd(publisher, 1) is None


def test_a_body_of_an_old_conflict_stops_even_a_later_phase(publisher: Publisher) -> None:
    publisher.etcd.put(version_key("flights", 2, publisher.root), b"of somebody else")
    with pytest.raises(DigestConflict):
        publish(publisher, 2, Phase.RESCALING)
    assert published(publisher) is None


def test_a_lost_body_comes_back_and_the_phase_does_not_go_back(publisher: Publisher) -> None:
    publish(publisher, 2, Phase.SETTLED)
    publisher.etcd.delete(version_key("flights", 2, publisher.root))
    assert publish(publisher, 2, Phase.RESCALING) is Outcome.WRITTEN
    assert body_in_etcd(publisher, 2) == body_of(2)
    assert published(publisher) == current_of(2, Phase.SETTLED)


def test_foreign_bytes_are_left_alone(publisher: Publisher) -> None:
    publisher.etcd.put(current_key("flights", publisher.root), b"{not ours}")
    written = everything(publisher)
    with pytest.raises(MalformedPublication):
        publish(publisher, 1)
    assert everything(publisher) == written


class Woken(EtcdClient):
    """Stands still between what a publish read and what it writes."""

    meanwhile: Callable[[], object] = staticmethod(lambda: None)

    def txn(self, compares: Sequence[ModRevisionIs], writes: Sequence[Put | Delete]) -> TxnResult:
        meanwhile, self.meanwhile = self.meanwhile, lambda: None
        meanwhile()
        self.results = [*getattr(self, "results", []), super().txn(compares, writes).succeeded]
        return TxnResult(self.results[-1], 0)


@pytest.mark.parametrize("lost", [False, True], ids=["as it was", "etcd wiped meanwhile"])
def test_a_publisher_that_stood_still_writes_nothing_when_it_is_woken(
    shared_etcd: str, publisher: Publisher, lost: bool
) -> None:
    """It read that version 2 is to be published over 1; when it is woken, others are at 4."""
    publish(publisher, 1)
    with Woken([shared_etcd]) as stopped:

        def others_go_on() -> None:
            if lost:
                publisher.etcd.delete(current_key("flights", publisher.root))
            for version in (2, 3, 4):
                publish(publisher, version)
            stopped.written = everything(publisher)

        stopped.meanwhile = others_go_on
        stale = Publisher(stopped, publisher.root)
        assert publish(stale, 2, Phase.RESCALING) is Outcome.AHEAD
        assert stopped.results == [False]
        assert everything(publisher) == stopped.written
        assert stale.seen["flights"].current == current_of(4)


def test_bodies_are_put_where_they_are_missing_in_chunks(publisher: Publisher) -> None:
    publish(publisher, 300)
    publish(publisher, 301)
    large = [(version, bytes([version]) * 200_000) for version in range(1, 21)]
    small = [(version, body_of(version)) for version in range(21, 300)]
    publisher.put_bodies("flights", [*large, *small])
    found = dict(publisher.bodies("flights", 1))
    assert found == {**dict(large), **dict(small), 300: body_of(300), 301: body_of(301)}
    assert [version for version, _ in publisher.bodies("flights", 250)] == list(range(250, 302))
    before = everything(publisher)
    publisher.put_bodies("flights", [(21, b"another")])
    assert everything(publisher) == before


def test_bodies_are_dropped_only_below_the_current_that_was_seen(publisher: Publisher) -> None:
    for version in range(1, 13):
        publish(publisher, version)
    publisher.drop_bodies("flights", 10)
    assert [version for version, _ in publisher.bodies("flights", 1)] == [10, 11, 12]
    publish(Publisher(publisher.etcd, publisher.root), 13)
    publisher.drop_bodies("flights", 12)
    assert [version for version, _ in publisher.bodies("flights", 1)] == [10, 11, 12, 13]


def test_keys_are_listed_by_fragment_over_many_pages(
    publisher: Publisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("meta.coordination.publisher.KEYS_PAGE", 2)
    for fragment in ("a", "a-b", "a.b", "a0"):
        for version in (1, 2, 3):
            publisher.publish(fragment, current_of(version), body_of(version), digest_of)
    foreign = [f"{publisher.root}/fragments/a/versions/x", f"{publisher.root}/fragments/stray"]
    for key in foreign:
        publisher.etcd.put(key, b"")
    listed = {keys.fragment: (keys.current, sorted(keys.versions)) for keys in publisher.listed()}
    seen = {name: (head.mod_revision, [1, 2, 3]) for name, head in publisher.seen.items()}
    assert listed == {**seen, "stray": (0, [])}


def history(client: EtcdClient, key: str, since: Snapshot, until: Current) -> Iterator[Current]:
    """Every value the key had after `since`, as etcd remembers it."""
    watch = client.watch(key, start_revision=since.revision + 1)
    try:
        for change in watch:
            for event in change.events:
                assert isinstance(event, KeyValue)
                seen = Current.decode(event.value)
                yield seen
                if seen == until:
                    return
    finally:
        watch.close()


def test_of_racing_publishers_none_takes_current_back(etcd: EtcdClient, publisher: Publisher) -> None:
    """Four replicas, each with its own idea of how far SQL is, publish whatever they last read."""
    steps = [(version, phase) for version in range(1, 9) for phase in Phase]
    key = current_key("flights", publisher.root)
    before = etcd.read(key)
    replicas = 4
    ready = Barrier(replicas)

    def replica(_number: int) -> None:
        ready.wait()
        for version, phase in steps:
            publish(publisher, version, phase)

    with ThreadPoolExecutor(replicas) as threads:
        list(threads.map(replica, range(replicas)))
    last = current_of(8, Phase.SETTLED)
    assert published(publisher) == last
    seen = list(history(etcd, key, before, last))
    assert all(later.supersedes(earlier) for earlier, later in pairwise(seen)), seen
    assert [body_in_etcd(publisher, version) for version in range(1, 9)] == [body_of(v) for v in range(1, 9)]


def test_an_etcd_that_lost_its_data_is_written_again(tmp_path: Path) -> None:
    def run_and_publish() -> tuple[str, Outcome]:
        with EmbeddedEtcd.start(tmp_path / "etcd") as etcd, EtcdClient([etcd.endpoint]) as client:
            outcome = publish(Publisher(client, "/v"), 7, Phase.RESCALING)
            assert published(Publisher(client, "/v")) == current_of(7, Phase.RESCALING)
            return etcd.endpoint, outcome

    endpoint, _ = run_and_publish()
    assert run_and_publish() == (endpoint, Outcome.UNCHANGED)
    shutil.rmtree(tmp_path / "etcd" / "data")
    assert run_and_publish() == (endpoint, Outcome.WRITTEN)
