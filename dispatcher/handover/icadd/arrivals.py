from dataclasses import dataclass, field, replace
from typing import Generic, Self

from dispatcher.handover.chunks import Chunks, joined
from dispatcher.handover.message import Acquire
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Arrivals(Generic[K]):
    """What has come to a unit of a handover, in whichever phase.

    `chunks`: of the keys whose state is not whole yet. `received`: the keys whose state has come. `finished`: who has
    said Done. `flushes`: whose FLUSH has come.
    """

    chunks: Chunks[K] = field(default_factory=dict)
    received: frozenset[K] = frozenset()
    finished: frozenset[int] = frozenset()
    flushes: frozenset[int] = frozenset()

    def with_chunk(self, acquire: Acquire[K]) -> tuple[Self, tuple[bytes, ...] | None]:
        """And all chunks, where this was the last. Raises `ChunkMissing`."""
        chunks, whole = joined(self.chunks, acquire)
        received = self.received if whole is None else self.received | {acquire.key}
        return replace(self, chunks=chunks, received=received), whole

    def with_done(self, unit: int) -> Self:
        return replace(self, finished=self.finished | {unit})

    def with_flush(self, unit: int) -> Self:
        return replace(self, flushes=self.flushes | {unit})
