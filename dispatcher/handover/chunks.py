from collections.abc import Mapping

from dispatcher.handover.errors import ChunkMissing
from dispatcher.handover.message import Acquire
from dispatcher.handover.version import K

Chunks = Mapping[K, tuple[bytes, ...]]
"""Of the keys whose state is not whole yet."""


def joined(chunks: Chunks[K], acquire: Acquire[K]) -> tuple[Chunks[K], tuple[bytes, ...] | None]:
    """And all chunks of the key, where this was the last. Raises `ChunkMissing`."""
    before = chunks.get(acquire.key, ())
    if acquire.index != len(before):
        raise ChunkMissing(acquire.key, expected=len(before), index=acquire.index)
    state = (*before, acquire.state)
    others = {key: some for key, some in chunks.items() if key != acquire.key}
    if len(state) == acquire.count:
        return others, state
    return {**others, acquire.key: state}, None
