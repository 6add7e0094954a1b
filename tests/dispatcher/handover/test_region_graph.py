"""A dataflow is cut into regions, or refused."""

from itertools import pairwise

import pytest

from dispatcher.handover.region.errors import (
    Cycle,
    DoubledEdge,
    GraphError,
    KeysChanged,
    NoSuchOperator,
    NotKeyed,
    RegionsUnited,
    SourceInRegion,
    StateBeforeDistributor,
    StateNotKeyed,
)
from dispatcher.handover.region.graph import Graph, Kind, Region, regions

KINDS = {
    "source": Kind.SOURCE,
    "other": Kind.SOURCE,
    "map": Kind.STATELESS,
    "key": Kind.KEYING,
    "key2": Kind.KEYING,
    "split": Kind.DISTRIBUTOR,
    "by": Kind.KEYING_DISTRIBUTOR,
    "by2": Kind.KEYING_DISTRIBUTOR,
    "count": Kind.STATEFUL,
    "sum": Kind.STATEFUL,
    "sink": Kind.STATELESS,
}


def graph(*ways: str) -> Graph:
    """`ways`: operators one behind the other."""
    steps = [way.split() for way in ways]
    edges = [pair for way in steps for pair in pairwise(way)]
    names = {name for way in steps for name in way}
    return Graph({name: kind for name, kind in KINDS.items() if name in names}, tuple(edges))


def test_a_region_ends_where_the_next_begins() -> None:
    assert regions(graph("source by count by2 sum sink")) == (
        Region("by", {"by": ("count",), "count": ("by2",)}, frozenset({"count"})),
        Region("by2", {"by2": ("sum",), "sum": ("sink",), "sink": ()}, frozenset({"sum"})),
    )


def test_a_region_has_splits_and_unions() -> None:
    (region,) = regions(graph("source by map sum", "by count sum", "count sink"))
    assert region.targets == {
        "by": ("map", "count"),
        "map": ("sum",),
        "count": ("sum", "sink"),
        "sum": (),
        "sink": (),
    }


def test_keying_and_distributing_may_be_two_operators_with_stateless_ones_between() -> None:
    first, second = regions(graph("source key map split count key2 by2 sum"))
    assert (first.head, first.targets["count"]) == ("split", ("key2",))
    assert "key2" not in first.targets
    assert second.head == "by2"


def test_two_keyings_may_meet_before_their_distributor() -> None:
    (region,) = regions(graph("source key map split count", "other key2 map"))
    assert region.head == "split"


def test_regions_may_meet_at_a_distributor() -> None:
    kinds = {**KINDS, "by3": Kind.KEYING_DISTRIBUTOR}
    edges = (("by", "count"), ("count", "by3"), ("by2", "by3"), ("by3", "sum"))
    assert {region.head for region in regions(Graph(kinds, edges))} >= {"by", "by2", "by3"}


REFUSED = [
    (
        graph("source by count sink", "other by2 sink"),
        RegionsUnited,
        "'sink' unites what 'by', 'by2' have keyed",
    ),
    (graph("source by count sink", "other sink"), RegionsUnited, "'sink' unites what 'by', 'other'"),
    (graph("source key count split"), StateBeforeDistributor, "'count' has state by the keys of 'key'"),
    (
        graph("source by key count split"),
        KeysChanged,
        "'key' changes keys inside the region of 'by', and 'count'",
    ),
    (graph("source by count key map sink"), KeysChanged, "and 'sink' gets them"),
    (graph("source by count key key2 sink"), KeysChanged, "'key2' .* the region of 'by', and 'sink' gets"),
    (graph("source by count key map key2 sum"), KeysChanged, "'key2' .* the region of 'by', and 'sum' gets"),
    (graph("source by count key other sink"), SourceInRegion, "inside the region of 'by'"),
    (
        graph("source by other count"),
        SourceInRegion,
        "'other' makes keys of its own .* split it into a lister",
    ),
    (graph("source count sink"), StateNotKeyed, "'count' has state and no distributor before it"),
    (graph("count sink"), StateNotKeyed, "a lister before the distributor and a reader behind it"),
    (graph("source map split count"), NotKeyed, "'split' gets records without a key"),
    (graph("source key map split count", "other map"), NotKeyed, "put a keying operator before it"),
    (graph("source by map sum map"), Cycle, "map -> sum -> map|sum -> map -> sum"),
    (graph("source by count", "source by"), DoubledEdge, "'source' -> 'by' is there twice"),
    (
        Graph({"by": Kind.DISTRIBUTOR}, (("by", "lost"),)),
        NoSuchOperator,
        "names 'lost', which is no operator",
    ),
]


@pytest.mark.parametrize(("refused", "error", "message"), REFUSED)
def test_what_no_protocol_could_move_is_refused(
    refused: Graph, error: type[GraphError], message: str
) -> None:
    with pytest.raises(error, match=message):
        regions(refused)


def test_the_order_of_the_edges_decides_nothing_but_the_order_of_copies() -> None:
    whole = graph("source by map sum", "by count sum", "count sink")
    turned = Graph(whole.kinds, whole.edges[::-1])
    (region,), (other,) = regions(whole), regions(turned)
    assert (other.head, other.stateful) == (region.head, region.stateful)
    assert {name: set(targets) for name, targets in other.targets.items()} == {
        name: set(targets) for name, targets in region.targets.items()
    }
    assert other.targets["by"] == region.targets["by"][::-1] == ("count", "map")
