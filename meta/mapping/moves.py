from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import overload

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
Reason = Callable[[int, int, int], str]  # of vnode, source and target


@dataclass(frozen=True, slots=True)
class Move:
    """A vnode that had an owner and gets another one; a `source` that is gone is none of the plan's units."""

    vnode: int
    source: int
    target: int
    reason: str


class Moves(Sequence[Move]):
    """Moves as columns, in order of vnodes: `vnodes`, `sources` and `targets` are read-only int64 arrays.

    `reason` is called with vnode, source and target when a `Move` is read, so that a plan of 30,000 moves
    costs neither objects nor texts until somebody asks for them. Equal where every `Move` is.
    """

    __slots__ = ("_reason", "sources", "targets", "vnodes")

    def __init__(
        self, vnodes: npt.ArrayLike, sources: npt.ArrayLike, targets: npt.ArrayLike, reason: Reason
    ) -> None:
        self.vnodes = _column(vnodes)
        self.sources = _column(sources)
        self.targets = _column(targets)
        self._reason = reason
        assert self.vnodes.shape == self.sources.shape == self.targets.shape
        assert bool((self.vnodes[1:] > self.vnodes[:-1]).all()), "moves are in order of vnodes"

    def __len__(self) -> int:
        return len(self.vnodes)

    @overload
    def __getitem__(self, index: int) -> Move: ...
    @overload
    def __getitem__(self, index: slice) -> "Sequence[Move]": ...
    def __getitem__(self, index: int | slice) -> "Move | Sequence[Move]":
        if isinstance(index, slice):
            # Moves are in order of vnodes; what is read backwards is a tuple.
            if index.step is not None and index.step < 0:
                return tuple(self)[index]
            return Moves(self.vnodes[index], self.sources[index], self.targets[index], self._reason)
        return self._move(int(self.vnodes[index]), int(self.sources[index]), int(self.targets[index]))

    def __iter__(self) -> Iterator[Move]:
        columns = (self.vnodes.tolist(), self.sources.tolist(), self.targets.tolist())
        return map(self._move, *columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Moves):
            return NotImplemented
        return self._key() == other._key() and all(a == b for a, b in zip(self, other, strict=True))

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"Moves({', '.join(map(repr, self))})"

    def _move(self, vnode: int, source: int, target: int) -> Move:
        return Move(vnode, source, target, self._reason(vnode, source, target))

    def _key(self) -> tuple[bytes, bytes, bytes]:
        return self.vnodes.tobytes(), self.sources.tobytes(), self.targets.tobytes()


def _column(values: npt.ArrayLike) -> Ids:
    column = np.array(values, dtype=np.int64)
    column.flags.writeable = False
    return column
