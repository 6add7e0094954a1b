"""One run, and the tally of many."""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from dispatcher.handover.job import (
    DeadlinePassed,
    JobEvent,
    MoveSource,
    Moving,
    Requested,
    Rescaling,
    SnapshotDue,
    UnitLost,
)
from dispatcher.handover.pacing import Pacing
from dispatcher.handover.simulator import operators, topology
from dispatcher.handover.simulator.draw import Chooser, Draw
from dispatcher.handover.simulator.machine import machine
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.source import END, Sources
from dispatcher.handover.simulator.topology import VnodeVersion
from dispatcher.handover.simulator.witness import Kind, Violation
from dispatcher.handover.simulator.world import Tracer, World

STEPS_MAX: Final = 20_000
DEADLINES_SHARE: Final = 0.3
STATELESS_SHARE: Final = 0.5
ABORTS_SHARE: Final = 0.3


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of one run. `hops` are those of each record, `held` is how many had to wait; `messages`: by form.

    `overtaking`: the records that were applied before an older one, where no order is promised.
    """

    seed: int
    steps: int
    hops: tuple[int, ...]
    held: int
    messages: Mapping[type, int]
    overtaking: int
    violation: Violation | None = None


class Run:
    """One run: the world, the draw, and what is asked of the job from outside."""

    def __init__(
        self, options: Options, seed: int, *, draw: Chooser | None = None, trace: Tracer | None = None
    ) -> None:
        self.options = options
        self.seed = seed
        self.random = random = Random(f"{seed}")  # noqa: S311 - a schedule, no secret
        self.draw = draw or Draw(Random(f"{seed} draw"))  # noqa: S311
        sources = Sources(
            tuple(f"p{at}" for at in range(options.units_before + 1)),
            options.records,
            options.vnodes,
            random,
            options.distributors,
            options.batch_records,
        )
        version = topology.first(options, random)
        simulated = machine(options.protocol, options.variant, **options.parameters)
        self.world = World(
            simulated,
            version,
            sources,
            credit_bytes=options.credit_frames,
            recoverable=options.crash,
            restart=self._version_after_loss,
            trace=trace,
        )
        drawn = operators.drawn(options, random)
        if simulated.family.by_key:
            self.world.begin_without([key for key in version.owners if random.random() < STATELESS_SHARE])
        self.world.work_with(drawn)
        loads = Random(f"{seed} loads")  # noqa: S311
        self.loads = {vnode: loads.random() for vnode in range(options.vnodes)}
        self.aborts = Random(f"{seed} aborts")  # noqa: S311
        self.wishes = self._wishes()
        self.steps = 0

    def finish(self) -> Outcome:
        violation = None
        try:
            while self.steps < STEPS_MAX and self._advance():
                self.steps += 1
            self._end()
        except Violation as found:
            violation = found
        witness = self.world.witness
        return Outcome(
            self.seed,
            self.steps,
            tuple(witness.hops.values()),
            len(witness.held),
            self.world.messages,
            witness.overtaking,
            violation,
        )

    def _advance(self) -> bool:
        """Whether anything could happen."""
        world = self.world
        while self.wishes and self.wishes[0][0] <= world.sources.read_count:
            self.wishes.pop(0)[1]()
        if world.running and world.deferred:
            self._ask_anew(world.deferred.pop(0))
        lanes = world.possible()
        if not lanes and self.wishes:
            self.wishes.pop(0)[1]()
            return True
        lane = self.draw.choose(lanes) if lanes else None
        if lane is not None:
            world.happen(lane)
        return lane is not None

    def _end(self) -> None:
        world = self.world
        if self.steps == STEPS_MAX or not world.running or not world.sources.exhausted:
            raise Violation(
                Kind.STUCK,
                f"after {self.steps} steps the job is {type(world.job.phase).__name__}, and its sources are at"
                f" {world.sources.position}",
            )
        world.ends(END)

    def _wishes(self) -> list[tuple[int, Callable[[], None]]]:
        """What is asked for, and after how many records (and watermarks)."""
        options, random = self.options, self.random
        asked = [self._rescale] * (3 if options.overlap else 1)
        if options.moving_sources:
            asked += [self._move_source] * 4
        if options.crash:
            asked += [self._snapshot, *[self._crash] * random.randint(1, 2)]
        return sorted(
            ((random.randrange(options.records + 1), wish) for wish in asked), key=lambda wish: wish[0]
        )

    def _rescale(self) -> None:
        """There and, with `overlap`, back again. Asked anew where the job was busy: the base is another then."""
        world, options = self.world, self.options
        there = len(world.version.units) != options.units_after
        unit_count = options.units_after if there else options.units_before
        following = topology.following(
            world.version,
            world.version.number + 1,
            unit_count,
            self.random,
            remap=options.remap,
            first_units=options.first_units,
        )
        world.tell(Requested(following, Pacing(options.parallel, options.order), self.loads))

    def _ask_anew(self, deferred: JobEvent[int]) -> None:
        """Where it was busy. Some rescales were aborted meanwhile, and are wanted again."""
        world = self.world
        if not isinstance(deferred, Requested):
            world.tell(deferred)
        elif self.aborts.random() < ABORTS_SHARE:
            world.deferred.append(deferred)
            world.tell(Requested(topology.renumbered(world.version)))
        else:
            self._rescale()

    def _move_source(self) -> None:
        world = self.world
        world.tell(
            MoveSource(
                self.random.choice(world.sources.names),
                self.random.choice(world.sources.may_read(world.units)),
            )
        )

    def _snapshot(self) -> None:
        self.world.tell(SnapshotDue())

    def _crash(self) -> None:
        world, phase = self.world, self.world.job.phase
        if isinstance(phase, Moving | Rescaling) and self.random.random() < DEADLINES_SHARE:
            world.tell(DeadlinePassed(phase.next.number))
        else:
            world.tell(UnitLost(self.random.choice(sorted(world.units))))

    def _version_after_loss(self, last: VnodeVersion, lost: int | None) -> VnodeVersion:
        return topology.without(
            last, last.number + 1, lost, self.random, first_units=self.options.first_units
        )


def run(options: Options, seed: int, trace: Tracer | None = None) -> Outcome:
    """Raises `Unknown`."""
    return Run(options, seed, trace=trace).finish()


@dataclass(slots=True)
class Tally:
    """Of many runs. `failed_seeds` are listed in order. `disordered`: the runs in which records overtook others."""

    runs: int = 0
    steps: int = 0
    violations: Counter[Kind] = field(default_factory=Counter)
    first_violation: Violation | None = None
    failed_seeds: list[int] = field(default_factory=list)
    hops: Counter[int] = field(default_factory=Counter)
    held: int = 0
    messages: Counter[type] = field(default_factory=Counter)
    disordered: int = 0
    overtaking: int = 0

    def add(self, outcome: Outcome) -> None:
        self.runs += 1
        self.steps += outcome.steps
        self.hops.update(outcome.hops)
        self.held += outcome.held
        self.messages.update(outcome.messages)
        self.disordered += outcome.overtaking > 0
        self.overtaking += outcome.overtaking
        if outcome.violation:
            self.first_violation = self.first_violation or outcome.violation
            self.violations[outcome.violation.kind] += 1
            self.failed_seeds.append(outcome.seed)

    @property
    def of_each_kind(self) -> dict[str, int]:
        return {kind.value: self.violations[kind] for kind in Kind}

    @property
    def hops_max(self) -> int:
        return max(self.hops, default=0)

    @property
    def hops_mean(self) -> float:
        return round(sum(hops * count for hops, count in self.hops.items()) / max(1, self.hops.total()), 3)
