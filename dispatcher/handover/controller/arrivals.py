from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self

from dispatcher.handover.chunks import Chunks, joined
from dispatcher.handover.message import Acquire
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Arrivals(Generic[K]):
    """What has come to a unit of a rescale, whether it is upgraded or not.

    `asked`: the distributors whose SHUTDOWN or SCALEUP has come.
    `done`: those that have sent all their copies. `chunks`: of each one's copies that are not whole yet.
    `received`: the keys whose state is here.
    """

    asked: frozenset[int] = frozenset()
    done: frozenset[int] = frozenset()
    chunks: Mapping[int, Chunks[K]] = field(default_factory=dict)
    received: frozenset[K] = frozenset()

    def with_chunk(self, sender: int, acquire: Acquire[K]) -> tuple[Self, tuple[bytes, ...] | None]:
        """And all chunks, where this was the last of the sender's copy. Raises `ChunkMissing`."""
        chunks, whole = joined(self.chunks.get(sender, {}), acquire)
        return replace(self, chunks={**self.chunks, sender: chunks}), whole

    def with_received(self, key: K) -> Self:
        return replace(self, received=self.received | {key})

    def with_asked(self, distributor: int) -> Self:
        return replace(self, asked=self.asked | {distributor})

    def with_done(self, distributor: int) -> Self:
        return replace(self, done=self.done | {distributor})
