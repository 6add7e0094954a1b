"""A subscription against a real service and a real etcd, which are killed as the story wants it."""

import logging
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import pytest

from deploy.process import ServiceProcess
from dispatcher.errors import (
    DigestConflict,
    NoVersion,
    ServiceRefused,
    SubscriptionClosed,
    SubscriptionForked,
    SubscriptionNotPicklable,
    VersionNotSeen,
)
from dispatcher.subscription import Subscription
from dispatcher.view import Role, Source
from meta.coordination.embedded import EmbeddedEtcd
from meta.etcd.client import EtcdClient
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import (
    Base,
    Current,
    MappingVersion,
    Phase,
    current_key,
    decode_body,
    digest,
    encode_body,
    version_key,
)

POLL_MS = 200
SOON_MS = 10_000
# An expiry that a busy machine does not miss, with a beat each second.
OFTEN_MS = 3_000


Eventually = Callable[[Callable[[], None]], None]


class World:
    """A service over an etcd that does not die with it."""

    def __init__(self, folder: Path, open_in: ExitStack, eventually: Eventually) -> None:
        self.eventually = eventually
        self.etcd_dir = folder / "etcd"
        self.etcd = open_in.enter_context(EmbeddedEtcd.start(self.etcd_dir))
        self.etcd_client = open_in.enter_context(EtcdClient([self.etcd.endpoint]))
        self.service = open_in.enter_context(ServiceProcess(folder / "service", self.etcd.endpoint))
        self.http = open_in.enter_context(httpx.Client(base_url=self.service.url, trust_env=False))
        self.http.put("/v1/workers/w1", json={"parallelism": 4}).raise_for_status()
        self._names = (f"flights-{number}" for number in count(1))

    def restore(self) -> None:
        """Everything runs again, after a test that killed something."""
        self.etcd.restart_if_dead()
        try:
            self.http.get("/v1/health")
        except httpx.TransportError:
            self.service.start()

    def kill_etcd(self) -> None:
        assert self.etcd.pid is not None
        os.kill(self.etcd.pid, signal.SIGKILL)
        self.eventually(self.check_etcd_is_dead)

    def check_etcd_is_dead(self) -> None:
        assert not self.etcd.alive()

    def wipe_etcd(self) -> None:
        """etcd starts again at the same place with nothing."""
        self.kill_etcd()
        shutil.rmtree(self.etcd_dir / "data")
        self.etcd.restart_if_dead()

    def fragment(self, *, applier_timeout_ms: int = 10_000) -> str:
        """A fragment on two units, at version 1."""
        name = next(self._names)
        document = {
            "name": name,
            "vnode_count": 8,
            "distribution_key": [{"name": "tailnum", "type": "string"}],
            "parallelism": 2,
            "applier_timeout_ms": applier_timeout_ms,
        }
        self.http.post("/v1/fragments", json=document).raise_for_status()
        return name

    def rescale(self, fragment: str, parallelism: int) -> int:
        """Applies a plan; returns the version, which need not have settled."""
        plan = self.http.post(f"/v1/fragments/{fragment}/plans", json={"parallelism": parallelism})
        applied = self.http.post("/v1/rescales", json={"token": plan.raise_for_status().json()["token"]})
        return int(applied.raise_for_status().json()["version"])

    def subscribe(
        self, fragment: str, *, role: Role = "applier", state_dir: Path | None = None
    ) -> Subscription:
        return Subscription(
            self.service.url, fragment, name="a job", role=role, state_dir=state_dir, poll_ms=POLL_MS
        )

    def subscribers(self, fragment: str) -> dict[str, Any]:
        listed = self.http.get(f"/v1/fragments/{fragment}/subscribers").raise_for_status().json()
        return {subscriber["id"]: subscriber for subscriber in listed["items"]}

    def acknowledged(self, subscription: Subscription) -> int | None:
        found = self.subscribers(subscription.fragment)[subscription.id]["acknowledged_version"]
        return None if found is None else int(found)

    def await_beat(self, subscription: Subscription) -> None:
        """Until the service heard of the subscriber once more."""

        def seen_at_ms() -> int:
            return int(self.subscribers(subscription.fragment)[subscription.id]["seen_at_ms"])

        before_ms = seen_at_ms()
        self.eventually(lambda: check(seen_at_ms() > before_ms))

    def phase(self, fragment: str) -> str:
        return str(self.http.get(f"/v1/fragments/{fragment}").raise_for_status().json()["phase"])

    def published(self, fragment: str, version: int) -> bytes:
        path = f"/v1/fragments/{fragment}/versions/{version}/body"
        return self.http.get(path).raise_for_status().content

    def publish(self, version: MappingVersion, phase: Phase) -> None:
        """Publishes behind the service's back."""
        body = encode_body(version)
        current = Current(version.version, phase, digest(body))
        self.etcd_client.put(version_key(version.fragment, version.version), body)
        self.etcd_client.put(current_key(version.fragment), current.encode())


@pytest.fixture(scope="module")
def long_lived_world(tmp_path_factory: pytest.TempPathFactory, eventually: Eventually) -> Iterator[World]:
    with ExitStack() as stack:
        yield World(tmp_path_factory.mktemp("world"), stack, eventually)


@pytest.fixture
def world(long_lived_world: World) -> Iterator[World]:
    before = set(threading.enumerate())
    yield long_lived_world
    long_lived_world.restore()
    left = [thread.name for thread in set(threading.enumerate()) - before if "vnodemap" in thread.name]
    assert not left, "a closed subscription leaves no thread"


def next_version(body: bytes) -> MappingVersion:
    """The version after the one in `body`: the vnodes change places."""
    base = decode_body(body)
    moved = base.mapping.owners[::-1]
    return MappingVersion(
        base.fragment,
        base.version + 1,
        base.hash_id,
        base.units,
        VnodeMapping(moved),
        Base(base.version, base.units, base.mapping),
    )


def test_an_idle_applier_takes_a_new_version_by_itself_and_it_settles(
    world: World, eventually: Eventually
) -> None:
    # So long that no beat falls into this test: it acknowledges because there is something to tell.
    fragment = world.fragment(applier_timeout_ms=10 * SOON_MS)
    with world.subscribe(fragment) as subscription:
        published_ms = time.time_ns() // 1_000_000
        assert world.rescale(fragment, 3) == 2
        assert len(subscription.wait_for(2, SOON_MS).mapping.mapping.units) == 3

        def settled() -> None:
            assert world.phase(fragment) == "settled"
            assert world.acknowledged(subscription) == 2
            assert subscription.latest.phase is Phase.SETTLED
            assert subscription.latest.source is Source.ETCD

        eventually(settled)
        assert [adoption.version for adoption in subscription.history] == [1, 2]
        assert subscription.history[1].adopted_at_ms >= published_ms


def test_nothing_newer_is_acknowledged_while_a_pin_is_open(world: World, eventually: Eventually) -> None:
    fragment = world.fragment(applier_timeout_ms=OFTEN_MS)
    with world.subscribe(fragment) as subscription:
        with subscription.pin() as pinned:
            world.rescale(fragment, 3)
            subscription.wait_for(2, SOON_MS)
            assert pinned.version == 1
            world.await_beat(subscription)
            assert world.acknowledged(subscription) == 1
            assert world.phase(fragment) == "rescaling", "not even accepted"
            with subscription.pin() as inner:
                assert inner is pinned, "one batch, one version"
            assert world.phase(fragment) == "rescaling", "a pin within a pin asks for nothing"

        with subscription.pin() as pinned:
            assert pinned.version == 2
            eventually(lambda: check_equal(world.phase(fragment), "settled"))


def test_two_queries_pin_for_themselves_and_the_older_pin_counts(
    world: World, eventually: Eventually
) -> None:
    fragment = world.fragment(applier_timeout_ms=OFTEN_MS)
    done = threading.Event()
    pinned = threading.Event()
    versions: list[int] = []

    def first_query(subscription: Subscription) -> None:
        with subscription.pin() as mapping:
            versions.append(mapping.version)
            pinned.set()
            done.wait(SOON_MS / 1000)

    with world.subscribe(fragment) as subscription:
        query = threading.Thread(target=first_query, args=(subscription,))
        query.start()
        pinned.wait(SOON_MS / 1000)
        world.rescale(fragment, 3)
        subscription.wait_for(2, SOON_MS)
        with subscription.pin() as second:
            versions.append(second.version)
            assert world.phase(fragment) == "accepted"
            world.await_beat(subscription)
            assert world.acknowledged(subscription) == 1
        done.set()
        query.join()
        eventually(lambda: check_equal(world.phase(fragment), "settled"))
    assert versions == [1, 2]


def test_a_reader_uses_a_version_only_after_an_applier_accepted_it(
    world: World, eventually: Eventually
) -> None:
    fragment = world.fragment()
    with world.subscribe(fragment, role="reader") as reader, world.subscribe(fragment) as applier:
        with applier.pin():
            world.rescale(fragment, 3)
            reader.wait_for(2, SOON_MS)
            with reader.pin() as pinned:
                assert pinned.version == 1
            assert world.phase(fragment) == "rescaling"

        def reader_uses_it() -> None:
            with reader.pin() as pinned:
                assert pinned.version == 2

        eventually(reader_uses_it)


def test_a_refused_version_is_not_used(
    world: World, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    fragment = world.fragment()
    with world.subscribe(fragment) as subscription:
        world.publish(next_version(world.published(fragment, 1)), Phase.RESCALING)
        assert subscription.wait_for(2, SOON_MS).phase is Phase.RESCALING
        with subscription.pin() as pinned:
            assert pinned == decode_body(world.published(fragment, 1))
        eventually(lambda: check_in("version 2 is not accepted", caplog.text))
        world.await_beat(subscription)
        assert world.acknowledged(subscription) == 1


def test_who_meets_a_refused_version_first_uses_the_one_in_its_body(world: World) -> None:
    fragment = world.fragment()
    world.publish(next_version(world.published(fragment, 1)), Phase.RESCALING)
    with world.subscribe(fragment) as subscription, subscription.pin() as pinned:
        assert subscription.latest.mapping.version == 2
        assert pinned == decode_body(world.published(fragment, 1))


def test_the_query_goes_on_while_the_service_is_dead_and_takes_the_version_when_it_is_back(
    world: World,
    eventually: Eventually,
) -> None:
    fragment = world.fragment()
    with world.subscribe(fragment) as subscription:
        with subscription.pin():
            world.rescale(fragment, 3)
            subscription.wait_for(2, SOON_MS)
            world.service.kill()
        with subscription.pin() as pinned:
            assert pinned.version == 1, "nobody could accept 2"

        world.service.start()
        eventually(lambda: check_equal(world.phase(fragment), "settled"))
        with subscription.pin() as pinned:
            assert pinned.version == 2
        assert set(world.subscribers(fragment)) == {subscription.id}


def test_without_etcd_the_service_is_followed(
    world: World, eventually: Eventually, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "dispatcher")
    fragment = world.fragment()
    with world.subscribe(fragment) as subscription:
        world.kill_etcd()
        world.rescale(fragment, 3)
        assert subscription.wait_for(2, SOON_MS).source is Source.HTTP
        eventually(lambda: check_equal(world.phase(fragment), "settled"))
        assert "followed over HTTP" in caplog.text

        world.etcd.restart_if_dead()
        eventually(lambda: check_equal(subscription.latest.source, Source.ETCD))
        assert "followed through etcd" in caplog.text


def test_a_start_with_both_away_goes_on_from_disk_and_tells_the_age(
    world: World, eventually: Eventually, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fragment = world.fragment()
    with world.subscribe(fragment, state_dir=tmp_path) as subscription:
        world.rescale(fragment, 3)
        subscription.wait_for(2, SOON_MS)
        with subscription.pin() as pinned:
            assert pinned.version == 2
    kept = tmp_path / f"{fragment}.mapping"

    world.service.kill()
    # The service away, etcd there: it is found where it was.
    with world.subscribe(fragment, state_dir=tmp_path) as subscription:
        assert subscription.latest.source is Source.ETCD

    world.kill_etcd()
    two_minutes_ago_s = time.time() - 120
    os.utime(kept, (two_minutes_ago_s, two_minutes_ago_s))
    with world.subscribe(fragment, state_dir=tmp_path) as subscription:
        latest = subscription.latest
        assert (latest.mapping.version, latest.source, latest.stale) == (2, Source.DISK, True)
        assert 120_000 <= latest.age_ms < 180_000
        assert "version 2 was last confirmed 12" in caplog.text
        with subscription.pin() as pinned:
            assert pinned == latest.mapping, "accepted before, so it stays in use"

        world.restore()
        eventually(lambda: check(not subscription.latest.stale))
        assert subscription.latest.source is Source.ETCD
        eventually(lambda: check_in(subscription.id, world.subscribers(fragment)))


def test_who_starts_with_all_away_and_no_file_has_nothing_to_pin() -> None:
    nobody = "http://127.0.0.1:1"
    with Subscription(nobody, "flights", name="a job") as subscription:
        with pytest.raises(NoVersion, match="is `vnodectl serve` running there"), subscription.pin():
            pass
        with pytest.raises(NoVersion):
            _ = subscription.latest


def test_a_file_of_something_else_is_no_last_version(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    fragment = world.fragment()
    (tmp_path / f"{fragment}.mapping").write_bytes(b'{"current": 7}')
    with world.subscribe(fragment, state_dir=tmp_path) as subscription:
        assert subscription.latest.mapping.version == 1
    assert f"{fragment}.mapping is ignored" in caplog.text


def test_no_version_goes_back_after_etcd_lost_its_data(world: World, eventually: Eventually) -> None:
    fragment = world.fragment()
    first = decode_body(world.published(fragment, 1))
    with world.subscribe(fragment) as subscription:
        world.rescale(fragment, 3)
        subscription.wait_for(2, SOON_MS)
        eventually(lambda: check_equal(subscription.latest.phase, Phase.SETTLED))
        world.service.kill()
        world.wipe_etcd()
        world.publish(first, Phase.SETTLED)

        # Its age grows, since a version of the past confirms nothing.
        eventually(lambda: check(subscription.latest.age_ms > 3 * POLL_MS))
        assert subscription.latest.mapping.version == 2
        with subscription.pin() as pinned:
            assert pinned.version == 2

        world.service.start()
        eventually(lambda: check(subscription.latest.age_ms <= POLL_MS))
        world.rescale(fragment, 4)
        assert subscription.wait_for(3, SOON_MS).source is Source.ETCD


def test_one_version_with_two_digests_stops_the_subscription(world: World) -> None:
    fragment = world.fragment()
    ours = world.published(fragment, 1)
    theirs = encode_body(replace(decode_body(ours), hash_id="xxh64-1:i64"))
    key, body_key = current_key(fragment), version_key(fragment, 1)
    with world.subscribe(fragment) as subscription:
        world.etcd_client.put(body_key, theirs)
        world.etcd_client.put(key, Current(1, Phase.SETTLED, digest(theirs)).encode())
        with pytest.raises(DigestConflict) as conflict:
            subscription.wait_for(2, SOON_MS)
        assert {conflict.value.held, conflict.value.offered} == {digest(ours), digest(theirs)}
        with pytest.raises(DigestConflict):
            subscription.pin().__enter__()
    world.etcd_client.put(body_key, ours)
    world.etcd_client.put(key, Current(1, Phase.SETTLED, digest(ours)).encode())


def test_a_damaged_body_in_etcd_is_read_from_the_service_instead(
    world: World, eventually: Eventually, tmp_path: Path
) -> None:
    fragment = world.fragment()
    with world.subscribe(fragment, state_dir=tmp_path):
        pass
    world.rescale(fragment, 3)
    eventually(lambda: check_equal(world.phase(fragment), "settled"))
    body = world.published(fragment, 2)
    world.service.kill()
    world.etcd_client.put(version_key(fragment, 2), b"damaged")
    with world.subscribe(fragment, state_dir=tmp_path) as subscription:
        assert (subscription.latest.mapping.version, subscription.latest.source) == (1, Source.DISK)
        world.service.start()
        assert subscription.wait_for(2, SOON_MS).mapping == decode_body(body)
        assert subscription.latest.source is Source.HTTP
    world.etcd_client.put(version_key(fragment, 2), body)


def test_beats_keep_the_registration_and_close_ends_it(world: World, eventually: Eventually) -> None:
    fragment = world.fragment(applier_timeout_ms=OFTEN_MS)
    subscription = world.subscribe(fragment)
    with subscription.pin():
        world.rescale(fragment, 3)
        # Four thirds of an expiry: only beats keep the version from settling without us.
        for _ in range(4):
            world.await_beat(subscription)
        assert world.phase(fragment) == "rescaling"
    assert set(world.subscribers(fragment)) == {subscription.id}
    subscription.close()
    subscription.close()
    assert world.subscribers(fragment) == {}
    with pytest.raises(SubscriptionClosed):
        subscription.pin().__enter__()


def test_a_version_does_not_settle_beside_a_batch_that_outlives_its_subscription(
    world: World, eventually: Eventually
) -> None:
    """Ctrl-C ends the `with` in the main thread, while a batch runs on in its own."""
    fragment = world.fragment(applier_timeout_ms=OFTEN_MS)
    ends = threading.Event()

    def batch() -> None:
        with subscription.pin():
            ends.wait(2 * SOON_MS / 1000)

    with world.subscribe(fragment) as subscription:
        running = threading.Thread(target=batch)
        running.start()
        eventually(lambda: check_equal([use.version for use in subscription.history], [1]))
        world.rescale(fragment, 3)
        subscription.wait_for(2, SOON_MS)
    with pytest.raises(SubscriptionClosed):
        subscription.pin().__enter__()
    for _ in range(4):
        world.await_beat(subscription)
    assert world.acknowledged(subscription) == 1
    assert world.phase(fragment) == "rescaling"

    ends.set()
    running.join()
    assert world.subscribers(fragment) == {}
    assert [use.version for use in subscription.history] == [1]


def test_close_wakes_who_waits_and_lets_an_open_pin_end(world: World) -> None:
    subscription = world.subscribe(world.fragment())
    ends: list[Exception] = []

    def wait() -> None:
        try:
            subscription.wait_for(99, SOON_MS)
        except SubscriptionClosed as closed:
            ends.append(closed)

    waiter = threading.Thread(target=wait)
    waiter.start()
    with subscription.pin():
        subscription.close()
    waiter.join()
    assert len(ends) == 1


def test_what_is_not_there_is_said_at_once_or_in_time(world: World) -> None:
    with pytest.raises(ServiceRefused) as refused:
        world.subscribe("nobody-made-it")
    assert refused.value.problem == "fragment-not-found"

    with world.subscribe(world.fragment()) as subscription, pytest.raises(VersionNotSeen) as late:
        subscription.wait_for(2, timeout_ms=20)
    assert (late.value.newest, late.value.version) == (1, 2)


def test_a_subscription_is_never_pickled_and_not_used_in_a_fork(world: World) -> None:
    fragment = world.fragment()
    with world.subscribe(fragment) as subscription:
        with pytest.raises(SubscriptionNotPicklable, match="pin a version in the driver"):
            pickle.dumps(subscription)

        forked = os.fork()
        if forked == 0:
            try:
                subscription.pin().__enter__()
            except SubscriptionForked:
                subscription.close()
                os._exit(0)
            finally:
                os._exit(1)
        assert os.waitpid(forked, 0)[1] == 0
        assert set(world.subscribers(fragment)) == {subscription.id}, "the child's close is not the parent's"

        with subscription.pin() as pinned:
            assert pickle.loads(pickle.dumps(pinned)) == pinned


@pytest.mark.parametrize("pinned", [False, True])
def test_a_forgotten_subscription_does_not_hold_up_the_end_of_the_process(
    world: World, *, pinned: bool
) -> None:
    fragment = world.fragment()
    script = (
        "import sys; from dispatcher.subscription import Subscription;"
        "s = Subscription(sys.argv[1], sys.argv[2], name='forgotten'); pin = s.pin();"
        f"{'pin.__enter__();' if pinned else ''} print(s.id)"
    )
    command = [sys.executable, "-X", "dev", "-W", "error", "-c", script, world.service.url, fragment]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=SOON_MS / 1000, check=True)
    assert ended.stderr == ""
    # A pin that nobody closed may be of a batch that others work on: it is waited for.
    assert set(world.subscribers(fragment)) == ({ended.stdout.strip()} if pinned else set())


def test_pins_and_rescales_at_once(world: World, eventually: Eventually) -> None:
    """Queries that pin as fast as they can, while the fragment is rescaled: each sees versions only grow."""
    fragment = world.fragment()
    rescales = 6
    stop = threading.Event()
    seen: list[list[int]] = [[], [], []]

    def query(versions: list[int], subscription: Subscription) -> None:
        while not stop.is_set():
            with subscription.pin() as pinned:
                versions.append(pinned.version)

    with world.subscribe(fragment) as subscription:
        queries = [threading.Thread(target=query, args=(versions, subscription)) for versions in seen]
        for thread in queries:
            thread.start()
        for step in range(rescales):
            version = world.rescale(fragment, 3 if step % 2 == 0 else 2)
            eventually(lambda: check_equal(world.phase(fragment), "settled"))
            acknowledged = world.acknowledged(subscription)
            assert acknowledged == version
        stop.set()
        for thread in queries:
            thread.join()
        assert [adoption.version for adoption in subscription.history] == list(range(1, rescales + 2))
    for versions in seen:
        assert versions == sorted(versions)
    assert max(map(max, seen)) == rescales + 1


def check(holds: bool) -> None:
    assert holds


def check_equal(found: object, wanted: object) -> None:
    assert found == wanted


def check_in(part: Any, whole: Any) -> None:
    assert part in whole
