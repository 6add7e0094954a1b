"""What a state table shows, read file by file and row by row: slow, and by nothing but the rule."""

from collections import defaultdict
from typing import Any

import pyarrow.parquet as pq

from dispatcher.table.file import Kind
from dispatcher.table.files import open_file
from dispatcher.table.state_table import StateTable

Row = tuple[Any, ...]


def visible(table: StateTable, version: int | None = None) -> list[Row]:
    """The rows of a version, in the order of columns, sorted by their storage keys and then as text."""
    of_key: dict[bytes, list[tuple[int, Kind, bool, Row]]] = defaultdict(list)
    for file in table.snapshot(version).files:
        with open_file(file.path) as opened:
            rows = pq.ParquetFile(opened).read().to_pylist()
        assert len(rows) == file.rows
        prefixes = [row["_vnode_prefix"] for row in rows]
        assert (min(prefixes), max(prefixes)) == (file.first_prefix, file.last_prefix)
        keys = [row["_storage_key"] for row in rows]
        assert keys == sorted(table.schema.storage_key(row) for row in rows)
        assert file.kind is Kind.ROWS or len(keys) == len(set(keys))
        for key, row in zip(keys, rows, strict=True):
            values = tuple(row[name] for name in table.columns.names)
            of_key[key].append((file.sequence, file.kind, row.get("_deleted") is True, values))
    return [row for key in sorted(of_key) for row in sorted(_left(of_key[key]), key=repr)]


def _left(rows: list[tuple[int, Kind, bool, Row]]) -> list[Row]:
    last = max((sequence for sequence, kind, _, _ in rows if kind is Kind.CHANGES), default=-1)
    changes = [
        row
        for sequence, kind, deleted, row in rows
        if kind is Kind.CHANGES and sequence == last and not deleted
    ]
    return changes + [row for sequence, kind, _, row in rows if kind is Kind.ROWS and sequence > last]
