from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self

from dispatcher.handover.chunks import Chunks, joined
from dispatcher.handover.clock import Times, later
from dispatcher.handover.message import Acquire, Records
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Arrivals(Generic[K]):
    """What has come to a unit of a handover, whether it is upgraded or not (rule 6).

    `chunks`: of the keys whose state is not whole yet. `done`: the
    givers that have given everything. `flushes`: whose FLUSH has come. `flushed`: each (origin, giver) whose FLUSHED
    has. `buffered`: direct batches by (origin, giver), in order, until that FLUSHED (rule 5). `received`: the keys
    whose state each giver has given. `times`: what each giver has said of their event time.
    """

    chunks: Chunks[K] = field(default_factory=dict)
    done: frozenset[int] = frozenset()
    flushes: frozenset[int] = frozenset()
    flushed: frozenset[tuple[int, int]] = frozenset()
    buffered: Mapping[tuple[int, int], tuple[Records[K], ...]] = field(default_factory=dict)
    received: Mapping[int, frozenset[K]] = field(default_factory=dict)
    times: Mapping[int, Times] = field(default_factory=dict)

    def with_chunk(self, acquire: Acquire[K]) -> tuple[Self, tuple[bytes, ...] | None]:
        """And all chunks, where this was the last. Raises `ChunkMissing`."""
        chunks, whole = joined(self.chunks, acquire)
        return replace(self, chunks=chunks), whole

    def with_received(self, giver: int, acquire: Acquire[K]) -> Self:
        keys = self.received.get(giver, frozenset()) | {acquire.key}
        return replace(self.with_times(giver, acquire.times), received={**self.received, giver: keys})

    def with_times(self, giver: int, times: Times) -> Self:
        return replace(self, times={**self.times, giver: later(self.times.get(giver, {}), times)})

    def with_done(self, giver: int) -> Self:
        return replace(self, done=self.done | {giver})

    def with_flush(self, origin: int) -> Self:
        return replace(self, flushes=self.flushes | {origin})

    def with_flushed(self, origin: int, giver: int) -> tuple[Self, tuple[Records[K], ...]]:
        """And the batches that waited for it."""
        others = {pair: some for pair, some in self.buffered.items() if pair != (origin, giver)}
        waited = self.buffered.get((origin, giver), ())
        return replace(self, flushed=self.flushed | {(origin, giver)}, buffered=others), waited

    def with_buffered(self, records: Records[K], giver: int) -> Self:
        pair = (records.origin, giver)
        waiting = (*self.buffered.get(pair, ()), records)
        return replace(self, buffered={**self.buffered, pair: waiting})
