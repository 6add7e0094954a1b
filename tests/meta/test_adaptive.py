"""The rules of adaptive fragments: each alone, and all of them under random workers on a clock that steps."""

from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from meta.lifecycle import AdaptivePolicy, Moment, Worker
from meta.mapping.placement import choose_units
from meta.mapping.plan import first_mapping, plan
from meta.mapping.publication import Base, Current, MappingVersion, Phase
from meta.rescaling.adaptive import (
    CoolingDown,
    InDoubt,
    NobodyLives,
    NotNow,
    RescaleUnderWay,
    TooFewLive,
    TooManyVanished,
    Wish,
    hindrance,
    wish,
)

VNODES = 8
TIMEOUT_MS = 2_000
COOL_DOWN_MS = 6_000
START_MS = 1_000_000
POLICY = AdaptivePolicy(min=2, max=4, cool_down_ms=COOL_DOWN_MS)


@dataclass
class World:
    """A fragment and its workers, all of whom beat each second unless they died."""

    policy: AdaptivePolicy = POLICY
    now_ms: int = START_MS
    silence_from_ms: int = START_MS
    workers: dict[str, Worker] = field(default_factory=dict)
    dead: set[str] = field(default_factory=set)
    phase: Phase = Phase.SETTLED
    began_at_ms: int = START_MS - COOL_DOWN_MS
    rescales: list[int] = field(default_factory=list)
    version: MappingVersion = field(init=False)

    @classmethod
    def of(cls, *unit_counts: int, **more: Any) -> "World":
        """Workers w1, w2, ... with so many units each; the fragment runs on as many of them as it may."""
        world = cls(**more)
        for count in unit_counts:
            world.join(count)
        units = [unit for worker in world.workers.values() for unit in worker.units]
        chosen = choose_units(units, None, min(len(units), world.policy.max))
        world.version = MappingVersion("flights", 1, "h", chosen, first_mapping(VNODES, chosen))
        return world

    @property
    def moment(self) -> Moment:
        return Moment(self.now_ms, self.silence_from_ms)

    @property
    def units(self) -> list[int]:
        return [unit.id for unit in self.version.units]

    @property
    def fleet(self) -> list[Worker]:
        return list(self.workers.values())

    @property
    def not_now(self) -> NotNow | None:
        wished = self.wished
        assert wished is not None, "it runs where it should"
        current = Current(self.version.version, self.phase, "0" * 64)
        return hindrance(
            self.policy, wished, self.version, current, self.began_at_ms, self.fleet, self.moment
        )

    @property
    def spans(self) -> list[int]:
        """Between one rescale and the next."""
        return [second - first for first, second in pairwise(self.rescales)]

    @property
    def wished(self) -> Wish | None:
        return wish(self.policy, self.version, self.fleet, self.moment)

    def join(self, count: int) -> str:
        """Unit ids count up over all workers; a name that is taken is a worker that comes back."""
        name = f"w{len(self.workers) + 1}"
        first = 1 + sum(len(worker.unit_ids) for worker in self.workers.values())
        ids = tuple(range(first, first + count))
        self.workers[name] = Worker(name, ids, TIMEOUT_MS, self.now_ms, self.now_ms)
        return name

    def drain(self, name: str, draining: bool = True) -> None:
        self.workers[name] = replace(self.workers[name], draining=draining)

    def outage(self, span_ms: int) -> None:
        """The service is away: nobody is heard, and then silence counts anew."""
        self.now_ms += span_ms
        self.silence_from_ms = self.now_ms

    def pass_time(self, span_ms: int) -> None:
        for _ in range(span_ms // 1_000):
            self.now_ms += 1_000
            for name in self.workers.keys() - self.dead:
                self.workers[name] = replace(self.workers[name], seen_at_ms=self.now_ms)
            self.step()

    def step(self) -> None:
        """What each replica does every second."""
        wished = self.wished
        if wished is None or self.not_now is not None:
            return
        usable = {
            unit.id
            for worker in self.fleet
            if worker.alive(self.moment) and not worker.draining
            for unit in worker.units
        }
        assert {unit.id for unit in wished.units} <= usable
        assert len(wished.units) <= self.policy.max
        assert len(wished.units) >= min(self.policy.min, len(usable))
        before = Base(self.version.version, self.version.units, self.version.mapping)
        mapping = plan(self.version.mapping, wished.units).mapping
        version = self.version.version + 1
        self.version = MappingVersion("flights", version, "h", wished.units, mapping, before)
        self.began_at_ms = self.now_ms
        self.rescales.append(self.now_ms)


def test_nothing_moves_while_it_runs_on_all_there_is() -> None:
    world = World.of(2, 1)
    world.pass_time(60_000)
    assert (world.units, world.rescales) == ([1, 2, 3], [])


def test_it_grows_onto_a_new_worker_and_never_beyond_its_max() -> None:
    world = World.of(2, 1)
    world.join(3)
    world.pass_time(1_000)
    assert len(world.units) == 4
    assert {1, 2, 3} < set(world.units), "those it had stay"
    world.join(3)
    world.pass_time(60_000)
    assert len(world.rescales) == 1, "at its max nothing moves, whoever joins"


def test_it_never_has_more_units_than_vnodes() -> None:
    world = World.of(2, policy=AdaptivePolicy(1, 4_096, COOL_DOWN_MS))
    world.join(20)
    world.pass_time(1_000)
    assert len(world.units) == VNODES


def test_it_replaces_a_lost_worker_at_the_same_size_where_there_is_another() -> None:
    world = World.of(2, 2, 2)
    assert world.units == [1, 2, 3, 5]
    world.dead.add("w1")
    world.pass_time(TIMEOUT_MS - 1_000)
    assert world.rescales == []
    world.pass_time(1_000)
    assert (world.units, len(world.rescales)) == ([3, 4, 5, 6], 1)


def test_a_draining_worker_is_left_but_not_below_min() -> None:
    world = World.of(2, 1)
    world.drain("w1")
    assert world.not_now == TooFewLive(available=1, least=2, draining=("w1",))
    assert "the draining worker w1" in str(world.not_now)
    world.pass_time(60_000)
    assert world.rescales == []
    world.join(1)
    world.pass_time(1_000)
    assert world.units == [3, 4]


def test_a_lost_unit_is_replaced_even_where_that_is_below_min() -> None:
    world = World.of(1, 1, 1, policy=AdaptivePolicy(3, 4, COOL_DOWN_MS))
    world.dead.add("w2")
    world.pass_time(TIMEOUT_MS)
    assert world.units == [1, 3]
    world.dead.clear()
    world.pass_time(COOL_DOWN_MS - 1_000)
    assert isinstance(world.not_now, CoolingDown)
    world.pass_time(1_000)
    assert world.units == [1, 2, 3]


def test_a_lost_unit_takes_a_draining_one_along_below_min() -> None:
    world = World.of(1, 1, 1, 1)
    world.drain("w1")
    world.drain("w2")
    world.drain("w4")
    assert isinstance(world.not_now, TooFewLive)
    world.dead.add("w2")
    world.pass_time(TIMEOUT_MS)
    assert world.units == [3]


def test_where_nobody_lives_it_stays_as_it_is() -> None:
    world = World.of(1, policy=AdaptivePolicy(1, 4, COOL_DOWN_MS))
    world.dead.add("w1")
    world.pass_time(60_000)
    assert (world.not_now, world.units, world.rescales) == (NobodyLives(), [1], [])


def test_one_rescale_at_a_time() -> None:
    world = World.of(2)
    world.phase = Phase.ACCEPTED
    world.join(1)
    world.pass_time(60_000)
    assert world.not_now == RescaleUnderWay(1, Phase.ACCEPTED)
    world.phase = Phase.SETTLED
    world.pass_time(1_000)
    assert world.units == [1, 2, 3]


def test_a_worker_that_comes_and_goes_causes_one_rescale_a_cool_down() -> None:
    world = World.of(2)
    flapping = world.join(1)
    for _ in range(10):
        world.dead.discard(flapping)
        world.pass_time(1_000)
        world.dead.add(flapping)
        world.pass_time(TIMEOUT_MS + 1_000)
    assert len(world.rescales) > 2
    assert all(span_ms >= COOL_DOWN_MS for span_ms in world.spans)
    world.dead.discard(flapping)
    world.pass_time(2 * COOL_DOWN_MS)
    assert world.units == [1, 2, 3]


def test_more_than_half_vanishing_at_once_is_waited_for() -> None:
    world = World.of(1, 1, 1)
    world.dead |= {"w1", "w2"}
    world.pass_time(TIMEOUT_MS)
    lost_at_ms = world.now_ms
    assert world.not_now == TooManyVanished(("w1", "w2"), lost_at_ms + COOL_DOWN_MS)
    assert "network cut" in str(world.not_now)
    world.pass_time(COOL_DOWN_MS - 1_000)
    assert world.rescales == []
    world.dead.clear()
    world.pass_time(60_000)
    assert world.rescales == [], "the cut is over, and nothing had moved"


def test_more_than_half_that_stay_away_are_taken_for_lost_after_a_cool_down() -> None:
    world = World.of(1, 1, 1)
    world.dead |= {"w1", "w2"}
    world.pass_time(TIMEOUT_MS + COOL_DOWN_MS)
    assert world.units == [3]


def test_losses_further_apart_than_a_cool_down_did_not_vanish_at_once() -> None:
    world = World.of(1, 1, 1)
    world.phase = Phase.RESCALING
    world.dead.add("w1")
    world.pass_time(COOL_DOWN_MS)
    world.dead.add("w2")
    world.pass_time(TIMEOUT_MS)
    world.phase = Phase.SETTLED
    assert world.not_now is None


def test_half_of_two_workers_is_not_more_than_half() -> None:
    world = World.of(1, 1, policy=AdaptivePolicy(1, 4, COOL_DOWN_MS))
    world.dead.add("w1")
    world.pass_time(TIMEOUT_MS)
    assert world.units == [2]


def test_after_an_outage_nobody_is_lost_before_it_could_have_been_heard() -> None:
    world = World.of(1, 1, 1)
    world.dead.add("w3")
    world.outage(600_000)
    world.join(1)
    assert world.not_now == InDoubt(("w1", "w2", "w3"))
    world.pass_time(1_000)
    assert world.not_now == InDoubt(("w3",))
    assert "has not heard worker w3" in str(world.not_now)
    world.pass_time(TIMEOUT_MS - 1_000)
    assert world.units == [1, 2, 4]


def test_after_an_outage_nothing_moves_onto_who_was_long_lost() -> None:
    world = World.of(1, 1, 1)
    world.dead.add("w3")
    world.pass_time(TIMEOUT_MS)
    assert world.units == [1, 2]
    world.outage(600_000)
    world.pass_time(60_000)
    assert len(world.rescales) == 1, "w3 counts as alive again for a while, and was not heard"


def test_a_clock_that_is_set_back_far_does_not_hold_it_up() -> None:
    world = World.of(2)
    world.began_at_ms = world.now_ms
    world.now_ms -= 3_600_000
    world.join(1)
    world.pass_time(1_000)
    assert world.units == [1, 2, 3]


EVENTS = st.one_of(
    st.tuples(st.just("join"), st.integers(1, 3)),
    st.tuples(st.sampled_from(["die", "return", "drain", "undrain"]), st.integers(0, 7)),
    st.tuples(st.just("wait"), st.integers(1, 15)),
    st.tuples(st.just("outage"), st.integers(1, 100)),
    st.tuples(st.just("clock"), st.integers(-20, -1)),
    st.tuples(st.just("other rescale"), st.sampled_from(list(Phase))),
)
POLICIES = st.builds(
    lambda least, more: AdaptivePolicy(least, least + more, COOL_DOWN_MS),
    st.integers(1, 5),
    st.integers(0, 6),
)


def happen(world: World, event: tuple[str, Any]) -> None:
    verb, value = event
    names = sorted(world.workers)
    name = names[value % len(names)] if isinstance(value, int) else ""
    match verb:
        case "join" if len(names) < 8:
            world.join(value)
        case "die":
            world.dead.add(name)
        case "return":
            world.dead.discard(name)
        case "drain" | "undrain":
            world.drain(name, draining=verb == "drain")
        case "outage":
            world.outage(value * 1_000)
        case "clock":
            world.now_ms += value * 1_000
        case "other rescale":
            world.phase = value
    world.pass_time(value * 1_000 if verb == "wait" else 1_000)


@settings(max_examples=300, deadline=None)
@given(policy=POLICIES, events=st.lists(EVENTS, max_size=25))
def test_whatever_happens_to_its_workers(policy: AdaptivePolicy, events: list[tuple[str, Any]]) -> None:
    """The bounds hold at each rescale (see `step`); two are a cool-down apart on a clock that is not set back; in
    the end it runs where it should, and then nothing moves any more."""
    world, set_back_ms = World.of(2, 2, policy=policy), 0
    for event in events:
        before = len(world.rescales)
        happen(world, event)
        if event[0] == "clock":
            # At most one rescale more for each step back, and from it on they are apart again.
            world.rescales = world.rescales[-1:] if len(world.rescales) > before else []
            set_back_ms -= event[1] * 1_000
        assert all(span_ms >= COOL_DOWN_MS for span_ms in world.spans), world.spans
    world.phase = Phase.SETTLED
    # Who was last heard at an instant that is to come is not silent before it has come.
    world.pass_time(set_back_ms + TIMEOUT_MS + 2 * COOL_DOWN_MS)
    if world.wished is not None:
        assert isinstance(world.not_now, NobodyLives | TooFewLive)
    converged = world.version
    world.pass_time(2 * COOL_DOWN_MS)
    assert world.version == converged
