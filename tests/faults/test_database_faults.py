"""The database is restarted, or put back to an older backup, under load."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from meta.mapping.publication import Phase
from tests.faults.cluster import Cluster
from tests.faults.history import History
from tests.faults.observed import Observed

Observing = Callable[..., AbstractContextManager[Observed]]
Eventually = Callable[..., None]


@pytest.mark.parametrize("shared_cluster", ["postgresql"], indirect=True)
def test_postgresql_restarted_under_load_loses_nothing_that_was_promised(
    cluster: Cluster, under_load: Observing, eventually: Eventually
) -> None:
    assert cluster.postgres is not None
    with under_load() as seen:
        answers = seen.operator.answers

        def refused(times: int) -> None:
            assert answers[503] >= times, answers

        for end in (cluster.postgres.stop, cluster.postgres.kill):
            before = answers[503]
            end()
            eventually(lambda times=before + 3: refused(times), 30)
            cluster.postgres.start()
            seen.wait_progress()
    assert set(answers) <= {200, 201, 202, 409, 503}
    said = seen.operator.problems[503]
    assert said["type"] == "/problems/database-unavailable"
    assert "try again" in said["detail"]


@pytest.mark.parametrize(
    "shared_cluster", ["postgresql", pytest.param("sqlite", marks=pytest.mark.slow)], indirect=True
)
def test_a_database_restored_from_an_older_backup_has_again_what_was_published_and_goes_on(
    cluster: Cluster, under_load: Observing, tmp_path: Path
) -> None:
    with under_load() as seen:
        restore = cluster.backup(tmp_path)
        seen.wait_progress(3)
        seen.rest()
        new = History.read(cluster.database_url, seen.fragment)
        for replica in cluster.replicas:
            replica.kill()
        restore()
        seen.restored = True
        old = History.read(cluster.database_url, seen.fragment)
        assert old.current.version + 1 < new.current.version
        for replica in cluster.replicas:
            replica.start()
        seen.rest()
        again = History.read(cluster.database_url, seen.fragment)
        assert again.current == new.current
        assert again.digests == new.digests
        token = seen.operator.plan(2) or seen.operator.plan(3)
        assert token is not None
        assert seen.operator.apply(token).json()["version"] == new.current.version + 1
        seen.rest()
        assert seen.testimony.last_seen_by("etcd") == (new.current.version + 1, Phase.SETTLED)
