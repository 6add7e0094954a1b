"""Which vnodes move, and where to: the part of the planner that keeps runs few.

The fewest runs for given quotas is NP-hard (it embeds bin packing), so this is a greedy: `lay_out` makes holes,
a hole being adjacent vnodes that wait for an owner, and `packing` fills them. Everything is ordered by length,
position or id, so the same input gives the same mapping. Owners are slots, the ranks of units by id; what is done
once for each run or hole of a large mapping is done in numpy, the choices that hang on one another in plain loops.
"""

import numpy as np

from meta.mapping.packing import fill
from meta.mapping.stretches import OUTSIDE, WAITING, Ids, members, stretches

# How many of a giver's runs are looked at for the best end to cut: the shortest ones.
_CUTS_MAX = 64


def lay_out(before: Ids, have: Ids, quota: Ids, workers: Ids) -> Ids:
    """The slot of each vnode's next owner.

    `before` holds slots, WAITING where the owner is gone or nobody; `have` and `quota` count vnodes and `workers`
    numbers the worker of each slot. No more move than must, and no more leave their worker than must.
    """
    wanted = np.append(np.maximum(0, quota - have), (0, 0))
    cells = _released(before, np.maximum(0, have - quota), wanted)
    worker_count = int(workers.max()) + 1
    if worker_count < len(workers):
        # First the vnodes that can stay on their worker.
        able = np.zeros(worker_count + 1, dtype=bool)
        able[workers[np.flatnonzero(wanted)]] = True
        local = np.where((cells == WAITING) & (before != WAITING), workers[before], WAITING)
        fill(cells, np.where(able[local], local, WAITING), wanted, workers)
    fill(cells, np.where(cells == WAITING, 0, WAITING), wanted, np.zeros_like(workers))
    return cells


def _released(before: Ids, surplus: Ids, wanted: Ids) -> Ids:
    """Take from each giver its surplus: whole short runs first, then the end of one run."""
    firsts, lengths = stretches(before)
    owners = before[firsts]
    giving = np.flatnonzero((owners != WAITING) & (surplus[owners] > 0))
    cells = before.copy()
    if not len(giving):
        return cells
    giving = giving[np.lexsort((lengths[giving], owners[giving]))]
    owners, firsts, lengths = owners[giving], firsts[giving], lengths[giving]
    taken = np.cumsum(lengths)
    heads, sizes = stretches(owners)
    taken -= np.repeat(taken[heads] - lengths[heads], sizes)
    whole = taken <= surplus[owners]

    cells[members(firsts[whole], lengths[whole])] = WAITING
    excess = surplus.copy()
    np.subtract.at(excess, owners[whole], lengths[whole])
    kept = ~whole & (excess[owners] > 0)
    if kept.any():
        starts, units = _cuts(cells, owners[kept], firsts[kept], lengths[kept], excess, wanted)
        cells[members(starts, excess[units])] = WAITING
    return cells


def _cuts(cells: Ids, owners: Ids, firsts: Ids, lengths: Ids, excess: Ids, wanted: Ids) -> tuple[Ids, Ids]:
    """Where to cut off `excess` vnodes of which giver, from one of its runs, the shortest of which come first.

    Best is an end beside a hole, then beside a taker, then beside a giver that has yet to make a hole there.
    """
    now = [*cells.tolist(), OUTSIDE]
    rank = np.where(wanted > 0, 1, 3)
    rank[owners] = 2
    rank[WAITING] = 0
    ranks: list[int] = rank.tolist()
    runs = list(zip(lengths.tolist(), firsts.tolist(), strict=True))
    heads, sizes = stretches(owners)
    order = np.argsort(np.minimum.reduceat(firsts, heads))
    heads, sizes, units = heads[order], sizes[order], owners[heads[order]]
    starts = []
    columns = (heads.tolist(), np.minimum(sizes, _CUTS_MAX).tolist(), units.tolist(), excess[units].tolist())
    for head, size, unit, count in zip(*columns, strict=True):
        ranks[unit] = 3
        best = (4, 0, 0)
        for length, first in runs[head : head + size]:
            left, right = ranks[now[first - 1]], ranks[now[first + length]]
            end = (left, length, first) if left <= right else (right, length, first + length - count)
            best = min(best, end)
            if best[0] == 0:
                break
        start = best[2]
        starts.append(start)
        # Only the ends of a run are looked at.
        now[start] = now[start + count - 1] = WAITING
    return np.array(starts), units
