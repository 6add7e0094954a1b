"""A batch of rows by where they go: `route` of a protocol asked once for each vnode, not once for each row."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from dispatcher.handover.errors import ForeignVnodes
from dispatcher.handover.message import Path

Vnodes = npt.NDArray[np.integer[Any]]
Positions = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True)
class Way:
    """Of one vnode, as a `message.Batch` is of one key."""

    vnode: int
    to: int
    path: Path


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of a batch that go one way, in its order; `positions` are their places there."""

    way: Way
    rows: pa.RecordBatch
    positions: Positions


@dataclass(frozen=True, slots=True)
class Ways:
    """Of a unit while nothing changes in what `route` says, one for each vnode, those to one unit side by side.

    `rank_of_vnode[v]` is the place of vnode v among `ways`. Use `by`.
    """

    ways: tuple[Way, ...]
    rank_of_vnode: npt.NDArray[np.unsignedinteger[Any]]

    @classmethod
    def by(cls, route: Callable[[int], tuple[int, Path]], vnode_count: int) -> Self:
        ways = [Way(vnode, *route(vnode)) for vnode in range(vnode_count)]
        ways.sort(key=lambda way: (way.to, way.path.value))
        # Of the least width: numpy sorts 8 and 16 bits by counting.
        ranks = np.empty(vnode_count, np.min_scalar_type(vnode_count - 1))
        ranks[[way.vnode for way in ways]] = np.arange(vnode_count)
        return cls(tuple(ways), ranks)

    def sort(self, vnodes: Vnodes) -> tuple[Positions, list[int]]:
        """The places of rows with these vnodes, one way after the other, and how many go each way.

        Rows that go one way stay in their order. Raises `ForeignVnodes`.
        """
        if len(vnodes):
            first, last = int(vnodes.min()), int(vnodes.max())
            if first < 0 or last >= len(self.ways):
                raise ForeignVnodes(first=first, last=last, vnode_count=len(self.ways))
        ranks = self.rank_of_vnode.take(vnodes)
        counts = np.bincount(ranks, minlength=len(self.ways)).tolist()
        return ranks.argsort(kind="stable"), counts

    def split(self, rows: pa.RecordBatch, vnodes: Vnodes) -> list[Share]:
        """The rows, each with its vnode, by the ways that any of them go. Raises `ForeignVnodes`."""
        assert len(vnodes) == rows.num_rows, (len(vnodes), rows.num_rows)
        positions, counts = self.sort(vnodes)
        # One copy for all shares, and none where all go one way.
        ordered = rows if max(counts) == len(vnodes) else rows.take(pa.array(positions))
        shares, start = [], 0
        for way, count in zip(self.ways, counts, strict=True):
            if count:
                end = start + count
                shares.append(Share(way, ordered.slice(start, count), positions[start:end]))
                start = end
        return shares
