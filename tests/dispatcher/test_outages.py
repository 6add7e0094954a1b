"""A subscription while its service or etcd is away, or has lost or garbled something."""

import logging
import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from dispatcher.errors import DigestConflict, NoVersion
from dispatcher.subscription import Subscription
from dispatcher.view import Source
from meta.mapping.publication import (
    Current,
    Phase,
    current_key,
    decode_body,
    digest,
    encode_body,
    version_key,
)
from tests.dispatcher.world import POLL_MS, SOON_MS, Eventually, World, check, check_equal, check_in


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
