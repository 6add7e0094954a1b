"""Two replicas, etcd and the database under load, with one fault after the other from a seed."""

import os
import random
import secrets
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from time import monotonic

import pytest

from tests.faults.cluster import Cluster
from tests.faults.observed import Observed

Observing = Callable[..., AbstractContextManager[Observed]]
Eventually = Callable[..., None]
Fault = Callable[[], AbstractContextManager[None]]
LONGEST_S = 3.0


def chaos(cluster: Cluster) -> dict[str, Fault]:
    """The faults by name; each lasts as long as its block."""

    @contextmanager
    def replica_killed(number: int) -> Iterator[None]:
        cluster.replicas[number].kill()
        yield
        cluster.replicas[number].start()

    @contextmanager
    def replica_still(number: int) -> Iterator[None]:
        cluster.replicas[number].suspend()
        yield
        cluster.replicas[number].resume()

    @contextmanager
    def etcd_killed() -> Iterator[None]:
        cluster.etcd.kill()
        yield
        cluster.etcd.start()

    @contextmanager
    def etcd_still() -> Iterator[None]:
        cluster.etcd.suspend()
        yield
        cluster.etcd.resume()

    @contextmanager
    def etcd_wiped() -> Iterator[None]:
        cluster.etcd.kill()
        cluster.etcd.wipe()
        yield
        cluster.etcd.start()

    @contextmanager
    def publish_late() -> Iterator[None]:
        cluster.line.hold_at(b'"phase":')
        yield
        cluster.line.release()

    @contextmanager
    def publish_lost() -> Iterator[None]:
        cluster.line.hold_at(b'"phase":')
        yield
        cluster.line.lose()

    @contextmanager
    def database_crashed() -> Iterator[None]:
        assert cluster.postgres is not None
        cluster.postgres.kill()
        yield
        cluster.postgres.start()

    faults: dict[str, Fault] = {
        "the first replica is killed": lambda: replica_killed(0),
        "the second replica is killed": lambda: replica_killed(1),
        "the first replica stands still": lambda: replica_still(0),
        "the second replica stands still": lambda: replica_still(1),
        "etcd is killed": etcd_killed,
        "etcd is wiped": etcd_wiped,
        "etcd stands still": etcd_still,
        "a publish is late": publish_late,
        "a publish is lost": publish_lost,
    }
    return {**faults, "the database crashes": database_crashed} if cluster.postgres else faults


@pytest.mark.parametrize(
    "lasts_s", [20, pytest.param(300, marks=[pytest.mark.slow, pytest.mark.timeout(900)])]
)
def test_under_any_faults_no_promise_is_broken(
    cluster: Cluster, under_load: Observing, eventually: Eventually, lasts_s: int
) -> None:
    # A red default run is red again; the long ones each try something new.
    fresh = secrets.randbits(32) if lasts_s > 20 else 5
    seed = int(os.environ.get("VNODEMAP_CHAOS_SEED", fresh))
    print(f"VNODEMAP_CHAOS_SEED={seed}")
    draw = random.Random(seed)
    faults = chaos(cluster)

    def pass_time(seconds: float) -> None:
        until = monotonic() + seconds

        def passed() -> None:
            assert monotonic() > until

        eventually(passed, seconds + 10)

    with under_load() as seen:
        ends = monotonic() + lasts_s
        while monotonic() < ends:
            name = draw.choice(sorted(faults))
            print(f"{seen.operator.newest:5} {name}")
            with faults[name]():
                pass_time(draw.uniform(0.1, LONGEST_S))
            pass_time(draw.uniform(0, 1))
        seen.wait_progress()
    assert set(seen.operator.answers) <= {200, 201, 202, 409, 503}
    print(f"{seen.operator.newest} versions, answers {dict(seen.operator.answers)}")
