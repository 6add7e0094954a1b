"""A replica is killed, or stands still, at the worst moments of a publish."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager
from time import monotonic

import pytest

from meta.etcd.client import EtcdClient
from meta.etcd.values import KeyValue
from meta.mapping.publication import DEFAULT_ROOT, Phase
from tests.faults.cluster import Cluster
from tests.faults.history import History
from tests.faults.load import Operator
from tests.faults.observed import Observed

Observing = Callable[..., AbstractContextManager[Observed]]
Eventually = Callable[..., None]


@contextmanager
def held_publish(cluster: Cluster, version: int) -> Iterator[None]:
    """The first replica's transaction that would publish this version waits on its way to etcd."""
    cluster.line.hold_at(b'"phase":"rescaling","version":%d}' % version)
    try:
        yield
    finally:
        cluster.line.release()


def published(cluster: Cluster, fragment: str) -> tuple[KeyValue, ...]:
    """All that etcd has of the fragment, and which write of its history wrote it."""
    with EtcdClient([cluster.etcd.endpoint]) as etcd:
        return etcd.range(f"{DEFAULT_ROOT}/fragments/{fragment}/").values


@pytest.mark.parametrize(
    "publisher", ["the other replica", pytest.param("the restarted one", marks=pytest.mark.slow)]
)
def test_a_version_committed_by_a_replica_that_is_killed_before_its_publish_is_published(
    cluster: "Cluster", under_load: Observing, eventually: Eventually, publisher: str
) -> None:
    one, two = cluster.replicas
    with under_load(loaded=False) as seen, ThreadPoolExecutor(1) as background:
        token = seen.operator.plan_change(2)
        # It would publish what it finds.
        two.suspend()
        with held_publish(cluster, 2):
            seen.operator.ask_next(0)
            applying = background.submit(seen.operator.apply, token)
            assert cluster.line.wait_held(30)
            assert History.read(cluster.database_url, seen.fragment).current.version == 2
            one.kill()
            cluster.line.lose()
        if publisher == "the other replica":
            two.resume()
            eventually(lambda: seen.require_last_seen_by("etcd", 2), 30)
            one.start()
        else:
            two.kill()
            one.start()
            eventually(lambda: seen.require_last_seen_by("etcd", 2), 30)
            two.start()
        assert applying.result(60).json()["version"] == 2, "the same token tells what became of it"


@pytest.mark.parametrize(
    "asleep_s", [5, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.timeout(300)])]
)
def test_the_stale_publish_of_a_replica_that_slept_in_the_middle_of_it_changes_nothing(
    cluster: "Cluster", under_load: Observing, eventually: Eventually, asleep_s: int
) -> None:
    one, two = cluster.replicas
    with under_load(loaded=False) as seen, ThreadPoolExecutor(1) as background:
        operator = seen.operator
        token = operator.plan_change(2)
        two.suspend()
        with held_publish(cluster, 2):
            operator.ask_next(0)
            applying = background.submit(operator.apply, token)
            assert cluster.line.wait_held(30)
            one.suspend()
            woken_at = monotonic() + asleep_s
            two.resume()
            eventually(lambda: seen.require_last_seen_by("etcd", 2), 30)
            going_on = Operator([two.url], seen.fragment, operator.units, promised=operator.promised)
            with closing(going_on) as other:
                while monotonic() < woken_at:
                    other.step()
                newest = other.newest
            assert newest > 3
            eventually(lambda: seen.require_last_seen_by("etcd", newest, Phase.SETTLED), 30)
            before = published(cluster, seen.fragment)
            # The words that it wrote before it slept arrive, and it goes on with what it read before that.
            cluster.line.release()
            one.resume()
        assert applying.result(60).json()["version"] == 2
        assert published(cluster, seen.fragment) == before
