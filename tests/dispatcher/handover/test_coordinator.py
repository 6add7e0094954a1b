"""One thing at a time, and a restart from whatever goes wrong."""

from dataclasses import replace
from typing import Any

import pytest

from dispatcher.handover.coordinator import advance
from dispatcher.handover.effect import Acknowledged, Drained, Installed, Left, Released
from dispatcher.handover.errors import IllegalEvent, NotFollowing
from dispatcher.handover.event import Barrier, Complete, Intent, OpenSource, ReleaseSource, Resume, Round
from dispatcher.handover.job import (
    Coordinator,
    DeadlinePassed,
    Defer,
    Emptying,
    JobEvent,
    MoveSource,
    Reported,
    Requested,
    Rescaling,
    Restart,
    Restarted,
    Restarting,
    Running,
    Seal,
    Settle,
    SnapshotDue,
    Snapshotting,
    Start,
    Tell,
    UnitLost,
)
from dispatcher.handover.pacing import Order, Pacing
from dispatcher.handover.version import Version

ONE = Version(1, "one", {0: 0, 1: 1}, frozenset({0, 1}))
TWO = Version(2, "two", {0: 0, 1: 2}, frozenset({0, 2}))
JOB = Coordinator(Running(ONE), 5, {"p": 0, "q": 1}, recoverable=False)
REQUESTED = Requested(TWO)


def after(*events: JobEvent[int], job: Coordinator[int] = JOB) -> tuple[Coordinator[int], list[Any]]:
    """The effects are of the last event."""
    effects: list[Any] = []
    for event in events:
        job, last = advance(job, event)
        effects = list(last)
    return job, effects


ACKNOWLEDGED = [Reported(unit, Acknowledged(2), 5) for unit in (0, 1, 2)]


def test_a_new_unit_is_there_before_anybody_hears_intent() -> None:
    _, effects = after(REQUESTED)
    intent = Intent(1, "one", TWO)
    assert effects == [Start(2, ONE), *(Tell(unit, intent) for unit in (0, 1, 2))]


def test_complete_is_for_all_when_all_have_acknowledged_and_sources_are_taken_from_who_leaves() -> None:
    assert after(REQUESTED, *ACKNOWLEDGED[:2])[1] == []
    _, effects = after(REQUESTED, *ACKNOWLEDGED)
    assert effects == [
        *(Tell(unit, Complete(2)) for unit in (0, 1, 2)),
        Settle(2),
        Tell(1, ReleaseSource("q")),
    ]


# Unit 2 gets the three vnodes of unit 0, of which 12 is the hottest, and one of unit 1: two rounds.
FULL = Version(1, "full", {10: 0, 11: 0, 12: 0, 13: 1}, frozenset({0, 1}))
PACED = Requested(
    Version(2, "paced", dict.fromkeys(FULL.owners, 2), frozenset({0, 1, 2})),
    Pacing(2, Order.HOTTEST_FIRST),
    {10: 1.0, 11: 2.0, 12: 4.0, 13: 3.0},
)
FULL_JOB = Coordinator(Running(FULL), 5, {"p": 0}, recoverable=False)
FIRST_ROUND = [Reported(2, Installed(2, 12), 5), Reported(2, Installed(2, 13), 5)]


def test_the_next_round_begins_at_its_givers_when_all_of_the_last_is_there() -> None:
    _, effects = after(PACED, job=FULL_JOB)
    numbers = {12: 0, 13: 0, 11: 1, 10: 1}
    assert effects[1:] == [Tell(unit, Intent(1, "full", PACED.next, numbers)) for unit in (0, 1, 2)]
    assert after(PACED, FIRST_ROUND[0], job=FULL_JOB)[1] == []
    job, effects = after(PACED, *FIRST_ROUND, job=FULL_JOB)
    assert effects == [Tell(0, Round(2, 1))]
    assert isinstance(job.phase, Rescaling)


def test_nobody_reports_a_key_twice_or_acknowledges_before_the_last_round() -> None:
    for report in (FIRST_ROUND[0], Reported(1, Acknowledged(2), 5)):
        with pytest.raises(IllegalEvent, match="Moving has no rule"):
            after(PACED, FIRST_ROUND[0], report, job=FULL_JOB)


def test_a_rescale_that_is_late_between_rounds_restarts_under_its_version() -> None:
    for event in (UnitLost(1), DeadlinePassed(2)):
        job, effects = after(PACED, FIRST_ROUND[0], event, job=FULL_JOB)
        assert [type(effect) for effect in effects] == [Restart]
        assert job.phase == Restarting(PACED.next)


def test_it_runs_again_when_the_removed_units_have_left() -> None:
    job, _ = after(REQUESTED, *ACKNOWLEDGED)
    assert after(Requested(TWO), job=job)[1] == [Defer(REQUESTED)]
    job, _ = after(Reported(1, Left(), 5), job=job)
    assert job.phase == Running(TWO)


def test_a_removed_unit_that_never_leaves_is_late_too() -> None:
    job, effects = after(REQUESTED, *ACKNOWLEDGED, DeadlinePassed(2))
    assert effects == [Restart(0, None)]
    assert job.phase == Restarting(TWO)
    assert after(DeadlinePassed(1), job=after(REQUESTED, *ACKNOWLEDGED)[0])[1] == []


def test_a_job_that_stores_snapshots_takes_one_after_a_rescale() -> None:
    job, effects = after(
        REQUESTED, *ACKNOWLEDGED, Reported(1, Left(), 5), job=Coordinator(Running(ONE), 5, {"p": 0})
    )
    assert effects == [Tell(unit, Barrier(1)) for unit in (0, 2)]
    job, effects = after(Reported(0, Drained(1), 5), Reported(2, Drained(1), 5), job=job)
    assert effects == [Seal(1), Tell(0, Resume()), Tell(2, Resume())]
    assert (job.phase, job.epoch) == (Running(TWO), 1)


@pytest.mark.parametrize("busy", [REQUESTED, SnapshotDue()])
@pytest.mark.parametrize("asked", [REQUESTED, SnapshotDue()])
def test_nothing_begins_while_another_thing_is_under_way(
    busy: Requested[int] | SnapshotDue, asked: Requested[int] | SnapshotDue
) -> None:
    job, effects = after(busy, asked)
    assert isinstance(job.phase, Rescaling | Snapshotting)
    assert effects == [Defer(asked)]


@pytest.mark.parametrize("busy", [[], [REQUESTED], [SnapshotDue()], [REQUESTED, *ACKNOWLEDGED]])
def test_a_lost_unit_restarts_the_job_whatever_it_does(busy: list[JobEvent[int]]) -> None:
    job, effects = after(*busy, UnitLost(1))
    assert effects == [Restart(0, 1)]
    three = Version(3, "three", {0: 0, 1: 0}, frozenset({0}))
    job, effects = after(UnitLost(0), Restarted(6, three, {"p": 0, "q": 0}), job=job)
    assert effects == [Tell(0, OpenSource("p")), Tell(0, OpenSource("q"))]
    assert (job.phase, job.execution) == (Running(three), 6)


def test_only_the_deadline_of_the_rescale_under_way_counts() -> None:
    assert after(REQUESTED, DeadlinePassed(1))[1] == []
    assert after(DeadlinePassed(2))[1] == []
    assert after(REQUESTED, DeadlinePassed(2))[1] == [Restart(0, None)]


def test_an_execution_number_is_never_used_twice() -> None:
    with pytest.raises(IllegalEvent, match="Restarting"):
        after(UnitLost(1), Restarted(5, ONE, {}))


def test_a_source_that_is_asked_to_move_twice_is_released_once() -> None:
    job, effects = after(MoveSource("p", 1))
    assert effects == [Tell(0, ReleaseSource("p"))]
    job, effects = after(MoveSource("p", 0), job=job)
    assert (effects, job.moving) == ([], {"p": 0})


def test_the_end_of_a_unit_that_has_left_is_no_loss() -> None:
    job, _ = after(REQUESTED, *ACKNOWLEDGED, UnitLost(3))
    assert isinstance(job.phase, Emptying)
    assert after(UnitLost(1), job=job)[1] == [Restart(0, 1)]
    assert after(Reported(1, Left(), 5), UnitLost(1), job=job)[1] == []


def test_a_report_of_an_older_execution_says_nothing() -> None:
    job, _ = after(MoveSource("p", 1), REQUESTED, UnitLost(0))
    late = [Reported(0, Released("p"), 5), Reported(0, Acknowledged(2), 5), Reported(1, Left(), 5)]
    assert [after(report, job=job) for report in late] == [(job, [])] * 3
    job, _ = after(Restarted(6, ONE, {"p": 1, "q": 1}), job=job)
    assert [after(report, job=job) for report in late] == [(job, [])] * 3


@pytest.mark.parametrize(
    "report",
    [
        Reported(3, Acknowledged(2), 5),
        Reported(0, Acknowledged(1), 5),
        Reported(0, Acknowledged(2), 6),
        Reported(0, Released("p"), 5),
    ],
)
def test_a_report_that_nobody_waits_for_is_an_error(report: Reported[int]) -> None:
    with pytest.raises(IllegalEvent, match="Rescaling has no rule"):
        after(REQUESTED, report)


def test_a_source_that_is_not_of_the_job_cannot_move() -> None:
    with pytest.raises(IllegalEvent, match="MoveSource"):
        after(MoveSource("r", 0))


@pytest.mark.parametrize(
    ("following", "reason"),
    [
        (replace(TWO, number=1), "it is no newer"),
        (replace(TWO, number=3), "there is one between"),
        (replace(TWO, owners={0: 0}), "it has other keys"),
        (replace(TWO, owners={0: 0, 1: 2, 2: 2}), "it has other keys"),
        (replace(TWO, units=frozenset({0})), r"units \[2\] own keys, and are not of it"),
    ],
)
def test_only_what_can_follow_is_begun(following: Version[int], reason: str) -> None:
    with pytest.raises(NotFollowing, match=reason):
        after(Requested(following))


def test_after_an_abort_the_units_are_renumbered_and_the_next_rescale_goes_from_there() -> None:
    same = replace(ONE, number=3, digest="three")
    job, effects = after(Requested(same))
    assert effects == [Tell(unit, Intent(1, "one", same)) for unit in (0, 1)]
    four = replace(TWO, number=4)
    assert after(Requested(four), job=job)[1] == [Defer(Requested(four))]
    acknowledged = [Reported(unit, Acknowledged(3), 5) for unit in (0, 1)]
    job, effects = after(*acknowledged, job=job)
    assert effects == [Tell(0, Complete(3)), Tell(1, Complete(3)), Settle(3)]
    _, effects = after(Requested(four), job=job)
    assert effects[1:] == [Tell(unit, Intent(3, "three", four)) for unit in (0, 1, 2)]
