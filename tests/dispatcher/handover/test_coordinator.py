"""One thing at a time, and a restart from whatever goes wrong."""

from typing import Any

import pytest

from dispatcher.handover.coordinator import advance
from dispatcher.handover.effect import Acknowledged, Drained, Left
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Barrier, Complete, Intent, OpenSource, ReleaseSource, Resume
from dispatcher.handover.job import (
    Coordinator,
    DeadlinePassed,
    Defer,
    JobEvent,
    MoveSource,
    Reported,
    Requested,
    Rescaling,
    Restart,
    Restarted,
    Running,
    Seal,
    Settle,
    SnapshotDue,
    Snapshotting,
    Start,
    Tell,
    UnitLost,
)
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


ACKNOWLEDGED = [Reported(unit, Acknowledged(2)) for unit in (0, 1, 2)]


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


def test_it_runs_again_when_the_removed_units_have_left() -> None:
    job, _ = after(REQUESTED, *ACKNOWLEDGED)
    assert after(Requested(TWO), job=job)[1] == [Defer(REQUESTED)]
    job, _ = after(Reported(1, Left()), job=job)
    assert job.phase == Running(TWO)


def test_a_job_that_stores_snapshots_takes_one_after_a_rescale() -> None:
    job, effects = after(
        REQUESTED, *ACKNOWLEDGED, Reported(1, Left()), job=Coordinator(Running(ONE), 5, {"p": 0})
    )
    assert effects == [Tell(unit, Barrier(1)) for unit in (0, 2)]
    job, effects = after(Reported(0, Drained(1)), Reported(2, Drained(1)), job=job)
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
