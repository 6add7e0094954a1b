from collections.abc import Mapping

from dispatcher.handover.errors import ChunkMissing
from dispatcher.handover.message import Acquire
from dispatcher.handover.version import K

Chunks = Mapping[K, tuple[Acquire[K], ...]]
"""Of the keys whose state is not whole yet."""


def joined(chunks: Chunks[K], acquire: Acquire[K]) -> tuple[Chunks[K], tuple[bytes, ...] | None]:
    """And all chunks of the key, where this was the last. Raises `ChunkMissing`."""
    before = chunks.get(acquire.key, ())
    count = before[0].count if before else acquire.count
    if acquire.index != len(before) or acquire.count != count or acquire.index >= count:
        raise ChunkMissing(acquire.key, expected=(len(before), count), found=(acquire.index, acquire.count))
    parts = (*before, acquire)
    others = {key: some for key, some in chunks.items() if key != acquire.key}
    if len(parts) == count:
        return others, tuple(part.state for part in parts)
    return {**others, acquire.key: parts}, None
