"""The loads of a fragment's vnodes, out of what each of its dispatchers reports."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from meta.lifecycle import Fragment
from meta.store.database import Transaction

# What was known so long ago counts half; `LoadPolicy`'s times are meant for it.
HALF_LIFE_S = 1_200.0
# A dispatcher that reports no more has stopped, and what it counted is another's now.
FRESH_MS = 600_000


@dataclass(frozen=True, slots=True)
class LoadReporter:
    """`counts`: whether it is recent enough, and of the vnode count of today."""

    reporter: str
    observed_at_ms: int
    counts: bool


@dataclass(frozen=True, slots=True, eq=False)
class KnownLoads:
    """`loads[v]` is the load of vnode v, a second, summed over the reporters that count; None where none does."""

    loads: npt.NDArray[np.float64] | None
    reporters: tuple[LoadReporter, ...]
    newest_age_ms: int | None
    now_ms: int

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(
            f"the loads of {one.reporter} are {(self.now_ms - one.observed_at_ms) // 60_000} min old, or of another "
            "vnode count, and left out"
            for one in self.reporters
            if not one.counts
        )


def loads_known(tx: Transaction, fragment: Fragment, now_ms: int) -> KnownLoads:
    """Reports of another vnode count do not count: which vnode bore what cannot be told from them."""
    reports = tx.loads.of(fragment.name)
    reporters = [
        LoadReporter(
            report.reporter,
            report.observed_at_ms,
            len(report.loads) == fragment.vnode_count and now_ms - report.observed_at_ms < FRESH_MS,
        )
        for report in reports
    ]
    counting = [report.loads for report, one in zip(reports, reporters, strict=True) if one.counts]
    newest = max((report.observed_at_ms for report in reports), default=None)
    return KnownLoads(
        loads=np.sum(counting, axis=0) if counting else None,
        reporters=tuple(reporters),
        newest_age_ms=None if newest is None else max(0, now_ms - newest),
        now_ms=now_ms,
    )
