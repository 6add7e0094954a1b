import numpy as np
import pytest

from meta.mapping.moves import Move, Moves


def moves(word: str = "because") -> Moves:
    def reason(vnode: int, source: int, target: int) -> str:
        return f"{word} {vnode} {target}"

    return Moves([1, 4, 9], [7, 7, 2**63 - 1], [3, 5, 3], reason)


def test_moves_are_read_like_a_tuple_of_moves() -> None:
    assert list(moves()) == [
        Move(1, 7, 3, "because 1 3"),
        Move(4, 7, 5, "because 4 5"),
        Move(9, 2**63 - 1, 3, "because 9 3"),
    ]
    assert moves()[-1] == Move(9, 2**63 - 1, 3, "because 9 3")
    assert list(moves()[1:]) == list(moves())[1:]
    assert list(moves()[::2]) == list(moves())[::2]
    assert list(moves()[::-1]) == list(moves())[::-1] == list(reversed(moves()))
    assert list(moves()[1::-2]) == list(moves())[1::-2]
    assert len(moves()) == 3
    assert Move(4, 7, 5, "because 4 5") in moves()
    with pytest.raises(IndexError):
        moves()[3]


def test_moves_are_equal_where_each_move_is() -> None:
    assert moves() == moves()
    assert hash(moves()) == hash(moves())
    assert moves() != moves("so")
    assert moves() != moves()[1:]
    assert len(moves()[:0]) == 0
    assert moves()[:0] == moves("so")[:0]
    assert moves() != tuple(moves())


def test_a_reason_is_made_when_a_move_is_read_and_not_before() -> None:
    asked = []

    def reason(vnode: int, source: int, target: int) -> str:
        asked.append(vnode)
        return ""

    some = Moves([1, 2], [0, 0], [3, 3], reason)
    assert (len(some), some.targets.tolist(), asked) == (2, [3, 3], [])
    assert some[1].vnode == 2
    assert asked == [2]


def test_columns_are_copies_that_cannot_be_written() -> None:
    vnodes = np.array([1, 2])
    some = Moves(vnodes, [0, 0], [3, 3], "{} {} {}".format)
    vnodes[0] = 9
    assert some[0].vnode == 1
    with pytest.raises(ValueError, match="read-only"):
        some.vnodes[0] = 9
