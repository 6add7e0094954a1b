"""Which vnodes move, and where to: the part of the planner that keeps runs few.

The fewest runs for given quotas is NP-hard (it embeds bin packing), so this is a greedy on holes, a hole
being adjacent vnodes that wait for an owner. `cells` is the mapping in the making, None where it waits.
Everything is ordered by length, position or id, so the same input gives the same mapping.
"""

from bisect import bisect_left, insort
from collections.abc import Container, Iterable, Iterator, Mapping
from itertools import groupby

Cells = list[int | None]
Stretch = tuple[int, int]  # of adjacent vnodes: length and first vnode, so that stretches sort by length


def release(cells: Cells, surplus: Mapping[int, int], wanted: Mapping[int, int]) -> None:
    """Take `surplus[unit]` vnodes off each giver: whole short runs first, then the end of one run.

    `wanted` says what each taker lacks: an end beside a taker is better than one beside a bystander.
    """
    kept_of: dict[int, list[Stretch]] = {}
    excess: dict[int, int] = {}
    for unit, runs in _runs_of(cells, surplus).items():
        count = surplus[unit]
        whole = 0
        while whole < len(runs) and runs[whole][0] <= count:
            length, first = runs[whole]
            cells[first : first + length] = [None] * length
            count -= length
            whole += 1
        if count:
            kept_of[unit], excess[unit] = runs[whole:], count
    for unit, kept in kept_of.items():
        count = excess.pop(unit)
        start = min(_ends(cells, kept, count, wanted, excess))[2]
        cells[start : start + count] = [None] * count


def _ends(
    cells: Cells, runs: Iterable[Stretch], count: int, wanted: Container[int], excess: Container[int]
) -> Iterator[tuple[int, int, int]]:
    """Where `count` vnodes can be cut off: rank (less is better), length of the run, first vnode.

    Best is beside a hole, then beside a taker, then beside a giver that has yet to make a hole there.
    """

    def rank(neighbour: int) -> int:
        if not 0 <= neighbour < len(cells):
            return 3
        owner = cells[neighbour]
        if owner is None:
            return 0
        return 1 if owner in wanted else 2 if owner in excess else 3

    for length, first in runs:
        yield rank(first - 1), length, first
        yield rank(first + length), length, first + length - count


def fill(cells: Cells, waiting: Iterable[int], wanted: dict[int, int]) -> None:
    """Give the `waiting` vnodes to the takers until one of both is used up; `wanted` shrinks.

    From neighbours first, since that adds no run; then holes and wants that are equal; then the largest
    want takes the smallest hole that holds it, or the largest hole there is.
    """
    holes = _holes(waiting)
    holes = _fill_whole(cells, holes, wanted)
    holes = _fill_from_edges(cells, holes, wanted)
    _pack(cells, holes, wanted)


def _holes(waiting: Iterable[int]) -> list[Stretch]:
    holes = []
    for _, group in groupby(enumerate(sorted(waiting)), key=lambda pair: pair[1] - pair[0]):
        vnodes = [vnode for _, vnode in group]
        holes.append((len(vnodes), vnodes[0]))
    return sorted(holes)


def _neighbours(cells: Cells, hole: Stretch) -> tuple[int | None, int | None]:
    length, first = hole
    last = first + length - 1
    before = cells[first - 1] if first else None
    after = cells[last + 1] if last + 1 < len(cells) else None
    return before, after


def _give(cells: Cells, first: int, count: int, unit: int, wanted: dict[int, int]) -> None:
    cells[first : first + count] = [unit] * count
    wanted[unit] -= count
    if not wanted[unit]:
        del wanted[unit]


def _fill_whole(cells: Cells, holes: list[Stretch], wanted: dict[int, int]) -> list[Stretch]:
    """Close each hole that one neighbour can close; those between two runs of one taker first."""

    def between_same(hole: Stretch) -> bool:
        before, after = _neighbours(cells, hole)
        return before is not None and before == after

    rest = []
    for hole in sorted(holes, key=lambda hole: (not between_same(hole), hole)):
        length, first = hole
        able = [u for u in _neighbours(cells, hole) if u is not None and wanted.get(u, 0) >= length]
        if able:
            _give(cells, first, length, min(able, key=lambda u: (wanted[u], u)), wanted)
        else:
            rest.append(hole)
    return rest


def _fill_from_edges(cells: Cells, holes: list[Stretch], wanted: dict[int, int]) -> list[Stretch]:
    """Let each neighbour put all it still wants into the hole beside it, the largest holes first."""
    rest = []
    for hole in sorted(holes, reverse=True):
        length, first = hole
        before, after = _neighbours(cells, hole)
        if before in wanted and length:
            count = min(wanted[before], length)
            _give(cells, first, count, before, wanted)
            length, first = length - count, first + count
        if after in wanted and length:
            count = min(wanted[after], length)
            _give(cells, first + length - count, count, after, wanted)
            length -= count
        if length:
            rest.append((length, first))
    return sorted(rest)


def _pack(cells: Cells, holes: list[Stretch], wanted: dict[int, int]) -> None:
    """Fill holes that have no taker beside them."""
    takers = []
    for unit, want in sorted(wanted.items(), key=lambda item: (-item[1], item[0])):
        at = bisect_left(holes, (want, 0))
        if at < len(holes) and holes[at][0] == want:
            _give(cells, holes.pop(at)[1], want, unit, wanted)
        else:
            takers.append((want, -unit))
    takers.reverse()
    while takers and holes:
        want, negative_unit = takers.pop()
        at = bisect_left(holes, (want, 0))
        length, first = holes.pop(min(at, len(holes) - 1))
        count = min(want, length)
        _give(cells, first, count, -negative_unit, wanted)
        if length > count:
            insort(holes, (length - count, first + count))
        if want > count:
            insort(takers, (want - count, negative_unit))


def _runs_of(cells: Cells, units: Container[int]) -> dict[int, list[Stretch]]:
    """The runs of each of `units`, short ones first; units in order of their first vnode."""
    runs_of: dict[int, list[Stretch]] = {}
    first = 0
    for owner, group in groupby(cells):
        length = sum(1 for _ in group)
        if owner is not None and owner in units:
            runs_of.setdefault(owner, []).append((length, first))
        first += length
    for runs in runs_of.values():
        runs.sort()
    return runs_of
