from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self

from dispatcher.handover.chunks import joined
from dispatcher.handover.message import Acquire
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Arrivals(Generic[K]):
    """What has come to a unit of a handover, in whichever phase.

    `digest`: of the version under way, once known. `chunks`: of the keys whose state is not whole yet. `finished`: who
    has said Done. `flushes`: whose FLUSH has come.
    """

    digest: str | None = None
    chunks: Mapping[K, tuple[bytes, ...]] = field(default_factory=dict)
    finished: frozenset[int] = frozenset()
    flushes: frozenset[int] = frozenset()

    def with_chunk(self, acquire: Acquire[K]) -> tuple[Self, tuple[bytes, ...] | None]:
        """And all chunks, where this was the last. Raises `ChunkMissing`."""
        chunks, whole = joined(self.chunks, acquire)
        return replace(self, chunks=chunks), whole

    def with_done(self, unit: int) -> Self:
        return replace(self, finished=self.finished | {unit})

    def with_flush(self, unit: int) -> Self:
        return replace(self, flushes=self.flushes | {unit})
