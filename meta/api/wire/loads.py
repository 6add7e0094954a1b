"""Loads of vnodes on the wire."""

from itertools import groupby
from typing import Annotated, Literal, Self

import numpy as np
import numpy.typing as npt
from pydantic import ConfigDict, Field, model_validator

from meta.api.wire.base import Request, Response
from meta.errors import BadLoads
from meta.rescaling.loading import Loaded
from storage_keys.vnode import PREFIX_COUNT

# Sums of it over all vnodes and reporters stay what a float holds.
LOAD_MAX = 1e18

Load = Annotated[float, Field(ge=0, le=LOAD_MAX, allow_inf_nan=False)]
VnodeId = Annotated[int, Field(ge=0, lt=PREFIX_COUNT, strict=True)]


class LoadsIn(Request):
    """What one dispatcher counted, in bytes or rows, in the last `observed_for_ms`.

    Either `loads`, one for each vnode, or `runs` of `[first, last, load of each]`, `last` included, which leave out
    the vnodes that had nothing.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"runs": [[0, 63, 120.5], [200, 200, 9000]], "observed_for_ms": 60000}]
        }
    )

    # Of 65,536 wrong ones the first is enough to know.
    loads: Annotated[list[Load], Field(max_length=PREFIX_COUNT, fail_fast=True)] | None = None
    runs: (
        Annotated[list[tuple[VnodeId, VnodeId, Load]], Field(max_length=PREFIX_COUNT, fail_fast=True)] | None
    ) = None
    observed_for_ms: Annotated[int, Field(ge=1, le=24 * 3600 * 1000, strict=True)]

    @model_validator(mode="after")
    def _one_form(self) -> Self:
        if (self.loads is None) == (self.runs is None):
            raise ValueError("give either loads or runs")
        return self

    def counts(self, vnode_count: int) -> npt.NDArray[np.float64]:
        """One for each vnode. Raises `BadLoads`."""
        if self.loads is not None:
            return np.array(self.loads, np.float64)
        found = np.zeros(vnode_count)
        beyond = -1
        for first, last, load in self.runs or ():
            if first > last or first <= beyond or last >= vnode_count:
                raise BadLoads(
                    f"runs: [{first}, {last}] is not after the run before it and below {vnode_count} vnodes; give runs "
                    "in order of vnodes"
                )
            found[first : last + 1] = load
            beyond = last
        return found


class ReporterOut(Response):
    """`counts`: false where its last report is more than 10 minutes old, or of another vnode count."""

    id: str
    observed_at_ms: int
    counts: bool


class UnitLoadOut(Response):
    id: int
    load: float


class LoadsOut(Response):
    """Loads a second, smoothed over 20 minutes and summed over the reporters that count.

    `max_over_mean` divides a unit's load by its weight. `verdict`: whether levelling them is worth a rescale now;
    `reason` says why.
    """

    fragment: str
    version: int
    vnode_count: int
    loads: Annotated[list[tuple[int, int, float]], Field(examples=[[[0, 63, 120.5], [64, 255, 0.0]]])]
    reporters: list[ReporterOut]
    max_over_mean: float | None
    units: list[UnitLoadOut]
    verdict: Literal["rescale", "not-now", "unknown"]
    reason: str
    exceeded_since_ms: int | None

    @classmethod
    def of(cls, loaded: Loaded) -> Self:
        version, known = loaded.version, loaded.known
        judged = loaded.verdict
        return cls(
            fragment=version.fragment,
            version=version.version,
            vnode_count=version.vnode_count,
            loads=[] if known.loads is None else _runs(known.loads),
            reporters=[
                ReporterOut(id=one.reporter, observed_at_ms=one.observed_at_ms, counts=one.counts)
                for one in known.reporters
            ],
            max_over_mean=loaded.unevenness.max_over_mean if loaded.unevenness else None,
            units=[UnitLoadOut(id=unit, load=load) for unit, load in loaded.unit_loads.items()],
            verdict="unknown" if judged is None else "rescale" if judged.act else "not-now",
            reason="no loads are known: no dispatcher reported any lately"
            if judged is None
            else judged.reason,
            exceeded_since_ms=loaded.exceeded_since_ms,
        )


def _runs(loads: npt.NDArray[np.float64]) -> list[tuple[int, int, float]]:
    found, first = [], 0
    for load, members in groupby(loads.tolist()):
        last = first + sum(1 for _ in members) - 1
        found.append((first, last, load))
        first = last + 1
    return found
