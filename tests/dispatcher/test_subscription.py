"""A subscription against a real service and a real etcd: what is used, pinned and acknowledged."""

import os
import pickle
import subprocess
import sys
import threading
import time

import pytest

from dispatcher.errors import (
    ServiceRefused,
    SubscriptionClosed,
    SubscriptionForked,
    SubscriptionNotPicklable,
    VersionNotSeen,
)
from dispatcher.subscription import Subscription
from dispatcher.view import Source
from meta.mapping.publication import Phase, decode_body
from tests.dispatcher.world import (
    OFTEN_MS,
    SOON_MS,
    Eventually,
    World,
    check_equal,
    check_in,
    refused_version,
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
        world.publish(refused_version(world.published(fragment, 1)), Phase.RESCALING)
        assert subscription.wait_for(2, SOON_MS).phase is Phase.RESCALING
        with subscription.pin() as pinned:
            assert (pinned.version, pinned.mapping) == (1, decode_body(world.published(fragment, 1)).mapping)
        eventually(lambda: check_in("version 2 is not accepted", caplog.text))
        world.await_beat(subscription)
        assert world.acknowledged(subscription) == 1


def test_who_meets_a_refused_version_first_uses_the_one_in_its_body(world: World) -> None:
    fragment = world.fragment()
    world.publish(refused_version(world.published(fragment, 1)), Phase.RESCALING)
    with world.subscribe(fragment) as subscription, subscription.pin() as pinned:
        assert subscription.latest.mapping.version == 2
        assert (pinned.version, pinned.mapping) == (1, decode_body(world.published(fragment, 1)).mapping)


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
