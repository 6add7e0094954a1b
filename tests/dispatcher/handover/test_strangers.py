"""Whatever is said, and whoever says it: a unit takes it, or raises one of our errors; and so does the coordinator."""

from random import Random
from typing import Any

import pytest

from dispatcher.handover.coordinator import advance
from dispatcher.handover.effect import Acknowledged, Drained, Installed, Left, Released
from dispatcher.handover.errors import HandoverError
from dispatcher.handover.event import Received
from dispatcher.handover.job import JobEvent, MoveSource, Reported, Requested, SnapshotDue, UnitLost
from dispatcher.handover.message import (
    Acquire,
    Batch,
    Credit,
    Done,
    Final,
    Flush,
    Flushed,
    Frame,
    Message,
    Path,
    Records,
    Redistribute,
    RelayedWatermark,
    Scaleup,
    Sets,
    Shutdown,
    Watermark,
)
from dispatcher.handover.simulator.draw import Draw
from dispatcher.handover.simulator.lanes import ORDERS, STATE, Lane
from dispatcher.handover.simulator.run import Run
from dispatcher.handover.simulator.world import World
from dispatcher.handover.step import step
from dispatcher.handover.unit import Unit
from dispatcher.handover.version import Version
from tests.dispatcher.handover.runs import options

SEEDS = 60
FRAMES = 25
KEYS = (*range(4), 99)
UNITS = (*range(6), 77)


class Until:
    """The draw of a run that ends after so many steps."""

    def __init__(self, seed: int, steps: int) -> None:
        self.draw = Draw(Random(f"{seed} draw"))
        self.left = steps

    def choose(self, lanes: list[Lane]) -> Lane | None:
        self.left -= 1
        return self.draw.choose(lanes) if self.left >= 0 else None


def halted(protocol: str, seed: int, random: Random) -> World:
    run = Run(options(seed, protocol=protocol), seed, draw=Until(seed, random.randrange(120)))
    run.finish()
    return run.world


def some(random: Random, values: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(random.sample(values, random.randrange(len(values))))


def said(random: Random) -> Message[int]:
    unit, key, time = random.choice(UNITS), random.choice(KEYS), random.randrange(30)
    source, path = random.choice(("p0", "p1", "q")), random.choice(list(Path))
    index, count = random.randrange(3), random.randrange(3)
    batch = Batch(key, source, (time,), random.randrange(3))
    following = random.choice((None, some(random, KEYS)))
    return random.choice(
        (
            Records(batch, unit, random.choice(UNITS), path),
            Acquire(key, index, count, b"state", {source: time}),
            Credit(unit, path, source, random.randrange(3)),
            Watermark(source, time),
            RelayedWatermark(source, time),
            Done(),
            Flush(),
            Flushed(unit),
            Shutdown(),
            Scaleup(),
            Sets(frozenset(some(random, KEYS)), some(random, KEYS)),
            Final(some(random, KEYS)),
            Redistribute(key, index, count, b"state", following),
        )
    )


def received(unit: Unit[int, Any], following: Version[int], random: Random) -> Received[int]:
    """As it could be on a stream: its number is right, and its version nearly always."""
    own = unit.protocol.version_of(unit.phase)
    sender = random.choice(UNITS)
    version, digest = random.choice(
        (
            (own.number, own.digest),
            (own.number, own.digest),
            (following.number, following.digest),
            (own.number + random.randint(-1, 2), random.choice((own.digest, "other"))),
        )
    )
    number = unit.links.incoming.get(sender, 0)
    return Received(sender, Frame(unit.execution, version, digest, number, said(random)))


@pytest.mark.parametrize("protocol", ["ordered", "icadd", "controller"])
def test_a_unit_takes_a_frame_or_raises_an_error_of_ours(protocol: str) -> None:
    taken = refused = 0
    for seed in range(SEEDS):
        random = Random(seed)
        world = halted(protocol, seed, random)
        for number, halted_unit in world.units.items():
            unit = halted_unit
            # What was on its way to it comes in between.
            orders: list[Any] = [
                thing
                for lane, queue in world.lanes.queues.items()
                if lane[0] in (ORDERS, STATE) and lane[-1] == number
                for thing in queue
            ]
            for _ in range(FRAMES):
                event = received(unit, world.job.target, random)
                if orders and random.random() < len(orders) / FRAMES:
                    event = orders.pop(0)
                try:
                    unit, _ = step(unit, event)
                    taken += 1
                except HandoverError:
                    refused += 1
    assert taken > 100
    assert refused > 100


def told(world: World, random: Random) -> JobEvent[int]:
    unit, key, source = random.choice(UNITS), random.choice(KEYS), random.choice(("p0", "p1", "q"))
    version, epoch = world.version.number + random.randint(-1, 2), world.job.epoch + random.randint(0, 2)
    report = random.choice(
        (Installed(version, key), Acknowledged(version), Released(source), Drained(epoch), Left())
    )
    units = frozenset(some(random, UNITS))
    owners = {of: random.choice(UNITS) for of in some(random, KEYS)}
    return random.choice(
        (
            Reported(unit, report, world.job.execution + random.randint(-1, 1)),
            MoveSource(source, unit),
            UnitLost(unit),
            SnapshotDue(),
            Requested(Version(version, "some", owners, units)),
            Requested(Version(version, "same", world.version.owners, world.version.units)),
        )
    )


def test_the_coordinator_takes_what_it_is_told_or_raises_an_error_of_ours() -> None:
    taken = refused = 0
    for seed in range(SEEDS):
        random = Random(seed)
        world = halted("ordered", seed, random)
        job = world.job
        for _ in range(FRAMES):
            try:
                job, _ = advance(job, told(world, random))
                taken += 1
            except HandoverError:
                refused += 1
    assert taken > 100
    assert refused > 100
