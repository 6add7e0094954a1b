"""What a rescale does, in figures: who owns how much before and after, how many runs, and who gives to whom.

Values of plain integers, floats, texts and None, so `dataclasses.asdict` makes a JSON document. Sizes are
bounded by the units and the moves, whatever the vnode count.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from meta.mapping.diff import Changes, Diff
from meta.mapping.mapping import NOBODY, VnodeMapping
from meta.mapping.stretches import Ids
from meta.mapping.unit import Unit, sorted_units


@dataclass(frozen=True, slots=True)
class UnitFigures:
    """Vnodes of one unit: `after == before + gained - lost`.

    `gained` counts moves and vnodes that nobody owned, `lost` moves and vnodes that nobody owns any more.
    `fair_share` is by weight, in vnodes. A gone unit is none of those asked about: its worker is None.
    """

    unit: int
    worker: str | None
    before: int
    after: int
    gained: int
    lost: int
    fair_share: float
    runs_before: int
    runs_after: int


@dataclass(frozen=True, slots=True)
class WorkerFigures:
    """Vnodes of a worker's units; worker None is that of all gone units together.

    `gained` and `lost` leave out what moves inside the worker; between gone units it counts.
    """

    worker: str | None
    units: int
    before: int
    after: int
    gained: int
    lost: int
    fair_share: float


@dataclass(frozen=True, slots=True)
class UnitFlow:
    source: int
    target: int
    vnodes: int


@dataclass(frozen=True, slots=True)
class WorkerFlow:
    """Moves inside a worker included; worker None is that of all gone units."""

    source: str | None
    target: str | None
    vnodes: int


@dataclass(frozen=True, slots=True)
class Balance:
    """One mapping's figures, over `units` units: its owners, and those asked about that have a weight above 0.

    `runs` holds those of nobody too, the figures for each unit do not. `max_over_mean` is of vnodes, weights
    left aside. All are 0 where there is no unit.
    """

    vnode_count: int
    unowned: int
    units: int
    fewest: int
    most: int
    spread: int
    max_over_mean: float
    runs: int
    runs_per_unit_max: int
    runs_per_unit_mean: float


@dataclass(frozen=True, slots=True)
class Summary:
    """From one mapping to another; vnodes are counted at `vnode_count`, the larger of both counts.

    `by_unit` is in order of ids, `by_worker` and the flows are in order of names, gone units last; a flow is
    one entry above 0 of the matrix source x target, which `moves` sums up. `gone` are the owners that are none
    of the units.
    """

    vnode_count: int
    moves: int
    assigned: int
    released: int
    cross_worker_moves: int
    before: Balance
    after: Balance
    gone: tuple[int, ...]
    by_unit: tuple[UnitFigures, ...]
    by_worker: tuple[WorkerFigures, ...]
    unit_flows: tuple[UnitFlow, ...]
    worker_flows: tuple[WorkerFlow, ...]


def summary(before: VnodeMapping, after: VnodeMapping, units: Iterable[Unit]) -> Summary:
    """`units` are those after, drained ones included; owners among neither are gone.

    Raises `UnrelatedVnodeCounts` where neither vnode count is a multiple of the other, `Malformed` where a unit
    is listed twice.
    """
    members = sorted_units(units)
    diff = Diff(before, after)
    moves = diff.moves
    by_unit = _by_unit(diff, members)
    bearing = {unit.id for unit in members if unit.weight > 0}
    worker = {unit.id: unit.worker for unit in members}
    unit_flows = _unit_flows(moves)
    worker_flows = _worker_flows(unit_flows, worker)
    return Summary(
        vnode_count=diff.vnode_count,
        moves=len(moves),
        assigned=len(diff.assigned),
        released=len(diff.released),
        cross_worker_moves=sum(f.vnodes for f in worker_flows if f.source is None or f.source != f.target),
        before=_balance(before, bearing),
        after=_balance(after, bearing),
        gone=tuple(figures.unit for figures in by_unit if figures.worker is None),
        by_unit=by_unit,
        by_worker=_by_worker(by_unit, worker_flows),
        unit_flows=unit_flows,
        worker_flows=worker_flows,
    )


def _balance(mapping: VnodeMapping, bearing: set[int]) -> Balance:
    ids = np.array(sorted({*mapping.units, *bearing}), np.int64)
    owned = _counts(ids, mapping.array)
    runs = _counts(ids, mapping.array[mapping.run_starts])
    fewest, most, mean = (
        (int(owned.min()), int(owned.max()), float(owned.mean())) if len(ids) else (0, 0, 0.0)
    )
    return Balance(
        vnode_count=mapping.vnode_count,
        unowned=int(np.count_nonzero(mapping.array == NOBODY)),
        units=len(ids),
        fewest=fewest,
        most=most,
        spread=most - fewest,
        max_over_mean=most / mean if mean else 0.0,
        runs=mapping.run_count,
        runs_per_unit_max=int(runs.max(initial=0)),
        runs_per_unit_mean=float(runs.mean()) if len(ids) else 0.0,
    )


def _by_unit(diff: Diff, members: Sequence[Unit]) -> tuple[UnitFigures, ...]:
    worker = {unit.id: unit.worker for unit in members}
    fair_share = _fair_shares(members, diff.vnode_count)
    ids = np.array(sorted({*worker, *diff.before.units, *diff.after.units}), np.int64)
    columns = (
        ids,
        _counts(ids, diff.before.array) * (diff.vnode_count // diff.before.vnode_count),
        _counts(ids, diff.after.array) * (diff.vnode_count // diff.after.vnode_count),
        _counts(ids, diff.changes.targets),
        _counts(ids, diff.changes.sources),
        _counts(ids, diff.before.array[diff.before.run_starts]),
        _counts(ids, diff.after.array[diff.after.run_starts]),
    )
    return tuple(
        UnitFigures(
            unit=unit,
            worker=worker.get(unit),
            before=before,
            after=after,
            gained=gained,
            lost=lost,
            fair_share=fair_share.get(unit, 0.0),
            runs_before=runs_before,
            runs_after=runs_after,
        )
        for unit, before, after, gained, lost, runs_before, runs_after in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def _fair_shares(members: Iterable[Unit], vnode_count: int) -> dict[int, float]:
    """Of each unit with a weight above 0."""
    # Over the largest: a sum of weights may be more than a float holds.
    largest = max((unit.weight for unit in members), default=0.0)
    relative = {unit.id: unit.weight / largest for unit in members if unit.weight > 0}
    total = sum(relative.values())
    return {unit: vnode_count * (weight / total) for unit, weight in relative.items()}


def _counts(ids: Ids, owners: Ids) -> Ids:
    """How often each of `ids`, which are sorted and hold all of `owners` but `NOBODY`, comes."""
    at = np.searchsorted(ids, owners[owners != NOBODY])
    return np.bincount(at, minlength=len(ids))


def _unit_flows(moves: Changes) -> tuple[UnitFlow, ...]:
    ids = np.unique([moves.sources, moves.targets])
    pairs = np.searchsorted(ids, moves.sources) * len(ids) + np.searchsorted(ids, moves.targets)
    flows, vnodes = np.unique(pairs, return_counts=True)
    sources, targets = np.divmod(flows, max(1, len(ids)))
    columns = (ids[sources].tolist(), ids[targets].tolist(), vnodes.tolist())
    return tuple(map(UnitFlow, *columns))


def _worker_flows(flows: Iterable[UnitFlow], worker: Mapping[int, str]) -> tuple[WorkerFlow, ...]:
    vnodes: dict[tuple[str | None, str | None], int] = {}
    for flow in flows:
        between = worker.get(flow.source), worker.get(flow.target)
        vnodes[between] = vnodes.get(between, 0) + flow.vnodes
    ordered = sorted(vnodes.items(), key=lambda item: (_gone_last(item[0][0]), _gone_last(item[0][1])))
    return tuple(WorkerFlow(source, target, count) for (source, target), count in ordered)


def _by_worker(by_unit: Iterable[UnitFigures], flows: Iterable[WorkerFlow]) -> tuple[WorkerFigures, ...]:
    inside: dict[str | None, int] = {
        flow.source: flow.vnodes for flow in flows if flow.source is not None and flow.source == flow.target
    }

    def worker_of(unit: UnitFigures) -> tuple[bool, str]:
        return _gone_last(unit.worker)

    figures = []
    for _, group in groupby(sorted(by_unit, key=worker_of), worker_of):
        units = list(group)
        worker = units[0].worker
        figures.append(
            WorkerFigures(
                worker=worker,
                units=len(units),
                before=sum(unit.before for unit in units),
                after=sum(unit.after for unit in units),
                gained=sum(unit.gained for unit in units) - inside.get(worker, 0),
                lost=sum(unit.lost for unit in units) - inside.get(worker, 0),
                fair_share=sum(unit.fair_share for unit in units),
            )
        )
    return tuple(figures)


def _gone_last(worker: str | None) -> tuple[bool, str]:
    return worker is None, worker or ""
