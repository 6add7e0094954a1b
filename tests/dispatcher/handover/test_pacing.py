"""Rounds: as few as can be, whatever the order; hot keys early, or late."""

from collections import Counter
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.handover.errors import BadLoad, BadPacing
from dispatcher.handover.pacing import Move, Order, Pacing, rounds

LOADS = st.floats(0, 10, allow_subnormal=False)
UNITS = st.integers(0, 5)
MOVES = st.lists(st.tuples(UNITS, UNITS, LOADS), max_size=60).map(
    lambda drawn: [Move(key, giver, receiver, load) for key, (giver, receiver, load) in enumerate(drawn)]
)
PARALLEL = st.integers(1, 5)
ORDER = st.sampled_from([None, *Order])
CPU_S_MAX = 15


def busiest(moves: list[Move[int]]) -> int:
    given, received = Counter(move.giver for move in moves), Counter(move.receiver for move in moves)
    return max([0, *given.values(), *received.values()])


@given(MOVES, PARALLEL, ORDER)
def test_each_key_moves_once_within_the_limits_in_the_fewest_rounds(
    moves: list[Move[int]], parallel: int, order: Order | None
) -> None:
    planned = rounds(moves, Pacing(parallel, order))
    assert sorted(key for keys in planned for key in keys) == list(range(len(moves)))
    assert all(busiest([moves[key] for key in keys]) <= parallel for keys in planned)
    assert len(planned) == -(-busiest(moves) // parallel)


@given(MOVES, PARALLEL)
def test_no_key_is_hotter_than_the_hottest_of_the_round_before(moves: list[Move[int]], parallel: int) -> None:
    planned = rounds(moves, Pacing(parallel, Order.HOTTEST_FIRST))
    hottest = [max(moves[key].load for key in keys) for keys in planned]
    assert hottest == sorted(hottest, reverse=True)
    assert rounds(moves, Pacing(parallel, Order.HOTTEST_LAST)) == planned[::-1]


@given(st.lists(st.tuples(UNITS, LOADS), min_size=1, max_size=40), PARALLEL)
def test_of_one_giver_or_one_receiver_keys_go_strictly_by_load(
    drawn: list[tuple[int, float]], parallel: int
) -> None:
    for moves in (
        [Move(key, 9, unit, load) for key, (unit, load) in enumerate(drawn)],
        [Move(key, unit, 9, load) for key, (unit, load) in enumerate(drawn)],
    ):
        by_load = sorted(range(len(moves)), key=lambda key: -drawn[key][1])
        expected = [set(by_load[at : at + parallel]) for at in range(0, len(moves), parallel)]
        assert [set(keys) for keys in rounds(moves, Pacing(parallel, Order.HOTTEST_FIRST))] == expected


def test_all_is_one_round_and_nothing_is_none() -> None:
    moves = [Move(key, 0, 1) for key in range(9)]
    assert rounds(moves, Pacing()) == (tuple(range(9)),)
    assert rounds([], Pacing()) == rounds([], Pacing(3)) == ()


@pytest.mark.parametrize("parallel", [0, -1])
def test_less_than_one_at_a_time_is_refused(parallel: int) -> None:
    with pytest.raises(BadPacing, match="at least 1 key at a time, or all"):
        Pacing(parallel)


@pytest.mark.slow
@pytest.mark.parametrize(("givers", "receivers"), [(1, 1), (2, 2), (4096, 4096)])
def test_65536_vnodes_take_seconds(givers: int, receivers: int) -> None:
    # Each unit gives as many as it receives, to many others: the rounds are full, and the paths long.
    moves = [
        Move(key, key % givers, givers + key * 7919 // givers % receivers, float(key * 31 % 997))
        for key in range(1 << 16)
    ]
    began_s = process_time()
    planned = rounds(moves, Pacing(1, Order.HOTTEST_FIRST))
    assert len(planned) == busiest(moves)
    assert process_time() - began_s < CPU_S_MAX


def test_a_load_that_is_no_number_is_an_error() -> None:
    with pytest.raises(BadLoad, match="the load of 7 is no number"):
        Move(7, 0, 1, float("nan"))
