"""What a rescale does, in figures, on the wire."""

from heapq import nlargest
from typing import Self, TypeVar

from meta.api.wire.base import Response
from meta.mapping.summary import (
    Balance,
    Summary,
    UnitFigures,
    UnitFlow,
    WorkerFigures,
    WorkerFlow,
)

FLOWS_MAX = 1_000

Flow = TypeVar("Flow", UnitFlow, WorkerFlow)


class SummaryOut(Response):
    """Counted at `vnode_count`. Of the flows the 1,000 largest of each kind; `flows_left_out` are the others."""

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
    flows_left_out: int

    @classmethod
    def of(cls, found: Summary) -> Self:
        unit_flows, worker_flows = _largest(found.unit_flows), _largest(found.worker_flows)
        flows = len(found.unit_flows) + len(found.worker_flows)
        return cls(
            vnode_count=found.vnode_count,
            moves=found.moves,
            assigned=found.assigned,
            released=found.released,
            cross_worker_moves=found.cross_worker_moves,
            before=found.before,
            after=found.after,
            gone=found.gone,
            by_unit=found.by_unit,
            by_worker=found.by_worker,
            unit_flows=unit_flows,
            worker_flows=worker_flows,
            flows_left_out=flows - len(unit_flows) - len(worker_flows),
        )


def _largest(flows: tuple[Flow, ...]) -> tuple[Flow, ...]:
    """In their order; of equal ones those that come first."""
    if len(flows) <= FLOWS_MAX:
        return flows
    places = nlargest(FLOWS_MAX, range(len(flows)), key=lambda place: (flows[place].vnodes, -place))
    return tuple(flows[place] for place in sorted(places))
