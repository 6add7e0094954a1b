import pytest

from meta.hearing import GAP_MS, Hearing
from meta.lifecycle import Fragment, KeyField, Moment, Progress, Role, Subscriber, Worker, progress
from meta.mapping.publication import Current, Phase

NOON_MS = 1_000_000
TIMEOUT_MS = 10_000


def flights(version: int = 2, phase: Phase = Phase.RESCALING) -> Fragment:
    key = (KeyField("tailnum", "string"),)
    return Fragment("flights", 256, key, "xxh64-1:utf8", TIMEOUT_MS, 0, Current(version, phase, "ab" * 32))


def applier(name: str, has: int | None, seen_at_ms: int = NOON_MS, role: Role = Role.APPLIER) -> Subscriber:
    return Subscriber(name, "flights", name, role, has, seen_at_ms)


def names(subscribers: tuple[Subscriber, ...]) -> list[str]:
    return [subscriber.name for subscriber in subscribers]


def at(now_ms: int, fragment: Fragment, *subscribers: Subscriber, up_since_ms: int = 0) -> Progress:
    return progress(fragment, subscribers, Moment(now_ms, up_since_ms))


def test_nobody_subscribed_so_it_may_settle_at_once() -> None:
    assert at(NOON_MS, flights()).may_settle


def test_the_appliers_that_did_not_acknowledge_are_waited_for() -> None:
    found = at(NOON_MS, flights(), applier("new", None), applier("late", 1), applier("done", 2))
    assert names(found.waiting_for) == ["new", "late"]
    assert names(found.acknowledged) == ["done"]
    assert not found.may_settle


def test_all_appliers_acknowledged_so_it_may_settle_in_either_phase() -> None:
    for phase in (Phase.RESCALING, Phase.ACCEPTED):
        assert at(NOON_MS, flights(phase=phase), applier("a", 2), applier("b", 3)).may_settle


def test_readers_are_never_awaited_nor_counted() -> None:
    found = at(NOON_MS, flights(), applier("scan", None, role=Role.READER), applier("done", 2))
    assert found.may_settle
    assert names(found.acknowledged) == ["done"]


def test_a_settled_version_waits_for_nobody_and_settles_no_more() -> None:
    found = at(NOON_MS, flights(phase=Phase.SETTLED), applier("just-started", None))
    assert found.waiting_for == ()
    assert not found.may_settle


def test_a_silent_applier_is_gone_exactly_after_the_timeout() -> None:
    silent = applier("silent", 1, seen_at_ms=NOON_MS)
    assert names(at(NOON_MS + TIMEOUT_MS - 1, flights(), silent).waiting_for) == ["silent"]
    assert at(NOON_MS + TIMEOUT_MS, flights(), silent).may_settle


def test_after_an_outage_of_ours_silence_counts_anew() -> None:
    """Down for an hour, up again: the appliers could not have been heard, so they get one timeout."""
    up_ms = NOON_MS + 3_600_000
    unheard = applier("unheard", 1, seen_at_ms=NOON_MS)
    assert names(at(up_ms + TIMEOUT_MS - 1, flights(), unheard, up_since_ms=up_ms).waiting_for) == ["unheard"]
    assert at(up_ms + TIMEOUT_MS, flights(), unheard, up_since_ms=up_ms).may_settle


def test_a_clock_that_was_set_back_makes_nobody_dead() -> None:
    assert not at(NOON_MS - 3_600_000, flights(), applier("ahead", 1)).may_settle


def test_a_worker_is_alive_while_it_beats() -> None:
    worker = Worker("w1", (1, 2), 500, registered_at_ms=0, seen_at_ms=NOON_MS)
    assert worker.alive(Moment(NOON_MS + 499, 0))
    assert not worker.alive(Moment(NOON_MS + 500, 0))
    assert worker.alive(Moment(NOON_MS + 3_600_000, NOON_MS + 3_599_900)), (
        "we were away, it is not known dead"
    )


def test_a_worker_that_an_operator_vouches_for_is_always_alive() -> None:
    worker = Worker("w1", (1, 2), None, registered_at_ms=0, seen_at_ms=0)
    assert worker.alive(Moment(NOON_MS, 0))
    assert [(unit.id, unit.worker, unit.weight) for unit in worker.units] == [(1, "w1", 1.0), (2, "w1", 1.0)]


@pytest.mark.parametrize(
    ("instants_ms", "silence_from_ms"),
    [
        ([1_000, 2_000, 3_000], 0),
        ([1_000, 1_000 + GAP_MS], 0),
        ([1_000, 1_001 + GAP_MS], 1_001 + GAP_MS),
        ([1_000, 60_000, 61_000], 60_000),
        ([1_000, 500], 0),
    ],
    ids=["steady", "just-in-time", "a-gap", "once-after-a-gap", "set-back"],
)
def test_a_gap_in_our_own_time_starts_silence_anew(instants_ms: list[int], silence_from_ms: int) -> None:
    clock = iter([0, *instants_ms])
    hearing = Hearing(lambda: next(clock))
    moments = [hearing.now() for _ in instants_ms]
    assert moments[-1] == Moment(instants_ms[-1], silence_from_ms)


def test_an_interruption_starts_silence_anew() -> None:
    clock = iter([0, 1_000, 1_500])
    hearing = Hearing(lambda: next(clock))
    hearing.interrupted()
    assert hearing.now() == Moment(1_500, 1_000)
