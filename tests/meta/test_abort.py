"""Before anybody accepted a rescale it can be taken back; afterwards another rescale goes back."""

from collections.abc import Callable

import pytest

from dispatcher.view import Source, View, taken
from meta.callers.access import ITSELF
from meta.errors import (
    AlreadyAccepted,
    AlreadyAppliedOtherwise,
    DigestConflict,
    NothingToRollBack,
    NotInFlight,
    RescaleNotFound,
    VersionNotCurrent,
)
from meta.lifecycle import Cause, Rescale, RescalePhase
from meta.mapping.publication import Phase
from meta.rescaling.goal import Goal, ToVnodeCount
from meta.rescaling.handover import Handover, Order, Pacing, Protocol, Rounds
from tests.meta.world import OPERATOR, World, at_once


def begun(world: World, *unit_ids: int) -> Rescale:
    """A rescale that an applier holds up."""
    world.hear("job", world.current[0])
    return world.apply(*unit_ids)


def abort(world: World, rescale: Rescale) -> Rescale:
    return world.rescales.abort(rescale.id, by=OPERATOR)


def phases(world: World, version: int) -> list[RescalePhase]:
    return [change.phase for change in world.history.version("flights", version).phases]


def test_an_aborted_rescale_goes_on_as_a_version_in_which_nothing_moved(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    world.now_ms += 500
    aborted = abort(world, rescale)
    assert world.current == world.published == (3, Phase.SETTLED)
    first, third = world.body(1), world.body(3)
    assert (third.mapping, third.units) == (first.mapping, first.units)
    assert third.previous is not None
    assert (third.previous.version, third.previous.mapping) == (1, first.mapping)
    assert (phases(world, 2), phases(world, 3)) == (["rescaling", "aborted"], ["settled"])
    assert (aborted.version, aborted.phase) == (3, RescalePhase.ABORTED)
    assert aborted.phases == {"rescaling": 1_000_000, "aborted": 1_000_500}
    version = world.history.version("flights", 3)
    assert (version.cause, version.plan, version.moves) == (Cause.ABORT, rescale.id, 0)


def test_who_aborted_is_in_the_audit_log(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    abort(world, rescale)
    (aborted, applied, *_) = world.audit()
    assert aborted == (
        "operator",
        "abort",
        "flights",
        {"rescale": rescale.id, "aborted_version": 2, "version": 3, "moves": 0},
    )
    moves = rescale.certificate.moves
    assert applied[3] == {"plan": rescale.id, "base_version": 1, "version": 2, "moves": moves}


def test_a_second_abort_has_the_same_answer_and_changes_nothing(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    aborted = world.rescales.abort_current("flights", by=OPERATOR)
    assert abort(world, rescale) == world.rescales.abort_current("flights", by=OPERATOR) == aborted
    assert [action for _, action, _, _ in world.audit()].count("abort") == 1
    # Also when the fragment has gone on.
    world.hear("job", 3)
    begun(world, 1, 2)
    assert abort(world, rescale) == aborted
    assert world.current == (4, Phase.RESCALING)


def test_a_reader_that_never_used_the_aborted_version_sees_no_vnode_move(world: World) -> None:
    view: View | None = None

    def read() -> View:
        with world.database.reading() as tx:
            fragment = tx.fragments.get("flights")
        assert fragment is not None
        return taken(view, world.body(fragment.current.version), fragment.current, Source.ETCD, 0)

    view = read()
    rescale = begun(world, 1, 2, 3, 4)
    view = read()
    assert view.usable is not None
    before = view.usable.mapping
    assert (view.newest.version, view.usable.version) == (2, 1)
    abort(world, rescale)
    view = read()
    assert view.usable is not None
    assert (view.usable.version, view.usable.mapping) == (3, before)
    assert view.unaccepted is None


def test_an_accepted_rescale_is_not_aborted(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    world.rescales.accept("flights", 2, by=ITSELF)
    with pytest.raises(AlreadyAccepted, match="vnodectl rollback flights") as refusal:
        abort(world, rescale)
    assert (refusal.value.version, refusal.value.phase) == (2, "accepted")
    with pytest.raises(AlreadyAccepted):
        world.rescales.abort_current("flights", by=OPERATOR)
    assert world.current == (2, Phase.ACCEPTED)


def test_a_settled_rescale_is_not_aborted(world: World) -> None:
    rescale = world.apply(1, 2)
    with pytest.raises(AlreadyAccepted, match="vnodectl rollback flights") as refusal:
        abort(world, rescale)
    assert refusal.value.phase == "settled"
    with pytest.raises(NotInFlight):
        world.rescales.abort_current("flights", by=OPERATOR)
    assert world.current == (2, Phase.SETTLED)


def test_what_was_never_applied_or_changed_nothing_is_not_aborted(world: World) -> None:
    with pytest.raises(NotInFlight):
        world.rescales.abort_current("flights", by=OPERATOR)
    unapplied = world.plan(1, 2).partition(".")[0]
    with pytest.raises(RescaleNotFound):
        world.rescales.abort(unapplied, by=OPERATOR)
    unchanged = world.apply(1, 2, 3)
    assert (unchanged.changed, unchanged.version, unchanged.phase) == (False, 1, "settled")
    with pytest.raises(NotInFlight):
        abort(world, unchanged)


def accept_or_abort(world: World, rescale: Rescale, version: int) -> tuple[bool, bool]:
    """Both at once; which of them was let."""

    def accept() -> bool:
        try:
            return world.rescales.accept("flights", version, by=ITSELF).phase is Phase.ACCEPTED
        except VersionNotCurrent:
            return False

    def take_back() -> bool:
        try:
            return abort(world, rescale).phase is RescalePhase.ABORTED
        except AlreadyAccepted:
            return False

    accepted, aborted = at_once(accept, take_back)
    return accepted, aborted


@pytest.mark.parametrize("rounds", [10, pytest.param(300, marks=pytest.mark.slow)])
def test_of_an_abort_and_an_acceptance_at_once_exactly_one_wins(world: World, rounds: int) -> None:
    version = 1
    for number in range(rounds):
        world.hear("job", version)
        rescale = world.apply(*(1, 2) if number % 2 else (1, 2, 3, 4))
        if not rescale.changed:
            continue
        accepted, aborted = accept_or_abort(world, rescale, rescale.version)
        assert accepted is not aborted
        # Accepted, version n+1 goes on; aborted, n+2 is there.
        version = rescale.version + aborted
        assert world.current == (version, Phase.SETTLED if aborted else Phase.ACCEPTED)
        world.hear("job", version)
        assert world.current == world.published == (version, Phase.SETTLED)


def test_many_aborts_at_once_make_one_version(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    assert {aborted.version for aborted in at_once(*[lambda: abort(world, rescale)] * 12)} == {3}
    assert world.current == (3, Phase.SETTLED)


def test_after_an_abort_the_next_rescale_starts_from_the_version_that_it_made(world: World) -> None:
    abort(world, begun(world, 1, 2, 3, 4))
    assert begun(world, 1, 2).base_version == 3
    world.hear("job", 4)
    assert world.current == world.published == (4, Phase.SETTLED)
    fourth = world.body(4)
    assert fourth.previous is not None
    assert fourth.previous.mapping == world.body(1).mapping


def test_an_abort_takes_back_another_vnode_count_too(world: World) -> None:
    world.hear("job", 1)
    goal = Goal(ToVnodeCount(512))
    planned = world.rescales.plan("flights", goal, by=OPERATOR)
    rescale = world.apply_token(planned.stored.token)
    assert (world.fragments.get("flights").vnode_count, world.current) == (512, (2, Phase.RESCALING))
    abort(world, rescale)
    assert world.fragments.get("flights").vnode_count == world.body(3).vnode_count == 256
    assert world.current == world.published == (3, Phase.SETTLED)


def test_a_database_of_another_history_does_not_go_on_by_an_abort_either(world: World) -> None:
    rescale = begun(world, 1, 2, 3, 4)
    world.announce(2, b"of another history")
    with pytest.raises(DigestConflict):
        abort(world, rescale)
    assert world.current == (2, Phase.RESCALING)


def test_a_rollback_goes_back_to_the_last_version_that_had_settled(world: World) -> None:
    world.apply(1, 2)
    abort(world, begun(world, 1, 2, 3, 4))
    world.hear("job", 4)
    begun(world, 1, 2, 3, 4)
    world.hear("job", 5)
    back = world.rescales.roll_back("flights", None, by=OPERATOR)
    assert (back.base_version, back.version, back.phase) == (5, 6, "rescaling")
    assert world.body(6).mapping == world.body(4).mapping == world.body(2).mapping
    assert world.history.version("flights", 6).cause is Cause.ROLLBACK
    world.hear("job", 6)
    assert world.rescales.roll_back("flights", 1, by=OPERATOR).version == 7
    assert world.body(7).mapping == world.body(1).mapping


def test_from_its_first_version_a_fragment_cannot_roll_back(world: World) -> None:
    with pytest.raises(NothingToRollBack):
        world.rescales.roll_back("flights", None, by=OPERATOR)


STOP = Handover(Protocol.STOP_START)
PAIRS = Handover(Protocol.ORDERED, Pacing(Rounds.MATCHING, order=Order.HOTTEST_LAST))
EIGHT = Handover(Protocol.ICADD, Pacing(Rounds.PARALLEL, parallel=8))


@pytest.mark.parametrize("handover", [None, STOP, PAIRS, EIGHT])
def test_a_token_is_bound_to_the_handover_that_it_was_applied_with(
    world: World, handover: Handover | None
) -> None:
    token = world.plan(1, 2)

    def apply(by: Handover | None) -> Callable[[], Rescale]:
        return lambda: world.rescales.apply(token, handover=by, by=OPERATOR)

    first = apply(handover)()
    assert first.handover == handover
    assert apply(handover)() == first == world.rescales.rescale(first.id)
    for other in {None, STOP, PAIRS, EIGHT} - {handover}:
        with pytest.raises(AlreadyAppliedOtherwise):
            apply(other)()
    assert world.current == (2, Phase.SETTLED)
