"""The service is cut from etcd, and from PostgreSQL: nothing passes in either direction, and nobody is told."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from deploy.postgres import PostgresProcess
from deploy.process import ServiceProcess
from tests.faults.cluster import Deployment
from tests.faults.network import Island, IslandEtcd
from tests.faults.observed import observed

Eventually = Callable[..., None]
# etcd is read before a version is applied and written after it, each given 2 s; the rest is for a busy machine.
WITHOUT_ETCD_S = 15
# A connection that was cut is given up after 10 s, a new one after 5 s.
WITHOUT_DATABASE_S = 40
HEALTH_S = 5


@dataclass(frozen=True)
class Apart:
    """A service here, its etcd on one island and its PostgreSQL on another."""

    deployment: Deployment
    etcd: Island
    postgres: Island


@pytest.fixture(scope="module")
def apart() -> Iterator[Apart]:
    with ExitStack() as running:
        folder = Path(running.enter_context(tempfile.TemporaryDirectory(ignore_cleanup_errors=True)))
        # PostgreSQL's own user has to come by.
        folder.chmod(0o755)
        islands = [running.enter_context(Island(number)) for number in (1, 2)]
        for name in ("etcd", "postgres"):
            (folder / name).mkdir()
        etcd = running.enter_context(IslandEtcd(folder / "etcd", islands[0]))
        postgres = running.enter_context(
            PostgresProcess(folder / "postgres", islands[1].host, islands[1].name)
        )
        url = running.enter_context(postgres.database("meta"))
        service = running.enter_context(ServiceProcess(folder / "service", etcd.endpoint, url))
        yield Apart(Deployment(etcd, url, (service,), postgres), *islands)


def test_cut_from_etcd_the_service_goes_on_and_publishes_when_it_is_healed(
    apart: Apart, name: str, eventually: Eventually
) -> None:
    with observed(apart.deployment, name, eventually) as seen:
        apart.etcd.cut()
        seen.wait_progress(2)
        eventually(lambda: seen.require_followed(seen.operator.newest, "applier", "HTTP"), 30)
        apart.etcd.heal()
        seen.wait_progress()
        seen.wait_seen(seen.operator.newest)
    assert seen.etcd.vanished == 0
    assert set(seen.operator.answers) <= {200, 201, 202, 409}
    assert seen.operator.slowest_s < WITHOUT_ETCD_S


def test_cut_from_postgresql_the_service_says_so_in_time_and_goes_on_when_it_is_healed(
    apart: Apart, name: str, eventually: Eventually
) -> None:
    (url,) = apart.deployment.urls
    with observed(apart.deployment, name, eventually) as seen:
        answers = seen.operator.answers

        def refused() -> None:
            health = httpx.get(f"{url}/v1/health", timeout=HEALTH_S, trust_env=False)
            assert health.status_code == httpx.codes.OK
            assert answers[503] >= 2, answers
            # Once it is healed, a session that was cut off may keep its fragment locked for some seconds.
            assert seen.operator.problems[503]["type"] == "/problems/database-unavailable"

        apart.postgres.cut()
        eventually(refused, 2 * WITHOUT_DATABASE_S)
        apart.postgres.heal()
        seen.wait_progress()
        seen.wait_seen(seen.operator.newest)
    assert set(answers) <= {200, 201, 202, 409, 503}
    assert seen.operator.unanswered == 0
    assert seen.operator.slowest_s < WITHOUT_DATABASE_S
