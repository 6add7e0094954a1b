"""What each rule inside a region is good for: an order of events, with the rule and without it.

There is a short way from the distributor d to the operator o, and a long one by way of m; behind o is n, and then the
next distributor, e.
"""

from collections.abc import Callable

import pytest

from dispatcher.handover.effect import Interrogate
from dispatcher.handover.errors import IllegalEvent
from dispatcher.handover.event import Interrogated
from dispatcher.handover.region import head
from dispatcher.handover.region.graph import Graph, Kind, regions
from dispatcher.handover.region.head import Head
from dispatcher.handover.region.message import Met, MetWithState
from dispatcher.handover.region.rules import Rules
from tests.dispatcher.handover.region_world import Broken, Record, World

DIAMOND = Graph(
    {
        "d": Kind.DISTRIBUTOR,
        "m": Kind.STATEFUL,
        "o": Kind.STATEFUL,
        "n": Kind.STATEFUL,
        "e": Kind.KEYING_DISTRIBUTOR,
    },
    (("d", "o"), ("d", "m"), ("m", "o"), ("o", "n"), ("n", "e")),
)
R = Record("a", "r")


def to_m_alone(record: Record, source: str, target: str) -> bool:
    return (source, target) == ("d", "m")


def a_copy_goes_into_every_edge(world: World) -> None:
    world.routing = to_m_alone
    world.record(R)
    world.flow()
    world.ask(0)


def acquire_goes_on_with_its_first(world: World) -> None:
    """A record overtakes the second copy on the short way to o, and is at n before the state if that waits at o."""
    world.record(R)
    world.flow()
    world.give("a")
    world.flow(("state", "a", 1))
    world.record(Record("a", "behind"))
    world.happen(("state", "a", 1))
    world.flow(("edge", "d", "m", 1))


def collect_goes_on_with_its_last(world: World) -> None:
    """A record is still on the long way to o when the first copy is there, and n has not seen it."""
    world.record(R)
    world.give("a")
    world.flow(("edge", "m", "o", 0))


def keys_are_united(world: World) -> None:
    """m has told of a when o, the last, has nothing to tell."""
    a_copy_goes_into_every_edge(world)


def a_later_state_replaces(world: World) -> None:
    """A record is still on the long way when the first copy is at o."""
    world.record(R)
    world.goes("d", "o")
    world.give("a")
    world.goes("d", "o")


def and_so_does_none(world: World) -> None:
    """The record that ends the state is still on the long way."""
    world.routing = lambda _, source, target: (source, target) != ("d", "o")
    world.record(R)
    world.flow()
    world.record(Record("a", "r", -1))
    world.give("a")
    world.goes("d", "o")


def the_first_acquire_gives(world: World) -> None:
    """A record has changed the state when the second copy comes."""
    world.record(R)
    world.flow()
    world.give("a")
    world.flow(("state", "a", 1))
    world.record(Record("a", "behind"))
    world.happen(("state", "a", 1))
    world.goes("d", "o", unit=1)
    world.goes("d", "o", unit=1)


def the_first_drop_forgets(world: World) -> None:
    """The key has gone, and is back at o, when the second copy of Drop comes on the long way."""
    world.record(R)
    world.flow()
    world.give("a")
    world.goes("d", "m", "o")
    world.goes("d", "o", "n", "e")
    for operator in "moone":
        world.happen(("answer", operator, 0))
    world.goes("d", "o")
    long_way = ("edge", "d", "m", 0)
    world.flow(long_way)
    world.give("a")
    world.flow(long_way)
    assert "a" in world.states[0, "o"]


def every_copy_is_waited_for(world: World) -> None:
    a_copy_goes_into_every_edge(world)


def on_each_edge(world: World) -> None:
    """What m has told is slower than what o has, behind it: two copies went out, and two are acknowledged."""
    a_copy_goes_into_every_edge(world)
    world.goes("d", "m", "o")
    world.goes("d", "o", "n", "e")
    world.flow(("answer", "m", 0))


STORIES: list[tuple[Callable[[World], None], Rules]] = [
    (a_copy_goes_into_every_edge, Rules(copies=False)),
    (acquire_goes_on_with_its_first, Rules(hurries=False)),
    (collect_goes_on_with_its_last, Rules(waits=False)),
    (keys_are_united, Rules(unites=False)),
    (a_later_state_replaces, Rules(replaces=False)),
    (and_so_does_none, Rules(replaces_by_none=False)),
    (the_first_acquire_gives, Rules(takes_first=False)),
    (the_first_drop_forgets, Rules(drops_first=False)),
    (every_copy_is_waited_for, Rules(counts=False)),
    (on_each_edge, Rules(counts_by_edge=False)),
]


@pytest.mark.parametrize(("story", "without"), STORIES, ids=lambda item: getattr(item, "__name__", ""))
def test_a_rule_keeps_what_is_lost_without_it(story: Callable[[World], None], without: Rules) -> None:
    _to_the_end(story, World(DIAMOND, {"a": 0}))
    with pytest.raises(Broken):
        _to_the_end(story, World(DIAMOND, {"a": 0}, rules=without))


def _to_the_end(story: Callable[[World], None], world: World) -> None:
    story(world)
    world.flow()
    world.ends()


def test_messages_stop_at_the_next_distributor() -> None:
    kinds = {
        "by": Kind.KEYING_DISTRIBUTOR,
        "a": Kind.STATEFUL,
        "by2": Kind.KEYING_DISTRIBUTOR,
        "b": Kind.STATEFUL,
    }
    row = Graph(kinds, (("by", "a"), ("a", "by2"), ("by2", "b")))
    world = World(row, {"k": 0})
    world.record(Record("k", "r"))
    world.flow()
    world.ask(0)
    world.give("k")
    ways = set()
    while lanes := world.possible():
        ways |= {lane[1:3] for lane in lanes if lane[0] == "edge"}
        world.happen(lanes[0])
    world.ends()
    assert ways == {("by", "a"), ("a", "by2")}
    second: Head[str] = Head(regions(row)[1])
    _, (put,) = head.step(second, Interrogate())
    assert (put.source, put.target, put.copy.number) == ("by2", "b", 1)


def test_a_region_without_operators_answers_at_once() -> None:
    alone: Head[str] = Head(regions(Graph({"d": Kind.DISTRIBUTOR}, ()))[0])
    after, effects = head.step(alone, Interrogate())
    assert (effects, after.open) == ((Interrogated(frozenset()),), {})


def test_an_answer_to_nothing_is_an_error() -> None:
    whole: Head[str] = Head(regions(DIAMOND)[0])
    met = Met(1, "d", "o", ("e",))
    with pytest.raises(IllegalEvent, match="Head has no rule for Met"):
        head.step(whole, met)
    asked, _ = head.step(whole, Interrogate())
    with pytest.raises(IllegalEvent, match="MetWithState"):
        head.step(asked, MetWithState(met, b""))
