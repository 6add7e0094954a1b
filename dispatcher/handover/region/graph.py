"""A job's dataflow, and the regions that its distributors cut it into."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from graphlib import CycleError, TopologicalSorter

from dispatcher.handover.region.errors import (
    Cycle,
    DoubledEdge,
    KeysChanged,
    NoSuchOperator,
    NotKeyed,
    RegionsUnited,
    SourceInRegion,
    StateBeforeDistributor,
    StateNotKeyed,
)


class Kind(Enum):
    """What an operator does with keys."""

    SOURCE = "source"
    """Makes records, and whatever keys they have. It has no state that could move."""
    STATELESS = "stateless"
    STATEFUL = "stateful"
    """Has state of keys that come in, and makes records of those keys alone. The reader of a source is one."""
    KEYING = "keying"
    DISTRIBUTOR = "distributor"
    KEYING_DISTRIBUTOR = "keying distributor"

    @property
    def distributes(self) -> bool:
        return self in {Kind.DISTRIBUTOR, Kind.KEYING_DISTRIBUTOR}


@dataclass(frozen=True, slots=True)
class Graph:
    """A split is an operator with several edges out of it, a union one with several into it."""

    kinds: Mapping[str, Kind]
    edges: tuple[tuple[str, str], ...]

    def targets(self, operator: str) -> tuple[str, ...]:
        return tuple(target for source, target in self.edges if source == operator)


@dataclass(frozen=True, slots=True)
class Region:
    """What is between a distributor, its `head`, and the next. `targets`: of the head, and of each operator inside.

    A target that is not inside is where the region ends: there, keys are others, and messages are discarded.
    """

    head: str
    targets: Mapping[str, tuple[str, ...]]
    stateful: frozenset[str]


@dataclass(frozen=True, slots=True)
class _Unkeyed:
    origin: str


@dataclass(frozen=True, slots=True)
class _Keyed:
    """And not distributed yet. `region`: in which the keying operator is, if in any."""

    origin: str
    region: str | None


@dataclass(frozen=True, slots=True)
class _Distributed:
    origin: str


_Flow = _Unkeyed | _Keyed | _Distributed


def regions(graph: Graph) -> tuple[Region, ...]:
    """In the order in which records flow. Raises `GraphError`."""
    ordered = _in_order(graph)
    leaving: dict[str, frozenset[_Flow]] = {}
    for operator in ordered:
        arriving = frozenset[_Flow]().union(*(leaving[at] for at, to in graph.edges if to == operator))
        _check(graph, operator, arriving)
        leaving[operator] = _leaving(operator, graph.kinds[operator], arriving)
    return tuple(_region(graph, operator) for operator in ordered if graph.kinds[operator].distributes)


def _in_order(graph: Graph) -> tuple[str, ...]:
    """Every operator behind all from which it gets records."""
    sources: dict[str, list[str]] = {operator: [] for operator in graph.kinds}
    for source, target in graph.edges:
        for name in (source, target):
            if name not in graph.kinds:
                raise NoSuchOperator(source, target, name)
        if source in sources[target]:
            raise DoubledEdge(source, target)
        sources[target].append(source)
    try:
        return tuple(TopologicalSorter(sources).static_order())
    except CycleError as error:
        raise Cycle(error.args[1]) from error


def _leaving(operator: str, kind: Kind, arriving: frozenset[_Flow]) -> frozenset[_Flow]:
    match kind:
        case Kind.DISTRIBUTOR | Kind.KEYING_DISTRIBUTOR:
            return frozenset({_Distributed(operator)})
        case Kind.KEYING:
            return frozenset({_Keyed(operator, min(_regions(arriving), default=None))})
        case Kind.SOURCE:
            return frozenset({_Unkeyed(operator)})
        case _:
            return arriving or frozenset({_Unkeyed(operator)})


def _heads(flows: frozenset[_Flow]) -> set[str]:
    return {flow.origin for flow in flows if isinstance(flow, _Distributed)}


def _regions(flows: frozenset[_Flow]) -> set[str]:
    """In which the flows are, with keys of their region or others."""
    return _heads(flows) | {flow.region for flow in flows if isinstance(flow, _Keyed) and flow.region}


def _check(graph: Graph, operator: str, arriving: frozenset[_Flow]) -> None:
    kind, heads = graph.kinds[operator], _heads(arriving)
    if kind.distributes:
        if kind is Kind.DISTRIBUTOR and any(isinstance(flow, _Unkeyed) for flow in arriving):
            raise NotKeyed(operator)
        return
    if heads and len(arriving) > 1:
        raise RegionsUnited(operator, sorted(flow.origin for flow in arriving))
    if kind is Kind.SOURCE and (regions := _regions(arriving)):
        raise SourceInRegion(operator, min(regions))
    if kind is Kind.STATEFUL and all(isinstance(flow, _Unkeyed) for flow in arriving):
        raise StateNotKeyed(operator)
    _check_keys(operator, arriving, stateful=kind is Kind.STATEFUL, last=not graph.targets(operator))


def _check_keys(operator: str, arriving: frozenset[_Flow], *, stateful: bool, last: bool) -> None:
    """Of keys that no distributor has distributed: nobody has state by them, and in a region, nobody keeps them."""
    for flow in sorted(arriving, key=lambda flow: flow.origin):
        match flow:
            case _Keyed(origin=keying, region=str(region)) if stateful or last:
                raise KeysChanged(keying, region, operator)
            case _Keyed(origin=keying) if stateful:
                raise StateBeforeDistributor(operator, keying)


def _region(graph: Graph, head: str) -> Region:
    targets: dict[str, tuple[str, ...]] = {}
    reached = [head]
    while reached:
        operator = reached.pop()
        targets[operator] = graph.targets(operator)
        reached += (
            target
            for target in targets[operator]
            if target not in targets and graph.kinds[target] in {Kind.STATELESS, Kind.STATEFUL}
        )
    stateful = frozenset(name for name in targets if graph.kinds[name] is Kind.STATEFUL)
    return Region(head, targets, stateful)
