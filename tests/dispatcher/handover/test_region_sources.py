"""Sources that move with their keys, as in the seed: a stateless lister, a distributor, a reader with offsets."""

from collections.abc import Hashable
from dataclasses import dataclass
from itertools import pairwise

import pytest

from dispatcher.handover.region.errors import SourceInRegion, StateNotKeyed
from dispatcher.handover.region.graph import Graph, Kind, regions
from tests.dispatcher.handover.region_world import Broken, Record, World


@dataclass(frozen=True)
class Example:
    lister: str
    distributor: str
    reader: str
    keys: tuple[Hashable, Hashable]
    """What the lister lists."""

    @property
    def graph(self) -> Graph:
        kinds = {
            self.lister: Kind.SOURCE,
            self.distributor: Kind.KEYING_DISTRIBUTOR,
            self.reader: Kind.STATEFUL,
            "count": Kind.STATEFUL,
        }
        names = tuple(kinds)
        return Graph(kinds, tuple(pairwise(names)))


FILES = Example("directory watcher", "by filename", "file reader", ("a.csv", "b.csv"))
KAFKA = Example("KafkaLister", "by (topic, partition)", "KafkaReader", (("orders", 0), ("orders", 1)))


class Reading(World):
    """Records are read at the offset that is the reader's state: the number of rows that it has read of the key."""

    def __init__(self, example: Example) -> None:
        self.example = example
        super().__init__(example.graph, dict.fromkeys(example.keys, 0))
        for key in example.keys:
            self.record(Record(key, "listed"))
        self.flow()

    def offset(self, unit: int, key: Hashable) -> int:
        return len(self.states[unit, self.example.reader][key]) - 1

    def read_next(self, unit: int, key: Hashable) -> None:
        self.read(unit, self.example.reader, Record(key, f"row {self.offset(unit, key)}"))


@pytest.mark.parametrize("example", [FILES, KAFKA], ids=lambda example: example.lister)
def test_the_reader_goes_on_at_its_offset_on_the_other_unit(example: Example) -> None:
    world = Reading(example)
    moving, staying = example.keys
    for key in (moving, moving, staying):
        world.read_next(0, key)
    world.ask(0)
    world.give(moving)
    world.goes(example.distributor, example.reader)
    world.goes(example.distributor, example.reader)
    # Its offset is told: it reads no further, while the other key goes on.
    world.read_next(0, moving)
    world.read_next(0, staying)
    world.flow()
    assert (world.offset(1, moving), world.offset(0, staying)) == (2, 2)
    world.read_next(1, moving)
    world.flow()
    world.ends()
    assert world.states[1, "count"] == {moving: {"listed": 1, "row 0": 1, "row 1": 1, "row 2": 1}}


def test_a_source_that_is_not_split_is_refused() -> None:
    with pytest.raises(StateNotKeyed, match=r"a source is split into a lister .* and a reader"):
        regions(Graph({"files": Kind.STATEFUL}, ()))
    kinds = {"by": Kind.KEYING_DISTRIBUTOR, "files": Kind.SOURCE, "count": Kind.STATEFUL}
    with pytest.raises(SourceInRegion, match="after INTERROGATE has passed are not among the leaving"):
        regions(Graph(kinds, (("by", "files"), ("files", "count"))))


def test_because_the_keys_it_makes_behind_interrogate_would_not_be_among_the_leaving() -> None:
    kinds = {"by": Kind.KEYING_DISTRIBUTOR, "files": Kind.STATEFUL, "count": Kind.STATEFUL}
    world = World(Graph(kinds, (("by", "files"), ("files", "count"))), {"new.csv": 0})
    world.ask(0)
    world.goes("by", "files")
    world.read(0, "files", Record("new.csv", "row 0"))
    with pytest.raises(Broken, match=r"unit 0 has state of \{'new.csv'\}, and nobody knows"):
        world.flow()
