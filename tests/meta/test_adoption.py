"""The database was restored from an older backup and etcd is ahead: SQL takes over what etcd has."""

import logging
from typing import NoReturn

import pytest
import sqlalchemy as sa

from meta.coordination.publisher import Publisher
from meta.errors import CannotAdopt, DatabaseBehind, DigestConflict, StaleBase, UnitTaken, VersionNotCurrent
from meta.etcd.errors import Unavailable
from meta.lifecycle import Worker
from meta.mapping.publication import Phase, current_key, digest, version_key
from meta.reconciliation.adoption import HEARTBEAT_TIMEOUT_MS
from meta.store.tables import audit_entries, fragments, mapping_versions, phase_changes, units, workers
from tests.meta.backup import Backup
from tests.meta.world import APPLIER_TIMEOUT_MS, OPERATOR, World, at_once


def bodies(world: World) -> dict[int, bytes]:
    table = mapping_versions
    with world.database.engine.connect() as connection:
        rows = connection.execute(
            sa.select(table.c.version, table.c.body).where(table.c.fragment == "flights")
        )
        return {row.version: row.body for row in rows}


def everything(world: World) -> list[object]:
    tables = (fragments, mapping_versions, phase_changes, workers, units, audit_entries)
    with world.database.engine.connect() as connection:
        return [connection.execute(sa.select(table)).all() for table in tables]


def adoptions(world: World) -> list[dict[str, object]]:
    return [
        detail for caller, action, _, detail in world.audit() if (caller, action) == ("vnodemap", "adopt")
    ]


def add_worker(world: World, name: str, parallelism: int) -> Worker:
    world.workers.register(name, parallelism=parallelism, heartbeat_timeout_ms=None, by=OPERATOR)
    return worker_named(world, name)


def worker_named(world: World, name: str) -> Worker:
    with world.database.reading() as tx:
        found = tx.workers.get(name)
    assert found is not None
    return found


def worker_names(world: World) -> list[str]:
    with world.database.reading() as tx:
        return [worker.name for worker in tx.workers.all()]


def delete_body(world: World, version: int) -> None:
    assert world.publisher.etcd.delete(version_key("flights", version, world.publisher.root))


@pytest.fixture
def behind(world: World) -> World:
    """At version 2 again, after two more were published."""
    world.apply(1, 2)
    backup = Backup(world.database)
    world.apply(1, 2, 3, 4)
    world.apply(3, 4)
    assert world.published == (4, Phase.SETTLED)
    backup.restore()
    assert world.current == (2, Phase.SETTLED)
    return world


def test_the_versions_that_the_database_lost_come_back_loudly(
    behind: World, caplog: pytest.LogCaptureFixture
) -> None:
    published = [behind.publisher.body("flights", version) for version in (1, 2, 3, 4)]
    behind.pass_time(3_000)
    assert behind.current == behind.published == (4, Phase.SETTLED)
    assert [bodies(behind)[version] for version in (1, 2, 3, 4)] == published
    (told,) = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert (
        "fragment flights: the database had only version 2 (settled) and etcd has 4 (settled)" in told.message
    )
    assert "adopted versions 3, 4" in told.message
    (entry,) = adoptions(behind)
    assert (entry["from_version"], entry["to_version"], entry["versions"]) == (2, 4, [3, 4])


def test_rescales_go_on_from_what_was_adopted(behind: World) -> None:
    behind.pass_time(1_000)
    assert behind.apply(1, 2, 3).applied_version == 5
    assert behind.published == (5, Phase.SETTLED)
    moves = [version.moves for version in behind.history.versions("flights")]
    assert len(moves) == 5
    assert all(moves[1:])


def test_a_service_that_starts_on_the_older_backup_adopts_too(behind: World) -> None:
    behind.publisher.seen.clear()
    behind.start()
    behind.reconciling.run()
    assert behind.current == (4, Phase.SETTLED)


def test_an_apply_that_meets_it_first_adopts_and_is_stale(behind: World) -> None:
    token = behind.plan(1)
    with pytest.raises(StaleBase) as refusal:
        behind.apply_token(token)
    assert (refusal.value.base_version, refusal.value.current_version) == (2, 4)
    assert behind.current == (4, Phase.SETTLED)


def test_what_etcd_has_is_not_forgotten_where_it_cannot_be_adopted_now(
    behind: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next version would get a second meaning."""

    def cut_off(*_arguments: object) -> NoReturn:
        raise Unavailable("etcd", "timed out")

    token = behind.plan(1)
    monkeypatch.setattr(Publisher, "bodies", cut_off)
    with pytest.raises(DatabaseBehind):
        behind.apply_token(token)
    assert behind.current == (2, Phase.SETTLED)


def test_of_many_replicas_one_adopts(behind: World) -> None:
    at_once(*[lambda: behind.publishing.publish("flights")] * 8)
    assert behind.current == (4, Phase.SETTLED)
    assert len(adoptions(behind)) == 1


def test_a_later_phase_of_the_same_version_is_adopted(world: World) -> None:
    world.hear("job", 1)
    world.apply(1, 2)
    backup = Backup(world.database)
    assert world.current == (2, Phase.RESCALING)
    world.hear("job", 2)
    assert world.published == (2, Phase.SETTLED)
    backup.restore()
    assert world.current == (2, Phase.RESCALING)
    world.reconciling.run()
    assert world.current == world.published == (2, Phase.SETTLED)
    assert [change.phase for change in world.history.version("flights", 2).phases] == ["rescaling", "settled"]


def test_a_version_in_flight_waits_for_those_who_subscribed_since_the_backup(world: World) -> None:
    backup = Backup(world.database)
    world.hear("job", 1)
    world.apply(1, 2)
    backup.restore()
    world.reconciling.run()
    assert world.current == (2, Phase.RESCALING)
    assert world.waiting_for == ["whoever subscribed since the database's backup"]
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000)
    world.hear("job", 1)
    world.pass_time(APPLIER_TIMEOUT_MS - 1_000)
    assert world.current == (2, Phase.RESCALING)
    assert world.waiting_for == ["job"]
    world.hear("job", 2)
    assert world.current == world.published == (2, Phase.SETTLED)


def test_units_come_back_under_their_ids_and_none_is_given_again(world: World) -> None:
    backup = Backup(world.database)
    late = add_worker(world, "late", 2)
    add_worker(world, "unused", 3)
    world.apply(1, *late.unit_ids)
    world.apply(1, 2)
    world.apply(1, *late.unit_ids)
    backup.restore()
    world.reconciling.run()
    found = worker_named(world, "late")
    assert found.unit_ids == late.unit_ids
    assert found.heartbeat_timeout_ms == HEARTBEAT_TIMEOUT_MS
    assert found.alive(world.hearing.now())
    new = add_worker(world, "new", 1)
    assert new.unit_ids[0] > max(late.unit_ids)
    world.pass_time(HEARTBEAT_TIMEOUT_MS, lambda: world.beat("w1", "w2"))
    assert not found.alive(world.hearing.now())


def test_a_worker_that_was_adopted_in_part_registers_with_all_of_its_units(world: World) -> None:
    backup = Backup(world.database)
    late = add_worker(world, "late", 3)
    world.apply(1, late.unit_ids[1])
    backup.restore()
    world.reconciling.run()
    assert worker_named(world, "late").unit_ids == late.unit_ids[1:2]
    whole = add_worker(world, "late", 3)
    assert (whole.unit_ids[0], len(whole.unit_ids)) == (late.unit_ids[1], 3)
    assert whole.heartbeat_timeout_ms is None


def test_a_version_that_was_aborted_since_the_backup_is_not_accepted(world: World) -> None:
    world.hear("job", 1)
    rescale = world.apply(1, 2)
    backup = Backup(world.database)
    world.rescales.abort(rescale.id, by=OPERATOR)
    backup.restore()
    with pytest.raises(VersionNotCurrent):
        world.rescales.accept("flights", 2, by=OPERATOR)
    assert world.current == (3, Phase.SETTLED)


def test_units_of_past_versions_stay_gone_but_for_their_ids(world: World) -> None:
    backup = Backup(world.database)
    late = add_worker(world, "late", 2)
    world.apply(*late.unit_ids)
    world.apply(1, 2)
    backup.restore()
    world.reconciling.run()
    assert world.current == (3, Phase.SETTLED)
    assert worker_names(world) == ["w1", "w2"]
    new = add_worker(world, "new", 1)
    assert new.unit_ids[0] > max(late.unit_ids)


def test_an_id_that_was_given_again_stops_it_until_that_worker_is_gone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    backup = Backup(world.database)
    late = add_worker(world, "late", 2)
    world.apply(1, *late.unit_ids)
    backup.restore()
    early = add_worker(world, "early", 1)
    assert early.unit_ids[0] in late.unit_ids
    before = everything(world)
    with pytest.raises(UnitTaken) as refusal:
        world.publishing.published("flights")
    assert (refusal.value.worker, refusal.value.published_worker) == ("early", "late")
    world.pass_time(3_000)
    assert everything(world) == before
    (told,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert "worker remove early" in told
    assert world.publishing.conflicts == {"flights": str(refusal.value)}

    world.workers.remove("early", by=OPERATOR)
    world.pass_time(1_000)
    assert world.current == (2, Phase.SETTLED)
    assert world.publishing.conflicts == {}
    again = add_worker(world, "early", 1)
    assert again.unit_ids[0] not in late.unit_ids


def gone_on_otherwise(world: World) -> None:
    """The restored database makes a version of its own while it is cut from etcd."""
    elsewhere = Publisher(world.publisher.etcd, world.publisher.root + "-elsewhere")
    ours, world.publisher = world.publisher, elsewhere
    world.start()
    world.apply(1)
    world.publisher = ours
    world.start()


def test_another_history_is_never_adopted(behind: World, caplog: pytest.LogCaptureFixture) -> None:
    gone_on_otherwise(behind)
    before, in_etcd = everything(behind), behind.publisher.etcd.range(behind.publisher.root + "/").values
    body = behind.publisher.body("flights", 3)
    assert body is not None
    behind.pass_time(7_000)
    with pytest.raises(DigestConflict):
        behind.publishing.published("flights")
    assert everything(behind) == before
    assert behind.publisher.etcd.range(behind.publisher.root + "/").values == in_etcd
    (told,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert digest(body) in told
    assert digest(bodies(behind)[3]) in told
    assert behind.publishing.conflicts == {"flights": told.partition(": ")[2]}


def test_another_history_is_told_by_the_version_that_follows_where_the_body_is_gone(behind: World) -> None:
    gone_on_otherwise(behind)
    delete_body(behind, 3)
    before = everything(behind)
    with pytest.raises(CannotAdopt, match="version 4 continues another history"):
        behind.publishing.published("flights")
    assert everything(behind) == before


def test_bodies_that_etcd_no_longer_keeps_are_not_missed(behind: World) -> None:
    for version in (1, 2, 3):
        delete_body(behind, version)
    behind.pass_time(1_000)
    assert behind.current == (4, Phase.SETTLED)
    assert sorted(bodies(behind)) == [1, 2, 4]
    behind.pass_time(10_000)
    listed = {keys.fragment: sorted(keys.versions) for keys in behind.publisher.listed()}
    assert listed == {"flights": [1, 2, 4]}


def test_without_the_current_body_nothing_is_adopted(behind: World) -> None:
    delete_body(behind, 4)
    before = everything(behind)
    with pytest.raises(CannotAdopt, match="does not have its body") as refusal:
        behind.publishing.published("flights")
    assert (refusal.value.version, refusal.value.published_version) == (2, 4)
    behind.pass_time(2_000)
    assert everything(behind) == before


def test_a_body_that_is_not_the_announced_one_is_not_adopted(behind: World) -> None:
    key = version_key("flights", 4, behind.publisher.root)
    body = behind.publisher.body("flights", 3)
    assert body is not None
    behind.publisher.etcd.put(key, body)
    with pytest.raises(CannotAdopt, match=digest(body)):
        behind.publishing.published("flights")
    assert behind.current == (2, Phase.SETTLED)


def test_a_fragment_that_only_etcd_knows_is_told_once(world: World, caplog: pytest.LogCaptureFixture) -> None:
    world.announce(3, b"of another service", "trains")
    world.pass_time(12_000)
    (told,) = [record.message for record in caplog.records if record.levelno >= logging.WARNING]
    assert "does not know trains" in told
    assert world.reconciling.comparison.unknown == ("trains",)
    world.publisher.etcd.delete(current_key("trains", world.publisher.root))
    world.pass_time(6_000)
    assert world.reconciling.comparison.unknown == ()
