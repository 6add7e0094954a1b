"""Adaptive fragments in the service: they follow their workers by themselves, once, whoever else does."""

import logging
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from meta.callers.access import ITSELF
from meta.coordination.publisher import Publisher
from meta.errors import BadFragment, UnitsNotAlive
from meta.etcd.client import EtcdClient
from meta.hearing import GAP_MS
from meta.lifecycle import AdaptivePolicy, KeyField
from meta.mapping.errors import NotEnoughUnits
from meta.mapping.publication import Phase
from meta.registry.fragments import FragmentChange, FragmentRequest, FragmentState
from meta.rescaling.adapting import REST_MS
from meta.store.database import Database
from tests.meta.world import APPLIER_TIMEOUT_MS, OPERATOR, WORKER_TIMEOUT_MS, World, at_once

COOL_DOWN_MS = 60_000
POLICY = AdaptivePolicy(min=2, max=4, cool_down_ms=COOL_DOWN_MS)


@dataclass
class Fleet(World):
    """A world whose fragment `flights` is adaptive, and whose workers beat each second unless they died."""

    dead: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.fragments.change("flights", FragmentChange(POLICY), by=OPERATOR)

    @property
    def state(self) -> FragmentState:
        return self.fragments.state("flights")

    @property
    def versions(self) -> int:
        return self.state.fragment.current.version

    def join(self, name: str, units: int = 1) -> None:
        self.workers.register(name, parallelism=units, heartbeat_timeout_ms=WORKER_TIMEOUT_MS, by=OPERATOR)

    def live(self, span_ms: int, job_at: int | None = None) -> None:
        """The service does its round as rarely as it may without a gap in what it hears."""
        until_ms = self.now_ms + span_ms
        while self.now_ms < until_ms:
            self.now_ms = min(self.now_ms + GAP_MS, until_ms)
            self.beat_all()
            if job_at is not None:
                self.hear("job", job_at)
            self.reconciling.run()

    def beat_all(self) -> None:
        names = [use.worker.name for use in self.workers.page(after=None, limit=100)]
        self.beat(*(name for name in names if name not in self.dead))


@pytest.fixture
def fleet(database: Database, etcd: EtcdClient, name: str) -> Fleet:
    """Units 1 to 4 on w1 and w2; the fragment begins on 1, 2 and 3, and cools down."""
    return Fleet(database, Publisher(etcd, f"/{name}"))


def test_it_grows_after_its_cool_down_and_says_until_then_why_it_does_not(fleet: Fleet) -> None:
    began_ms = fleet.now_ms
    fleet.live(COOL_DOWN_MS - 1_000)
    assert fleet.current == (1, Phase.SETTLED)
    assert str(fleet.state.not_now) == (
        f"version 1 is young; it waits until {began_ms + COOL_DOWN_MS} (ms since the epoch)"
    )
    fleet.live(1_000)
    assert fleet.current == fleet.published == (2, Phase.SETTLED)
    assert fleet.state.units == (1, 2, 3, 4)
    assert fleet.state.not_now is None
    fleet.live(2 * COOL_DOWN_MS)
    assert fleet.versions == 2


def test_what_it_did_by_itself_is_told_apart(fleet: Fleet) -> None:
    fleet.live(COOL_DOWN_MS)
    assert fleet.history.version("flights", 2).cause == "adaptive"
    assert [(who, verb) for who, verb, _, _ in fleet.audit(2)] == [
        (ITSELF.name, "apply"),
        (ITSELF.name, "plan"),
    ]


def test_a_lost_worker_is_replaced_and_shown_until_then(fleet: Fleet) -> None:
    fleet.live(COOL_DOWN_MS)
    fleet.join("w3", 2)
    fleet.dead.add("w1")
    fleet.live(COOL_DOWN_MS - 1_000)
    assert (fleet.state.lost_units, fleet.versions) == ((1, 2), 2)
    fleet.live(1_000)
    assert (fleet.state.units, fleet.state.lost_units) == ((3, 4, 5, 6), ())


def test_it_leaves_a_draining_worker_by_itself_which_then_may_be_removed(fleet: Fleet) -> None:
    fleet.join("w3", 1)
    fleet.workers.drain("w1", draining=True, by=OPERATOR)
    fleet.live(COOL_DOWN_MS)
    assert fleet.state.units == (3, 4, 5)
    fleet.workers.remove("w1", by=OPERATOR)


def test_while_an_operator_s_rescale_is_under_way_it_waits(fleet: Fleet) -> None:
    fleet.live(COOL_DOWN_MS - 1_000)
    fleet.hear("job", 1)
    fleet.apply(1, 2)
    fleet.live(2 * COOL_DOWN_MS, job_at=1)
    assert fleet.current == (2, Phase.RESCALING)
    assert "a rescale to version 2 is under way (rescaling)" in str(fleet.state.not_now)
    fleet.hear("job", 2)
    fleet.live(2_000, job_at=2)
    assert fleet.current == (3, Phase.RESCALING)
    assert fleet.state.units == (1, 2, 3, 4)


def test_a_network_cut_is_told_once_and_moves_nothing(fleet: Fleet, caplog: pytest.LogCaptureFixture) -> None:
    fleet.join("w3", 2)
    fleet.live(COOL_DOWN_MS)
    assert fleet.state.units == (1, 2, 3, 5)
    fleet.live(COOL_DOWN_MS)
    caplog.set_level(logging.WARNING)
    fleet.dead |= {"w1", "w2"}
    fleet.live(WORKER_TIMEOUT_MS + COOL_DOWN_MS - 2_000)
    assert fleet.versions == 2
    assert "too many vanished at once (workers w1, w2)" in str(fleet.state.not_now)
    told = [record.message for record in caplog.records if "vanished" in record.message]
    assert len(told) == 1
    fleet.live(2_000)
    assert fleet.state.units == (5, 6)


def test_after_the_service_was_down_nobody_counts_as_lost(fleet: Fleet) -> None:
    fleet.live(COOL_DOWN_MS)
    fleet.now_ms += 3_600_000
    fleet.start()
    fleet.join("w3")
    fleet.pass_time(5_000)
    assert fleet.versions == 2
    fleet.live(COOL_DOWN_MS)
    assert fleet.versions == 2, "all came back, and it is at its max"


def test_of_many_replicas_that_see_the_same_one_rescales(fleet: Fleet, database_url: str) -> None:
    fleet.live(COOL_DOWN_MS - 1_000)
    fleet.now_ms += 1_000
    fleet.beat_all()
    others = [Database(database_url) for _ in range(4)]
    replicas = [World.__new__(World) for _ in others]
    for replica, database in zip(replicas, others, strict=True):
        replica.database, replica.publisher, replica.now_ms = database, fleet.publisher, fleet.now_ms
        replica.start()
    try:
        at_once(*(replica.reconciling.run for replica in replicas))
        fleet.reconciling.run()
    finally:
        for database in others:
            database.close()
    assert fleet.versions == 2
    assert fleet.state.units == (1, 2, 3, 4)


def test_what_it_is_refused_is_told_once(
    fleet: Fleet, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise UnitsNotAlive([4])

    monkeypatch.setattr("meta.rescaling.rescale.dry_run", refuse)
    fleet.live(COOL_DOWN_MS + 5_000)
    told = [record.message for record in caplog.records if "cannot follow its workers" in record.message]
    assert len(told) == 1
    assert fleet.versions == 1
    monkeypatch.undo()
    fleet.live(REST_MS)
    assert fleet.versions == 2


def test_as_long_as_it_is_refused_it_tries_once_a_minute(fleet: Fleet) -> None:
    fleet.announce(1, b"another version 1")
    fleet.live(COOL_DOWN_MS + 3 * REST_MS - 1_000)
    assert fleet.versions == 1
    assert [verb for _, verb, _, _ in fleet.audit()].count("plan") == 3


def test_a_fragment_becomes_adaptive_and_fixed_again(fleet: Fleet) -> None:
    fixed = fleet.fragments.change("flights", FragmentChange("fixed"), by=OPERATOR)
    assert (fixed.fragment.adaptive, fixed.not_now) == (None, None)
    fleet.live(2 * COOL_DOWN_MS)
    assert fleet.versions == 1
    narrow = AdaptivePolicy(1, 2, COOL_DOWN_MS)
    assert fleet.fragments.change("flights", FragmentChange(narrow), by=OPERATOR).fragment.adaptive == narrow
    fleet.live(1_000)
    assert len(fleet.state.units) == 2
    assert [verb for _, verb, _, _ in fleet.audit(5)] == ["apply", "plan", "change", "change", "change"]


def test_a_change_that_changes_nothing_is_not_in_the_audit_log(fleet: Fleet) -> None:
    before = fleet.audit(20)
    fleet.fragments.change("flights", FragmentChange(POLICY), by=OPERATOR)
    assert fleet.audit(20) == before


def test_a_fragment_begins_on_all_there_is_within_its_bounds(fleet: Fleet) -> None:
    key = (KeyField("origin", "string"),)

    def create(name: str, least: int, most: int, vnodes: int = 64) -> int:
        policy = AdaptivePolicy(least, most, COOL_DOWN_MS)
        fleet.rescales.create_fragment(
            FragmentRequest(name, vnodes, key, policy, APPLIER_TIMEOUT_MS), by=OPERATOR
        )
        return len(fleet.fragments.state(name).units)

    assert (create("a", 1, 3), create("b", 1, 4_096), create("c", 1, 8, 2)) == (3, 4, 2)
    with pytest.raises(NotEnoughUnits):
        create("d", 5, 8)
    with pytest.raises(BadFragment, match="min 3 is above max 2"):
        create("e", 3, 2)
    with pytest.raises(BadFragment, match="more units than 2 vnodes"):
        create("f", 3, 4, 2)


@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 60))]
)
def test_whatever_happens_to_its_workers(fleet: Fleet, seed: int) -> None:
    """As in test_adaptive, over a database and two restarts: in the end it runs on all that live, within its bounds."""
    random = Random(seed)
    names = ["w1", "w2", "w3", "w4"]
    fleet.join("w3", 2)
    fleet.join("w4", 1)
    began: list[int] = []
    for _ in range(12):
        name = random.choice(names)
        match random.randrange(5):
            case 0:
                fleet.dead.add(name)
            case 1:
                fleet.dead.discard(name)
            case 2:
                fleet.workers.drain(name, draining=random.random() < 0.5, by=OPERATOR)
            case 3:
                fleet.now_ms += 1_000
                fleet.start()
        for _ in range(random.randrange(1, 8)):
            fleet.live(5_000)
            version = fleet.versions
            with fleet.database.reading() as tx:
                began = [tx.versions.began_at_ms("flights", number) or 0 for number in range(1, version + 1)]
    assert all(later - earlier >= COOL_DOWN_MS for earlier, later in pairwise(began))
    fleet.live(WORKER_TIMEOUT_MS + 2 * COOL_DOWN_MS)
    usable = {
        unit_id
        for use in fleet.workers.page(after=None, limit=9)
        if use.worker.name not in fleet.dead and not use.worker.draining
        for unit_id in use.worker.unit_ids
    }
    if len(usable) >= POLICY.min:
        assert set(fleet.state.units) <= usable
        assert len(fleet.state.units) == min(len(usable), POLICY.max)
    settled = fleet.versions
    fleet.live(2 * COOL_DOWN_MS)
    assert fleet.versions == settled
