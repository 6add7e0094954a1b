"""What the run left in the table, checked in plain Python: no Spark, and nothing of the dispatcher's."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable

from storage_keys.hash import hash_row
from storage_keys.types import STRING
from storage_keys.vnode import prefix_of, vnode_of

COLUMNS = ["flight_id", "tailnum", "month", "batch_id", "mapping_version", "unit", "spark_partition"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """`misrouted`: rows whose Spark partition or unit is not what their version's mapping says."""

    rows: int
    duplicates: int
    misrouted: int
    batches_by_version: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Owners:
    """One mapping version, as the HTTP API tells it."""

    owners: Sequence[int]
    units: Sequence[int]

    def place(self, tailnum: str | None) -> tuple[int, int]:
        """The unit of a tail number, and the unit's slot."""
        vnode = vnode_of(prefix_of(hash_row([STRING], [tailnum])), len(self.owners))
        unit = self.owners[vnode]
        return unit, sorted(self.units).index(unit)


def read_rows(table: Path) -> pa.Table:
    return DeltaTable(str(table)).to_pyarrow_table(columns=COLUMNS)


def examine(rows: pa.Table, versions: Mapping[int, Owners]) -> Evidence:
    """`rows` has `COLUMNS`. Each distinct (version, tail number) is placed once."""
    places = Counter(
        zip(
            *(rows[name].to_pylist() for name in ("mapping_version", "tailnum", "unit", "spark_partition")),
            strict=True,
        )
    )
    misrouted = sum(
        count
        for (version, tailnum, unit, partition), count in places.items()
        if versions[version].place(tailnum) != (unit, partition)
    )
    batches = set(zip(rows["mapping_version"].to_pylist(), rows["batch_id"].to_pylist(), strict=True))
    return Evidence(
        rows=rows.num_rows,
        duplicates=rows.num_rows - len(set(rows["flight_id"].to_pylist())),
        misrouted=misrouted,
        batches_by_version=dict(sorted(Counter(version for version, _ in batches).items())),
    )


def units_by_month(rows: pa.Table) -> dict[int, Counter[int]]:
    """Rows that each unit took in each month (1 to 12)."""
    taken: dict[int, Counter[int]] = {}
    for month, unit in zip(rows["month"].to_pylist(), rows["unit"].to_pylist(), strict=True):
        taken.setdefault(month, Counter())[unit] += 1
    return taken
