"""History is kept as long as the settings say, in SQL and in etcd."""

import pytest
import sqlalchemy as sa

from meta.mapping.publication import Phase
from meta.reconciliation.retention import KEEP_VERSIONS_MIN, Kept, Retention
from meta.store.tables import mapping_versions, phase_changes, plans
from tests.meta.world import DAY_MS, OPERATOR, World

NEWEST_TEN = list(range(6, 16))


def retention(world: World, versions: int = KEEP_VERSIONS_MIN, days: int = 365) -> Retention:
    return Retention(world.database, world.hearing, Kept(versions, days))


def versions_in(world: World, table: sa.Table) -> list[int]:
    with world.database.engine.connect() as connection:
        return sorted(set(connection.execute(sa.select(table.c.version)).scalars()))


def versions_in_etcd(world: World) -> list[int]:
    (keys,) = world.publisher.listed()
    return sorted(keys.versions)


@pytest.fixture
def long(world: World) -> World:
    """At version 15."""
    for version in range(2, 16):
        assert world.apply(*([1, 2] if version % 2 else [3, 4])).applied_version == version
    return world


def test_the_newest_versions_are_kept_and_etcd_follows(long: World) -> None:
    long.pass_time(1_000)
    retention(long).run()
    assert versions_in(long, mapping_versions) == versions_in(long, phase_changes) == NEWEST_TEN
    with long.database.reading() as tx:
        fragment = tx.fragments.get("flights")
    assert fragment is not None
    assert fragment.oldest_version == 6
    with long.database.engine.connect() as connection:
        applied = connection.execute(sa.select(plans.c.applied_version)).scalars()
        assert sorted(applied) == NEWEST_TEN
    long.pass_time(6_000)
    assert versions_in_etcd(long) == NEWEST_TEN
    assert long.published == long.current == (15, Phase.SETTLED)


def test_nothing_is_forgotten_twice_nor_below_the_setting(long: World) -> None:
    retention(long, versions=15).run()
    assert versions_in(long, mapping_versions) == list(range(1, 16))
    for _ in range(2):
        retention(long).run()
        assert versions_in(long, mapping_versions) == NEWEST_TEN


def test_a_version_in_flight_keeps_its_base(long: World) -> None:
    long.hear("job", 15)
    long.apply(1, 2, 3, 4)
    retention(long).run()
    assert long.current == (16, Phase.RESCALING)
    previous = long.body(16).previous
    assert previous is not None
    assert previous.version in versions_in(long, mapping_versions)


def test_a_rescale_that_is_in_flight_for_days_may_still_be_aborted(world: World) -> None:
    world.hear("job", 1)
    rescale = world.apply(1, 2)
    world.now_ms += 3 * DAY_MS
    retention(world, days=1).run()
    assert world.rescales.abort_current("flights", by=OPERATOR).id == rescale.id
    assert world.current == (3, Phase.SETTLED)


def test_in_small_transactions_all_of_it_goes(long: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("meta.reconciliation.retention._AT_ONCE", 2)
    retention(long).run()
    assert versions_in(long, mapping_versions) == NEWEST_TEN


def test_records_go_when_their_days_are_over(long: World) -> None:
    assert long.audit()
    long.now_ms += 2 * DAY_MS
    retention(long, days=3).run()
    assert long.audit()
    long.now_ms += 2 * DAY_MS
    retention(long, days=3).run()
    assert long.audit() == []
    with long.database.engine.connect() as connection:
        assert connection.execute(sa.select(plans)).all() == []


def test_too_short_a_history_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 10 versions"):
        Kept(versions=KEEP_VERSIONS_MIN - 1)
