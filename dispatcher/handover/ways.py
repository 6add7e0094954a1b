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
    """`vnode` is that of rows that go apart from others, None for the rest together."""

    to: int
    path: Path
    vnode: int | None


@dataclass(frozen=True, slots=True)
class Share:
    """The rows of a batch that go one way, in its order; `positions` are their places there."""

    way: Way
    rows: pa.RecordBatch
    positions: Positions


@dataclass(frozen=True, slots=True)
class Ways:
    """Of a unit while nothing changes in what `route` says: `ways[of_vnode[v]]` is the way of vnode v. Use `by`."""

    ways: tuple[Way, ...]
    of_vnode: npt.NDArray[np.unsignedinteger[Any]]

    @classmethod
    def by(
        cls, route: Callable[[int], tuple[int, Path]], vnode_count: int, apart: Callable[[int], bool]
    ) -> Self:
        """`apart`: whether the rows of a vnode go by themselves."""
        numbers: dict[tuple[int, Path, int | None], int] = {}
        of_vnode = []
        for vnode in range(vnode_count):
            way = (*route(vnode), vnode if apart(vnode) else None)
            of_vnode.append(numbers.setdefault(way, len(numbers)))
        ways = tuple(Way(to, path, vnode) for to, path, vnode in numbers)
        # Of the least width: numpy sorts 8 and 16 bits by counting.
        return cls(ways, np.array(of_vnode, np.min_scalar_type(len(numbers) - 1)))

    def sort(self, vnodes: Vnodes) -> tuple[Positions, list[int]]:
        """The places of rows with these vnodes, one way after the other, and how many go each way.

        Rows that go one way stay in their order. Raises `ForeignVnodes`.
        """
        if len(vnodes):
            first, last = int(vnodes.min()), int(vnodes.max())
            if first < 0 or last >= len(self.of_vnode):
                raise ForeignVnodes(first=first, last=last, vnode_count=len(self.of_vnode))
        of_row = self.of_vnode.take(vnodes)
        counts = np.bincount(of_row, minlength=len(self.ways)).tolist()
        return of_row.argsort(kind="stable"), counts

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
