from collections.abc import Sequence
from io import StringIO

from rich.console import Console

from meta.vnodectl.strip import CELLS_MAX, strip


def shown(owners: Sequence[int | None], previous: Sequence[int | None] | None = None) -> list[str]:
    console = Console(width=80, file=StringIO(), record=True)
    console.print(strip(owners, previous))
    return [line.rstrip() for line in console.export_text().splitlines()]


def test_an_owner_has_the_letter_of_its_id_wherever_it_is_shown_and_nobody_is_a_dot() -> None:
    assert shown([9, 9, 4, None]) == ["     0 iid.", "d unit 4: 1   i unit 9: 2"]
    assert shown([9, 27, 26])[0] == "     0 iaz"


def test_what_moved_is_a_capital_also_where_its_unit_is_new_or_the_old_one_gone() -> None:
    assert shown([1, 1, 3], [1, 2, None])[0] == "     0 aAC"


def test_rows_of_64_cells_begin_with_their_first_vnode() -> None:
    assert shown([1] * 130)[:3] == ["     0 " + "a" * 64, "    64 " + "a" * 64, "   128 aa"]


def test_more_vnodes_than_cells_are_drawn_by_samples_and_said_so() -> None:
    rows = shown([0] * (CELLS_MAX * 3))
    assert len(rows) == CELLS_MAX // 64 + 1
    assert rows[1].startswith("   192 ")
    assert "one cell is 3 vnodes" in rows[-1]


def test_one_vnode_that_moved_among_many_is_seen() -> None:
    previous = [1] * 65_536
    owners = previous.copy()
    owners[40_001] = 2
    rows = shown(owners, previous)
    assert "".join(row.split()[1] for row in rows[:32]).replace("a", "") == "B"
    assert "a CAPITAL one where any moved" in rows[-1]


def test_the_most_vnodes_on_the_most_units_fit_on_a_screen() -> None:
    owners = [vnode // 16 + 1 for vnode in range(65_536)]
    rows = shown(owners, [1] * 65_536)
    assert len(rows) < 50
    assert "and 4072 units more" in " ".join(rows)


def test_a_vnode_count_that_grew_or_shrank_moves_nothing_by_itself() -> None:
    assert shown([1, 1, 2, 2], [1, 2])[0] == "     0 aabb"
    assert shown([1, 2], [1, 1, 2, 2])[0] == "     0 ab"
    assert shown([1, 3, 2, 2], [1, 2])[0] == "     0 aCbb"
