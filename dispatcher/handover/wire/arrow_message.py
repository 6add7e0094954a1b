"""What pyarrow does not tell of an encapsulated message: whether its body is compressed.

Its metadata is a FlatBuffers table, of which Arrow has verified all offsets before this reads it.
"""

from struct import unpack_from
from typing import Final

# Places of fields in Arrow's Message.fbs.
_MESSAGE_HEADER: Final = 2
_DICTIONARY_DATA: Final = 1
_BATCH_COMPRESSION: Final = 3


def is_compressed(kind: str, metadata: memoryview) -> bool:
    """Whether a message of `kind`, as pyarrow calls it, says that its buffers are compressed."""
    root = _target(metadata, 0)
    batch = _child(metadata, root, _MESSAGE_HEADER)
    if kind == "dictionary" and batch is not None:
        batch = _child(metadata, batch, _DICTIONARY_DATA)
    return batch is not None and _child(metadata, batch, _BATCH_COMPRESSION) is not None


def _child(metadata: memoryview, table: int, field: int) -> int | None:
    """Where the table is that a table has in a field."""
    (back,) = unpack_from("<i", metadata, table)
    (size,) = unpack_from("<H", metadata, table - back)
    if 4 + 2 * field >= size:
        return None
    (offset,) = unpack_from("<H", metadata, table - back + 4 + 2 * field)
    return _target(metadata, table + offset) if offset else None


def _target(metadata: memoryview, at: int) -> int:
    (offset,) = unpack_from("<I", metadata, at)
    return at + int(offset)
