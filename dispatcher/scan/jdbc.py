"""The groups of a plan as predicates of SQL over an integer prefix column, for tables that live in a database.

Write the column beside the rows (`storage_keys` gives it, 0..65535, and it must be NOT NULL) and index it.
"""

from typing import Final

import numpy as np

from dispatcher.errors import DispatcherError
from dispatcher.scan.plan import ScanGroup, ScanPlan
from dispatcher.table.file import DataFile, Kind
from storage_keys.vnode import PREFIX_COUNT

EVENLY: Final = DataFile("", PREFIX_COUNT, PREFIX_COUNT, 0, PREFIX_COUNT - 1, 0, Kind.ROWS)
"""For `plan_scan`, what is known of a database's table: hashed keys are everywhere, so vnodes may be divided."""

NOTHING: Final = "1 = 0"


class SharedPrefix(DispatcherError):
    """Group `slot` reads some of the files that have rows of `prefix`, which no predicate over the prefix can tell."""

    def __init__(self, slot: int, prefix: int) -> None:
        self.slot = slot
        self.prefix = prefix
        super().__init__(
            f"group {slot} reads a part of the files of prefix {prefix}, and a predicate over the prefix cannot tell"
            " which; plan without the files: a database has none"
        )


def predicates(plan: ScanPlan, column: str) -> list[str]:
    """One predicate for each group, in PostgreSQL's SQL: `spark.read.jdbc(..., predicates=predicates(plan, "p"))`.

    Each row satisfies exactly one of those whose prefixes the plan reads. Groups that need a look-up have one, in a
    bit string; the others compare. Raises `SharedPrefix` where the plan tells rows of one prefix apart by their files.
    """
    quoted = '"' + column.replace('"', '""') + '"'
    return [_predicate(group, quoted) for group in plan.groups]


def _predicate(group: ScanGroup, column: str) -> str:
    if group.shares_prefix:
        raise SharedPrefix(group.slot, group.prefixes[0].first)
    if not group.prefixes:
        return NOTHING
    if group.needs_lookup:
        return _looked_up(group, column)
    return " OR ".join(_between(run.first, run.last, column) for run in group.prefixes)


def _between(first: int, last: int, column: str) -> str:
    return f"{column} = {first}" if first == last else f"{column} BETWEEN {first} AND {last}"


def _looked_up(group: ScanGroup, column: str) -> str:
    bits = np.packbits(np.frombuffer(group.lookup, np.uint8), bitorder="little").tobytes()
    # The bounds are for the column's index.
    bounds = _between(group.prefixes[0].first, group.prefixes[-1].last, column)
    return f"{bounds} AND get_bit(decode('{bits.hex()}', 'hex'), {column}) = 1"
