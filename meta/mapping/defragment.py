"""Fewer runs for some more moves: units exchange vnodes, as many for as many, so that quotas stay.

A whole run of k vnodes goes to a unit beside it, which closes up there, and that unit gives k vnodes back: a
run of its own, or the end of one that lies beside the other unit. Each exchange saves runs, and the one that
saves most for a move comes first. A vnode that moves anyway goes elsewhere at no extra move.

A scattered mapping has far more exchanges than will be made. So a run enters the market with a bound of what it
can save, and only when that bound is the best on offer are its exchanges judged.
"""

from bisect import bisect_left, bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from heapq import heappop, heappush

from meta.mapping.stretches import OUTSIDE, Ids

# How many bounds are kept for each move that may be made, of those that cost any: the best. An exchange
# makes few of the others void, and a market is opened anew while one made something and moves are left.
_BOUNDS_PER_MOVE = 64
_BOUNDS_MIN = 1024

# Of how many stretches of a kind a unit looks at the exchange for a run.
_OFFERS_MAX = 8


@dataclass(frozen=True, slots=True, order=True)
class Exchange:
    """`length` vnodes from `first` on, all of one owner, change owners with those from `other` on."""

    first: int
    other: int
    length: int


# The better is the smaller: the price in moves for each run saved, then runs saved, negative, then moves.
_Figures = tuple[float, int, int]

# Figures; first, other and length of an exchange; and whether it is only a bound of all exchanges between the run
# at `first` and the owner at `other`. A flat tuple, for a heap compares much.
_Entry = tuple[float, int, int, int, int, int, bool]


def exchanges(
    before: Ids | None, goal: Ids, moves_max: int, *, size_max: int | None = None
) -> list[Exchange]:
    """The exchanges, in order, that lower the runs of `goal` for at most `moves_max` moves more in all.

    `before` and `goal` are slots; a vnode is moved where they differ, and it costs nothing to place one that nobody
    or a gone unit had. Without `before` each exchange counts in full. None costs more than `size_max`.
    """
    cells = goal.tolist()
    done: list[Exchange] = []
    while moves_max > 0:
        market = _Market(None if before is None else before.tolist(), cells, moves_max)
        made = len(done)
        while (best := market.best(moves_max if size_max is None else min(moves_max, size_max))) is not None:
            exchange, cost = best
            market.make(exchange)
            moves_max -= cost
            done.append(exchange)
        if len(done) == made:
            break
        cells = market.cells
    return done


def exchanged(goal: Ids, done: Iterable[Exchange]) -> Ids:
    """The mapping after these exchanges."""
    after = goal.copy()
    for exchange in done:
        here = slice(exchange.first, exchange.first + exchange.length)
        there = slice(exchange.other, exchange.other + exchange.length)
        after[here], after[there] = after[exchange.other], after[exchange.first]
    return after


def _best(bounds: list[_Entry], moves_max: int) -> list[_Entry]:
    """All that may be free, and the best others; sorted, hence a heap."""
    bounds.sort()
    most = max(_BOUNDS_MIN, _BOUNDS_PER_MOVE * moves_max)
    return bounds[:most] + [bound for bound in bounds[most:] if bound[2] <= 0]


class _Market:
    """`cells` are slots in the making.

    What is listed by owner, neighbour and length may be out of date: what counts is judged by the cells.
    """

    def __init__(self, before: list[int] | None, cells: list[int], moves_max: int) -> None:
        self._before = before
        self._cells = [*cells, OUTSIDE]  # which is before the first, too
        self._starts = [v for v in range(len(cells)) if self._cells[v - 1] != self._cells[v]]
        self._whole: defaultdict[tuple[int, int], list[int]] = defaultdict(list)
        self._beside: defaultdict[tuple[int, int, int], list[int]] = defaultdict(list)
        self._ends: defaultdict[tuple[int, int], list[tuple[int, int]]] = defaultdict(list)
        self._moved = set() if before is None else set(zip(before, cells, strict=True))
        self._takers = {owner for earlier, owner in self._moved if earlier != owner}
        runs = list(zip(self._starts, [*self._starts[1:], len(cells)], strict=True))
        for first, end in runs:
            self._list(first, end - first)
        if before is not None:
            for (owner, length), firsts in self._whole.items():
                # First what moves anyway.
                if owner in self._takers:
                    firsts.sort(key=lambda first: before[first : first + length].count(owner))
        self._heap = _best(
            [bound for first, end in runs for bound in self._bounds(first, end - first)], moves_max
        )

    @property
    def cells(self) -> list[int]:
        return self._cells[:-1]

    def best(self, cost_max: int) -> tuple[Exchange, int] | None:
        """The exchange that saves most runs for a move and costs at most `cost_max`, and its cost."""
        while self._heap:
            *figures, first, other, length, is_bound = heappop(self._heap)
            if figures[2] > cost_max:
                continue
            if is_bound:
                self._offer_all(first, self._cells[other], length)
                continue
            now = self._judged(first, other, length)
            if now is not None and now > tuple(figures):
                heappush(self._heap, (*now, first, other, length, False))
            elif now is not None and now[2] <= cost_max:
                return Exchange(first, other, length), now[2]
        return None

    def make(self, exchange: Exchange) -> None:
        first, other, length = exchange.first, exchange.other, exchange.length
        giver, taker = self._cells[first], self._cells[other]
        self._cells[first : first + length] = [taker] * length
        self._cells[other : other + length] = [giver] * length
        edges = {first, first + length, other, other + length}
        for edge in edges:
            self._mend_start(edge)
        runs = {self._run_of(vnode) for edge in edges for vnode in (edge - 1, edge) if self._is_inside(vnode)}
        for run in runs:
            self._list(*run)
        for run in sorted(runs):
            for bound in self._bounds(*run):
                heappush(self._heap, bound)

    def _is_inside(self, vnode: int) -> bool:
        return 0 <= vnode < len(self._cells) - 1

    def _mend_start(self, vnode: int) -> None:
        if not self._is_inside(vnode):
            return
        at = bisect_left(self._starts, vnode)
        listed = at < len(self._starts) and self._starts[at] == vnode
        starts = self._cells[vnode - 1] != self._cells[vnode]
        if listed and not starts:
            del self._starts[at]
        elif starts and not listed:
            insort(self._starts, vnode)

    def _run_of(self, vnode: int) -> tuple[int, int]:
        """First vnode and length."""
        at = bisect_right(self._starts, vnode)
        end = self._starts[at] if at < len(self._starts) else len(self._cells) - 1
        return self._starts[at - 1], end - self._starts[at - 1]

    def _neighbours(self, first: int, length: int) -> set[int]:
        return {self._cells[first - 1], self._cells[first + length]} - {OUTSIDE}

    def _list(self, first: int, length: int) -> None:
        owner = self._cells[first]
        self._whole[owner, length].append(first)
        for neighbour in self._neighbours(first, length):
            self._beside[owner, neighbour, length].append(first)
            self._ends[owner, neighbour].append((first, length))

    def _bounds(self, first: int, length: int) -> Iterator[_Entry]:
        """What giving this run to each neighbour saves at most for each move."""
        giver = self._cells[first]
        for taker in self._neighbours(first, length):
            beside = first - 1 if self._cells[first - 1] == taker else first + length
            saved = self._gain(first, giver, taker, length)
            others = len(self._beside.get((taker, giver, length), ()))
            # The run beside this one saves nothing more.
            if others > 1 or (others and self._run_of(beside)[1] != length):
                saved += 2
            cost = self._cost(first, giver, taker, length) + self._least_cost(taker, giver, length)
            yield max(cost, 0) / saved, -saved, cost, first, beside, length, True

    def _least_cost(self, giver: int, taker: int, length: int) -> int:
        """Of any `length` vnodes that `giver` has."""
        if self._before is None or giver not in self._takers:
            return length
        return -length if (taker, giver) in self._moved else 0

    def _offer_all(self, first: int, taker: int, length: int) -> None:
        giver = self._cells[first]
        if giver == taker or self._run_of(first) != (first, length):
            return
        others = [
            *self._beside.get((taker, giver, length), [])[-_OFFERS_MAX:],
            *self._whole.get((taker, length), [])[:_OFFERS_MAX],
        ]
        for start, whole in self._ends.get((taker, giver), [])[-_OFFERS_MAX:]:
            if whole > length:
                others += (start, start + whole - length)
        for other in dict.fromkeys(others):
            judged = self._judged(first, other, length)
            if judged is not None:
                heappush(self._heap, (*judged, first, other, length, False))

    def _judged(self, first: int, other: int, length: int) -> _Figures | None:
        """None where it saves nothing, or is none any more."""
        giver, taker = self._cells[first], self._cells[other]
        if giver == taker or abs(first - other) < length:
            return None
        if abs(first - other) == length:
            saved = self._gain_of_neighbours(min(first, other), length)
        else:
            saved = self._gain(first, giver, taker, length) + self._gain(other, taker, giver, length)
        if saved <= 0 or not (self._is_all(giver, first, length) and self._is_all(taker, other, length)):
            return None
        cost = self._cost(first, giver, taker, length) + self._cost(other, taker, giver, length)
        return max(cost, 0) / saved, -saved, cost

    def _gain(self, first: int, giver: int, taker: int, length: int) -> int:
        """How many runs fewer there are if `taker` has these vnodes."""
        left, right = self._cells[first - 1], self._cells[first + length]
        return (left == taker) + (right == taker) - (left == giver) - (right == giver)

    def _gain_of_neighbours(self, first: int, length: int) -> int:
        left, right = self._cells[first - 1], self._cells[first + 2 * length]
        one, two = self._cells[first], self._cells[first + length]
        return (left == two) + (right == one) - (left == one) - (right == two)

    def _cost(self, first: int, giver: int, taker: int, length: int) -> int:
        if self._before is None:
            return length
        earlier = self._before[first : first + length]
        return earlier.count(giver) - earlier.count(taker)

    def _is_all(self, owner: int, first: int, length: int) -> bool:
        return self._cells[first : first + length].count(owner) == length
