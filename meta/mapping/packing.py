"""Holes, adjacent vnodes that wait for an owner, are filled so that there are few runs."""

from bisect import bisect_left, insort
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from meta.mapping.stretches import OUTSIDE, WAITING, Ids, members, stretches

_Taker = tuple[int, int]  # what it wants, and its negative slot, so that the last of equals is the least

# From how many holes of one length on a taker has all it can take, as it is no matter then who takes which.
_HOLES_MANY = 16


def fill(cells: Ids, region: Ids, wanted: Ids, regions: Ids) -> None:
    """Give waiting vnodes to the takers of their region until one of both is used up; `cells` and `wanted` change.

    `cells` holds the slot of each vnode's owner, `region` that of each vnode or WAITING, `regions` that of each
    slot; `wanted` is how many vnodes each slot still gets, and 0 for WAITING and OUTSIDE. From neighbours first,
    since that adds no run; then holes and wants that are equal; then the largest want takes the smallest hole that
    holds it, or the largest hole there is; at last single vnodes.
    """
    firsts, lengths = stretches(region)
    inside = region[firsts] != WAITING
    if not inside.any():
        return
    holes = _beside(cells, firsts[inside], lengths[inside], region, wanted, regions)
    holes = _fill_whole(cells, holes, wanted)
    firsts, lengths = _fill_edges(cells, holes, wanted)
    if not len(firsts):
        return
    order = np.lexsort((firsts, lengths, region[firsts]))
    firsts, lengths = _fill_equal(cells, firsts[order], lengths[order], region, wanted, regions)
    _pack_regions(cells, firsts, lengths, region, wanted, regions)
    _fill_singly(cells, region, wanted, regions)


@dataclass(slots=True)
class _Gifts:
    """Which stretches get which owner."""

    firsts: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)

    def add(self, owner: int, first: int, length: int) -> None:
        self.firsts.append(first)
        self.lengths.append(length)
        self.owners.append(owner)

    def make(self, cells: Ids, wanted: Ids) -> None:
        lengths = np.array(self.lengths, dtype=np.int64)
        owners = np.array(self.owners, dtype=np.int64)
        cells[members(np.array(self.firsts, dtype=np.int64), lengths)] = np.repeat(owners, lengths)
        np.subtract.at(wanted, owners, lengths)


@dataclass(slots=True)
class _Holes:
    """As columns; `before` and `after` are the takers beside a hole, or WAITING."""

    firsts: Ids
    lengths: Ids
    before: Ids
    after: Ids

    def __getitem__(self, rows: npt.NDArray[np.generic]) -> "_Holes":
        return _Holes(self.firsts[rows], self.lengths[rows], self.before[rows], self.after[rows])


def _beside(cells: Ids, firsts: Ids, lengths: Ids, region: Ids, wanted: Ids, regions: Ids) -> _Holes:
    # A neighbour that takes nothing, or not from this region, counts as nobody.
    takes = np.where(wanted > 0, np.append(regions, (WAITING, WAITING)), WAITING)
    owners = np.append(cells, OUTSIDE)
    before, after, here = owners[firsts - 1], owners[firsts + lengths], region[firsts]
    return _Holes(
        firsts,
        lengths,
        np.where(takes[before] == here, before, WAITING),
        np.where(takes[after] == here, after, WAITING),
    )


def _fill_whole(cells: Ids, holes: _Holes, wanted: Ids) -> _Holes:
    """Close each hole that one neighbour can close, first those between two runs of one taker."""
    holes = holes[np.lexsort((holes.firsts, holes.lengths, holes.before != holes.after))]
    beside = np.flatnonzero((holes.before != WAITING) | (holes.after != WAITING))
    some = holes[beside]
    left = wanted.tolist()
    closing = []
    for length, before, after in zip(
        some.lengths.tolist(), some.before.tolist(), some.after.tolist(), strict=True
    ):
        most, other = left[before], left[after]
        if most >= length and not length <= other < most:
            owner = before
        elif other >= length:
            owner = after
        else:
            closing.append(WAITING)
            continue
        left[owner] -= length
        closing.append(owner)
    wanted[:] = left
    owners = np.full(len(holes.firsts), WAITING)
    owners[beside] = closing
    closed = owners != WAITING
    lengths = holes.lengths[closed]
    cells[members(holes.firsts[closed], lengths)] = np.repeat(owners[closed], lengths)
    return holes[~closed]


def _fill_edges(cells: Ids, holes: _Holes, wanted: Ids) -> tuple[Ids, Ids]:
    """Let each neighbour put all it still wants into the hole beside it, the largest holes first.

    Returns first vnodes and lengths of what is left.
    """
    beside = wanted[holes.before] + wanted[holes.after] > 0
    some, others = holes[beside], holes[~beside]
    some = some[np.lexsort((-some.firsts, -some.lengths))]
    columns = (some.firsts.tolist(), some.lengths.tolist(), some.before.tolist(), some.after.tolist())
    gifts = _Gifts()
    left = wanted.tolist()
    firsts, lengths = [], []
    for first, length, before, after in zip(*columns, strict=True):
        count = min(left[before], length)
        if count:
            gifts.add(before, first, count)
            left[before] -= count
        rest = min(left[after], length - count)
        if rest:
            gifts.add(after, first + length - rest, rest)
            left[after] -= rest
        if count + rest < length:
            firsts.append(first + count)
            lengths.append(length - count - rest)
    gifts.make(cells, wanted)
    return (
        np.concatenate((others.firsts, np.array(firsts, dtype=np.int64))),
        np.concatenate((others.lengths, np.array(lengths, dtype=np.int64))),
    )


def _pairs(keys: Ids, others: Ids) -> tuple[Ids, Ids]:
    """Which of `keys` meets which of `others`, both sorted: the first of a key the first, and so on."""
    rows = np.searchsorted(keys, others) + np.arange(len(others)) - np.searchsorted(others, others)
    met = np.flatnonzero(rows < len(keys))
    met = met[keys[rows[met]] == others[met]]
    return rows[met], met


def _fill_equal(
    cells: Ids, firsts: Ids, lengths: Ids, region: Ids, wanted: Ids, regions: Ids
) -> tuple[Ids, Ids]:
    """The holes are in order of their regions, then lengths, and so are those that are left."""
    scale = len(cells) + 1
    takers = np.flatnonzero(wanted)
    wants = regions[takers] * scale + wanted[takers]
    order = np.argsort(wants, kind="stable")
    met, pleased = _pairs(region[firsts] * scale + lengths, wants[order])
    owners = takers[order[pleased]]
    cells[members(firsts[met], lengths[met])] = np.repeat(owners, lengths[met])
    wanted[owners] = 0
    return np.delete(firsts, met), np.delete(lengths, met)


def _fill_singly(cells: Ids, region: Ids, wanted: Ids, regions: Ids) -> None:
    """Each vnode will be a run; those of the shortest holes come first."""
    if not wanted.any():
        return
    places = np.where(cells == WAITING, region, WAITING)
    firsts, lengths = stretches(places)
    inside = np.flatnonzero(places[firsts] != WAITING)
    order = inside[np.lexsort((-firsts[inside], lengths[inside], places[firsts[inside]]))]
    vnodes = members(firsts[order], lengths[order])
    takers = np.flatnonzero(wanted)
    takers = takers[np.lexsort((wanted[takers], regions[takers]))]
    takers = np.repeat(takers, wanted[takers])
    met, pleased = _pairs(places[vnodes], regions[takers])
    cells[vnodes[met]] = takers[pleased]
    np.subtract.at(wanted, takers[pleased], 1)


def _pack_regions(cells: Ids, firsts: Ids, lengths: Ids, region: Ids, wanted: Ids, regions: Ids) -> None:
    """Fill the holes of more than one vnode; they are in order of their regions, then lengths."""
    takers_of = _takers_of(wanted, regions)
    firsts, lengths = firsts[lengths > 1], lengths[lengths > 1]
    if not takers_of or not len(firsts):
        return
    places = region[firsts]
    heads = np.flatnonzero((np.diff(places, prepend=WAITING) != 0) | (np.diff(lengths, prepend=0) != 0))
    ends = np.append(heads[1:], len(places))
    columns = (heads.tolist(), ends.tolist(), places[heads].tolist(), lengths[heads].tolist())
    listed = firsts.tolist()
    stocks: dict[int, _Stock] = {}
    for head, end, place, length in zip(*columns, strict=True):
        if place in takers_of:
            stocks.setdefault(place, _Stock()).add_all(length, listed[head:end][::-1])
    gifts = _Gifts()
    for place, holes in stocks.items():
        _pack(gifts, holes, takers_of[place])
    gifts.make(cells, wanted)


def _takers_of(wanted: Ids, regions: Ids) -> dict[int, list[_Taker]]:
    """Those of each region that want more than one vnode, sorted."""
    takers = np.flatnonzero(wanted > 1)
    if not len(takers):
        return {}
    takers = takers[np.lexsort((-takers, wanted[takers], regions[takers]))]
    listed = list(zip(wanted[takers].tolist(), (-takers).tolist(), strict=True))
    heads, sizes = stretches(regions[takers])
    columns = (regions[takers[heads]].tolist(), heads.tolist(), (heads + sizes).tolist())
    return {place: listed[head:end] for place, head, end in zip(*columns, strict=True)}


class _Stock:
    """The first vnodes of holes by length; there are few lengths, since their sum is bounded."""

    def __init__(self) -> None:
        self.lengths: list[int] = []
        self._of_length: dict[int, list[int]] = {}

    def add(self, length: int, first: int) -> None:
        if length in self._of_length:
            self._of_length[length].append(first)
        else:
            self.add_all(length, [first])

    def add_all(self, length: int, firsts: list[int]) -> None:
        insort(self.lengths, length)
        self._of_length[length] = firsts

    def take(self, at: int) -> int:
        length = self.lengths[at]
        first = self._of_length[length].pop()
        self._forget_if_empty(at, length)
        return first

    def take_longest(self, most: int) -> list[int]:
        """As many as a taker can close; one, where it is no matter who closes the others."""
        length = self.lengths[-1]
        firsts = self._of_length[length]
        count = min(len(firsts), most) if len(firsts) > _HOLES_MANY else 1
        taken = firsts[:count]
        del firsts[:count]
        self._forget_if_empty(-1, length)
        return taken

    def _forget_if_empty(self, at: int, length: int) -> None:
        if not self._of_length[length]:
            del self._of_length[length], self.lengths[at]


def _pack(gifts: _Gifts, holes: _Stock, takers: list[_Taker]) -> None:
    """Fill holes that have no taker beside them, until only single vnodes are left or wanted."""
    while holes.lengths and takers and takers[-1][0] > 1:
        at = bisect_left(holes.lengths, takers[-1][0])
        if at < len(holes.lengths):
            length, first = holes.lengths[at], holes.take(at)
            # What is left of it is the smallest that holds the next want, too, unless a smaller hole does.
            smaller = holes.lengths[at - 1] if at else 1
            while takers and smaller < takers[-1][0] <= length:
                want, slot = takers.pop()
                gifts.add(-slot, first, want)
                first += want
                length -= want
            if length > 1:
                holes.add(length, first)
        else:
            length = holes.lengths[-1]
            want, slot = takers.pop()
            firsts = holes.take_longest(want // length)
            gifts.firsts += firsts
            gifts.lengths += [length] * len(firsts)
            gifts.owners += [-slot] * len(firsts)
            if want > length * len(firsts):
                insort(takers, (want - length * len(firsts), slot))
