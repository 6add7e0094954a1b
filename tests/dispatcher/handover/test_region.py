"""Messages inside a region, over thousands of graphs and schedules, and what is seen where a rule is left out."""

from dataclasses import replace
from random import Random

import pytest

from dispatcher.handover.errors import HandoverError
from dispatcher.handover.region.graph import Kind
from dispatcher.handover.region.rules import Rules
from dispatcher.handover.simulator.dataflow import graph
from dispatcher.handover.simulator.draw import Draw
from tests.dispatcher.handover.region_world import Broken, Record, World, drawn

SEEDS = 150
SEEDS_LONG = 4_000
SEEDS_TO_CATCH = 300
WISHES = 40


class Run:
    def __init__(self, seed: int, rules: Rules, *, readers_stop: bool) -> None:
        self.random = random = Random(f"{seed}")
        self.draw = Draw(Random(f"{seed} draw"))
        whole = graph(random.randint(2, 8), random)
        stateful = [name for name, kind in whole.kinds.items() if kind is Kind.STATEFUL]
        self.world = World(
            whole,
            {"a": 0, "b": 0, "c": 1},
            routing=drawn,
            rules=rules,
            chunk_bytes=random.choice((1, 16, 1 << 20)),
            readers_stop=readers_stop,
        )
        self.readers = [name for name in stateful if random.random() < 0.2]
        self.count = 0
        self.wishes = random.choice(
            (("give", "give", "record"), ("record", "record", "back", "back", "read", "give", "ask"))
        )
        self.taken_back: set[str] = set()

    def finish(self) -> World:
        """Raises `Broken`."""
        haste = self.random.choice((0.1, 0.3, 0.6))
        while (lanes := self.world.possible()) or self.count < WISHES:
            if self.count < WISHES and (not lanes or self.random.random() < haste):
                self.count += 1
                self._wish()
            else:
                self.world.happen(self.draw.choose(lanes))
        self.world.ends()
        return self.world

    def _wish(self) -> None:
        world, random = self.world, self.random
        key, unit = random.choice("abc"), random.choice((0, 1))
        match random.choice(self.wishes):
            case "record":
                world.record(Record(key, f"r{self.count}"))
            case "back":
                self._take_back()
            case "read":
                self._read(unit)
            case "give" if world.owners[key] is not None and key not in world.held:
                world.give(key)
            case "ask" if unit not in world.asked:
                world.ask(unit)

    def _take_back(self) -> None:
        left = [
            record
            for start, record in self.world.made
            if record.sign > 0 and start == "d" and record.name not in self.taken_back
        ]
        if left:
            record = self.random.choice(left)
            self.taken_back.add(record.name)
            self.world.record(replace(record, sign=-1))

    def _read(self, unit: int) -> None:
        for name in sorted(self.readers):
            for key in sorted(self.world.states[unit, name]):
                self.world.read(unit, name, Record(key, f"r{self.count} by {name}"))


def broken(seed: int, rules: Rules | None = None, *, readers_stop: bool = True) -> str | None:
    try:
        Run(seed, rules or Rules(), readers_stop=readers_stop).finish()
    except (Broken, HandoverError) as found:
        return str(found)
    return None


@pytest.mark.parametrize(
    ("first", "last"),
    [(0, SEEDS), pytest.param(SEEDS, SEEDS_LONG, marks=[pytest.mark.slow, pytest.mark.timeout(3600)])],
)
def test_nothing_is_broken(first: int, last: int) -> None:
    assert {seed: found for seed in range(first, last) if (found := broken(seed))} == {}


@pytest.mark.parametrize("rule", Rules.__slots__)
def test_a_rule_left_out_is_seen(rule: str) -> None:
    assert any(broken(seed, Rules(**{rule: False})) for seed in range(SEEDS_TO_CATCH))


def test_a_reader_that_reads_on_is_seen() -> None:
    assert any(broken(seed, readers_stop=False) for seed in range(SEEDS_TO_CATCH))
