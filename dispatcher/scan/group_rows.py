"""The rows of one scan group as Arrow batches, in the task that has the group."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from dispatcher.scan.filters import Conditions
from dispatcher.scan.plan import ScanGroup
from dispatcher.table.columns import in_arrow
from dispatcher.table.file import DELETED, Kind
from dispatcher.table.merge import SortedRows, merged
from dispatcher.table.sorted_file import Selection, sorted_rows
from dispatcher.table.state_table import StateTable


@dataclass(frozen=True, slots=True)
class Wanted:
    """What each group is read for: `schema` has at least one column, and those of `condition`."""

    table_id: int
    schema: pa.Schema
    condition: pc.Expression | None
    storage_options: Mapping[str, str] = field(repr=False)

    @classmethod
    def of(cls, table: StateTable, columns: StructType, asked: Conditions) -> Self:
        condition = None if asked.are_never_met else asked.as_expression()
        return cls(table.schema.table_id, in_arrow(columns), condition, table.storage_options)


def group_rows(group: ScanGroup, wanted: Wanted) -> Iterator[pa.RecordBatch]:
    """What a reader sees of the group's files, without rows for which the condition is not true."""
    selection = Selection(wanted.table_id, wanted.schema, group.prefixes, wanted.storage_options)
    sources = sorted_rows(group.files, selection)
    names = wanted.schema.names
    found = merged(sources, names) if group.merges else _side_by_side(sources, names)
    for batch in found:
        # After the merge: a row that does not pass may hide one that does.
        rows = pa.Table.from_batches([batch])
        yield from (rows if wanted.condition is None else rows.filter(wanted.condition)).to_batches()


def _side_by_side(sources: list[SortedRows], names: list[str]) -> Iterator[pa.RecordBatch]:
    for source in sources:
        for batch in source.batches:
            rows = batch.filter(pc.invert(batch[DELETED])) if source.kind is Kind.CHANGES else batch
            yield rows.select(names)
