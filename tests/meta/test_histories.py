"""SQL and etcd hold one history, or say so."""

import pytest

from meta.coordination.publisher import Publisher
from meta.errors import DigestConflict, FragmentPublishedElsewhere
from meta.etcd.client import EtcdClient
from meta.mapping.publication import Phase, current_key, digest
from meta.store.database import Database
from tests.meta.world import World


def test_of_two_histories_nothing_is_published_and_the_other_fragments_go_on(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    body = b"another version 1"
    world.announce(1, body)
    world.create("trains")
    world.pass_time(3_000)
    (told,) = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert digest(body) in told
    assert digest(world.history.body("flights", 1)) in told
    assert world.publisher.etcd.get(current_key("trains", world.publisher.root)) is not None


def test_a_trouble_that_comes_again_is_told_again(world: World, caplog: pytest.LogCaptureFixture) -> None:
    ours = world.history.body("flights", 1)
    for body in (b"another version 1", ours, b"another version 1"):
        world.announce(1, body)
        world.pass_time(2_000)
    assert [record.levelname for record in caplog.records].count("ERROR") == 2


def test_without_etcd_everything_goes_on_in_sql(database: Database) -> None:
    with EtcdClient(["127.0.0.1:1"], timeout_ms=200) as nowhere:
        world = World(database, Publisher(nowhere, "/v"))
        assert world.apply(1, 2).applied_version == 2
        assert world.publishing.publish("flights") is None
        world.reconciling.run()
        assert world.current == (2, Phase.SETTLED)


def test_a_database_of_another_history_does_not_go_on(world: World) -> None:
    """Version 2 over a foreign version 1 would look like one history."""
    token = world.plan(1, 2)
    ours, foreign = world.history.body("flights", 1), b"another version 1"
    world.announce(1, foreign)
    with pytest.raises(DigestConflict) as refusal:
        world.apply_token(token)
    assert (refusal.value.held, refusal.value.offered) == (digest(foreign), digest(ours))
    assert (world.current, world.published) == ((1, Phase.SETTLED), (1, Phase.SETTLED))
    world.announce(1, ours)
    assert world.apply_token(token).applied_version == 2


def test_a_fragment_that_etcd_has_of_somebody_else_is_not_created(world: World) -> None:
    world.announce(1, b"of another database", fragment="trains")
    with pytest.raises(FragmentPublishedElsewhere, match="choose another name") as refusal:
        world.create("trains")
    assert (refusal.value.fragment, refusal.value.published_version) == ("trains", 1)
    with world.database.reading() as tx:
        assert [fragment.name for fragment in tx.fragments.all()] == ["flights"]
