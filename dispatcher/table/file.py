"""What a state table's log says of one of its data files, and the columns that are ours."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

PREFIX: Final = "_vnode_prefix"
STORAGE_KEY: Final = "_storage_key"
DELETED: Final = "_deleted"
"""Only in files of changes."""

SEQUENCE: Final = "_sequence"
KIND: Final = "_kind"
"""In the log alone, as are all columns that a Delta table is partitioned by."""


class Kind(StrEnum):
    """What the rows of a file do to the rows of their storage keys.

    ``ROWS``: each row is simply there. ``CHANGES``: each row replaces every row of its key with a smaller
    sequence, and one whose ``_deleted`` is true only removes them.
    """

    ROWS = "rows"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file, sorted by storage key; every prefix in it is in [first_prefix, last_prefix]."""

    path: str  # absolute path or URL
    rows: int
    size_bytes: int
    first_prefix: int
    last_prefix: int
    sequence: int
    kind: Kind
