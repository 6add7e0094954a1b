"""etcd is killed, loses all it had, or stands still, under load."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from time import monotonic

import pytest

from tests.faults.cluster import Cluster
from tests.faults.observed import Observed

Observing = Callable[..., AbstractContextManager[Observed]]
Eventually = Callable[..., None]
# Before a version is applied etcd is read, after it is written, each given 2 s; the rest is for a busy machine.
ANSWER_S = 15


def test_while_etcd_is_killed_rescales_go_on_and_are_published_when_it_is_back(
    cluster: Cluster, under_load: Observing
) -> None:
    with under_load() as seen:
        cluster.etcd.kill()
        seen.wait_progress(3)
        cluster.etcd.start()
        seen.wait_progress()
        seen.wait_seen(seen.operator.newest)
    assert seen.etcd.vanished == 0
    assert set(seen.operator.answers) <= {200, 201, 202, 409}, "etcd is not asked for permission"
    assert seen.operator.slowest_s < ANSWER_S


def test_an_etcd_whose_data_is_wiped_gets_all_of_it_again(cluster: Cluster, under_load: Observing) -> None:
    with under_load() as seen:
        seen.wait_seen(seen.operator.newest)
        cluster.etcd.kill()
        cluster.etcd.wipe()
        seen.wait_progress()
        cluster.etcd.start()
        seen.wait_progress()
        seen.wait_seen(seen.operator.newest)
    assert set(seen.operator.answers) <= {200, 201, 202, 409}


@pytest.mark.parametrize("still_s", [5, pytest.param(30, marks=pytest.mark.slow)])
def test_while_etcd_stands_still_the_service_answers_and_the_readers_follow_it_over_http(
    cluster: Cluster, under_load: Observing, still_s: int, eventually: Eventually
) -> None:
    with under_load() as seen:
        cluster.etcd.suspend()
        before = seen.operator.newest
        resume_at = monotonic() + still_s

        def followed() -> None:
            assert monotonic() > resume_at
            assert seen.operator.newest > before
            seen.require_followed(before + 1, "applier", "reader", "HTTP")

        eventually(followed, still_s + 30)
        cluster.etcd.resume()
        seen.wait_progress()
        seen.wait_seen(seen.operator.newest)
    assert seen.etcd.vanished == 0
    assert set(seen.operator.answers) <= {200, 201, 202, 409}
    assert seen.operator.slowest_s < ANSWER_S
