"""What is behind the distributor of each unit where operators are drawn: a region, and the ways of records in it."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from dispatcher.handover.region.graph import Graph, Kind, Region, regions
from dispatcher.handover.region.rules import Rules

Edge = tuple[str, str]
States = dict[str, dict[int, int]]
"""Of each operator that has state: of each vnode, how many copies of its records have come."""


@dataclass(frozen=True, slots=True)
class Dataflow:
    """`ways`: the edges that the records of a vnode take, the same for all, so that they keep their order."""

    region: Region
    ways: Mapping[int, frozenset[Edge]]
    chunk_bytes: int
    rules: Rules

    def targets(self, vnode: int, operator: str) -> tuple[str, ...]:
        way = self.ways[vnode]
        return tuple(to for to in self.region.targets.get(operator, ()) if (operator, to) in way)

    def states(self, applied: Mapping[int, int]) -> States:
        """Where so many records of each vnode are applied."""
        states: States = {operator: {} for operator in sorted(self.region.stateful)}
        for vnode, records in applied.items():
            for operator, copies in self._copies(vnode).items():
                if operator in states:
                    states[operator][vnode] = copies * records
        return states

    def _copies(self, vnode: int) -> Counter[str]:
        """How many of one record come to each operator: one on each way."""
        copies: Counter[str] = Counter()
        reached = [self.region.head]
        while reached:
            targets = self.targets(vnode, reached.pop())
            copies.update(targets)
            reached += targets
        return copies


def drawn(operators: int, vnodes: int, random: Random, rules: Rules) -> Dataflow:
    region = regions(graph(operators, random))[0]
    edges = [(operator, target) for operator, targets in region.targets.items() for target in targets]
    ways = {vnode: _way(region, edges, random) for vnode in range(vnodes)}
    return Dataflow(region, ways, random.choice((8, 1 << 20)), rules)


def graph(operators: int, random: Random) -> Graph:
    """So many behind a distributor, of which the first has state, and the next distributor behind some of them."""
    names = [f"o{at}" for at in range(operators)]
    before = ["d"]
    edges: list[Edge] = []
    for name in names:
        edges += (
            (source, name) for source in random.sample(before, min(len(before), random.choice((1, 1, 2, 3))))
        )
        before.append(name)
    edges += ((name, "e") for name in names if random.random() < 0.3)
    kinds = {name: random.choice((Kind.STATEFUL, Kind.STATEFUL, Kind.STATELESS)) for name in names}
    kinds["o0"] = Kind.STATEFUL
    random.shuffle(edges)
    return Graph({"d": Kind.DISTRIBUTOR, **kinds, "e": Kind.KEYING_DISTRIBUTOR}, tuple(edges))


def _way(region: Region, edges: list[Edge], random: Random) -> frozenset[Edge]:
    """It comes to an operator that has state."""
    while True:
        way = frozenset(edge for edge in edges if random.random() < 0.7)
        reached = [region.head]
        for operator in reached:
            reached += (target for source, target in way if source == operator and target not in reached)
        if not region.stateful.isdisjoint(reached):
            return way
