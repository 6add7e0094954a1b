"""Units with one region each, of the same graph: edges, operators' states, records. It knows no rule of the messages.

A record is put on the edges that its name is drawn for, and again at each operator, so what each operator has to have
of it is known beforehand. An operator's state of a key is how often each name has come; a record of sign -1 takes back
an earlier one of its name, so a state can end. Readers are operators that make records of a key they have, unasked.
"""

import json
from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any
from zlib import crc32

from dispatcher.handover.effect import Collect, Drop, Install, Interrogate
from dispatcher.handover.event import Collected, Interrogated
from dispatcher.handover.region import head, passage
from dispatcher.handover.region.graph import Graph, Region, regions
from dispatcher.handover.region.head import Head
from dispatcher.handover.region.message import Copy, MetWithKeys, MetWithState
from dispatcher.handover.region.passage import (
    Arrived,
    Forget,
    Load,
    Put,
    Tell,
    TellKeys,
    TellState,
)
from dispatcher.handover.region.payload import unpack
from dispatcher.handover.region.rules import Rules
from dispatcher.handover.simulator.lanes import Lane, Lanes

State = dict[str, int]


class Broken(AssertionError):
    pass


@dataclass(frozen=True, slots=True)
class Record:
    key: Hashable
    name: str
    sign: int = 1


Routing = Callable[[Record, str, str], bool]


def everywhere(record: Record, source: str, target: str) -> bool:
    return True


def drawn(record: Record, source: str, target: str) -> bool:
    return crc32(f"{record.name} {source} {target}".encode()) % 3 > 0


class World:
    """`owners`: of each key. Lanes: ("edge", source, target, unit), ("answer", operator, unit), ("state", key, to)."""

    def __init__(
        self,
        graph: Graph,
        owners: Mapping[Hashable, int],
        *,
        routing: Routing = everywhere,
        rules: Rules | None = None,
        chunk_bytes: int = 16,
        readers_stop: bool = True,
    ) -> None:
        self.region: Region = regions(graph)[0]
        self.routing = routing
        self.readers_stop = readers_stop
        self.owners: dict[Hashable, int | None] = dict(owners)
        self.lanes = Lanes()
        units = (0, 1)
        self.heads: dict[int, Head[Hashable]] = {
            unit: Head(self.region, rules or Rules(), chunk_bytes) for unit in units
        }
        self.passages = {
            (unit, name): passage.passage(self.region, name, rules) for unit in units for name in graph.kinds
        }
        self.states: dict[tuple[int, str], dict[Hashable, State]] = {at: {} for at in self.passages}
        self.stopped: set[tuple[int, str, Hashable]] = set()
        self.made: list[tuple[str, Record]] = []
        self.held: dict[Hashable, list[Record]] = {}
        self.asked: dict[int, set[Hashable]] = {}
        self.answers: list[Interrogated[Hashable] | Collected[Hashable]] = []

    def possible(self) -> list[Lane]:
        return list(self.lanes.queues)

    def happen(self, lane: Lane) -> None:
        item = self.lanes.next(lane)
        match lane:
            case ("edge", str(source), str(target), int(unit)):
                self._arrive(unit, source, target, item)
            case ("answer", str(), int(unit)):
                self._tell_head(unit, item)
            case ("state", key, int(unit)):
                self.owners[key] = unit
                if unit in self.asked:
                    self.asked[unit].add(key)
                self._tell_head(unit, Install(key, item))
                for record in self.held.pop(key, ()):
                    self._enter(unit, record)

    def goes(self, *names: str, unit: int = 0) -> None:
        """What is next goes along these edges, one after the other."""
        for source, target in pairwise(names):
            self.happen(("edge", source, target, unit))

    def flow(self, *but: Lane) -> None:
        while lanes := [lane for lane in self.possible() if lane not in but]:
            self.happen(min(lanes, key=str))

    def record(self, record: Record) -> None:
        """Comes to the owner's distributor; it waits while the state is collected, or on its way."""
        unit = self.owners[record.key]
        if unit is None or record.key in self.held:
            self.held.setdefault(record.key, []).append(record)
        else:
            self._enter(unit, record)

    def read(self, unit: int, reader: str, record: Record) -> None:
        """A reader makes a record of its own, and knows that it did."""
        if (unit, reader, record.key) in self.stopped and self.readers_stop:
            return
        self.made.append((reader, record))
        self._apply(unit, reader, record)

    def ask(self, unit: int) -> None:
        self.asked[unit] = set()
        self._tell_head(unit, Interrogate())

    def give(self, key: Hashable) -> None:
        self.held[key] = []
        unit = self.owners[key]
        assert unit is not None
        self._tell_head(unit, Collect(key))

    def ends(self) -> None:
        """Where each key is, there is the state of all its records; elsewhere there is none of it."""
        if self.lanes.queues or any(head.open for head in self.heads.values()) or self.held:
            raise Broken(f"a message is not done: {self.heads}")
        for unit in self.heads:
            for key, owner in self.owners.items():
                wanted = self.expected(key) if unit == owner else {}
                if self.states_of(unit, key) != wanted:
                    raise Broken(
                        f"unit {unit} has {self.states_of(unit, key)} of {key}, and should have {wanted}"
                    )

    def states_of(self, unit: int, key: Hashable) -> dict[str, State]:
        return {
            name: states[key] for (at, name), states in self.states.items() if at == unit and key in states
        }

    def expected(self, key: Hashable) -> dict[str, State]:
        """What each operator has of all records of the key so far, wherever they were applied."""
        total: dict[str, Counter[str]] = {name: Counter() for name in self.region.stateful}
        for start, record in self.made:
            reached = [start]
            while reached:
                name = reached.pop()
                if name in total:
                    total[name][record.name] += record.sign * (record.key == key)
                reached += self._routed(record, name)
        sums = {name: _without_none(counts) for name, counts in total.items()}
        return {name: counts for name, counts in sums.items() if counts}

    def _routed(self, record: Record, name: str) -> list[str]:
        return [target for target in self.region.targets.get(name, ()) if self.routing(record, name, target)]

    def _enter(self, unit: int, record: Record) -> None:
        if unit in self.asked:
            self.asked[unit].add(record.key)
        self.made.append((self.region.head, record))
        self._put(unit, self.region.head, record)

    def _put(self, unit: int, name: str, record: Record) -> None:
        for target in self._routed(record, name):
            self.lanes.put(("edge", name, target, unit), record)

    def _apply(self, unit: int, name: str, record: Record) -> None:
        if name in self.region.stateful:
            states = self.states[unit, name]
            counts = Counter(states.pop(record.key, {}))
            counts[record.name] += record.sign
            if left := _without_none(counts):
                states[record.key] = left
        self._put(unit, name, record)

    def _arrive(self, unit: int, source: str, name: str, item: Record | Copy[Hashable]) -> None:
        if isinstance(item, Record):
            self._apply(unit, name, item)
            return
        after, effects = passage.step(self.passages[unit, name], Arrived(source, item))
        self.passages[unit, name] = after
        for effect in effects:
            self._do(unit, name, effect)

    def _do(self, unit: int, name: str, effect: passage.Effect[Hashable]) -> None:
        states, answers = self.states[unit, name], ("answer", name, unit)
        match effect:
            case Put(source=source, target=target, copy=copy):
                self.lanes.put(("edge", source, target, unit), copy)
            case Tell(met=met):
                self.lanes.put(answers, met)
            case TellKeys(met=met):
                self.lanes.put(answers, MetWithKeys(met, frozenset(states)))
            case TellState(met=met, key=key):
                self.stopped.add((unit, name, key))
                state = json.dumps(states[key], sort_keys=True).encode() if key in states else None
                self.lanes.put(answers, MetWithState(met, state))
            case Load(key=key, state=state):
                if key in states:
                    raise Broken(f"{name} of unit {unit} has {states[key]} of {key}, and gets {state!r}")
                self.stopped.discard((unit, name, key))
                if state is not None:
                    states[key] = json.loads(state)
            case Forget(key=key):
                self.stopped.discard((unit, name, key))
                states.pop(key, None)

    def _tell_head(self, unit: int, event: Any) -> None:
        self.heads[unit], effects = head.step(self.heads[unit], event)
        for effect in effects:
            match effect:
                case Put(source=source, target=target, copy=copy):
                    self.lanes.put(("edge", source, target, unit), copy)
                case Interrogated(keys=keys):
                    self.answers.append(effect)
                    self._interrogated(unit, keys)
                case Collected(key=key, chunks=chunks):
                    self.answers.append(effect)
                    self._collected(unit, key, chunks)

    def _interrogated(self, unit: int, keys: frozenset[Hashable]) -> None:
        held = {key for (at, _), states in self.states.items() if at == unit for key in states}
        if missed := held - keys - self.asked.pop(unit):
            raise Broken(f"unit {unit} has state of {missed}, and nobody knows")

    def _collected(self, unit: int, key: Hashable, chunks: tuple[bytes, ...]) -> None:
        states = {name: json.loads(state) for name, state in unpack(b"".join(chunks)).items()}
        if states != self.expected(key):
            raise Broken(f"{states} is collected of {key}, and should be {self.expected(key)}")
        inside = (
            queue for lane, queue in self.lanes.queues.items() if lane[0] == "edge" and lane[-1] == unit
        )
        if any(isinstance(item, Record) and item.key == key for queue in inside for item in queue):
            raise Broken(f"unit {unit} has records of {key} under way, and its state is collected")
        self.owners[key] = None
        self.lanes.put(("state", key, 1 - unit), chunks)
        self._tell_head(unit, Drop(key))


def _without_none(counts: Mapping[str, int]) -> State:
    return {name: count for name, count in counts.items() if count}
