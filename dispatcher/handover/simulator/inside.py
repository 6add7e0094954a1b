"""The operators of a unit, and what is on the edges between them: records, event time, and the messages of a region."""

from collections import Counter
from dataclasses import dataclass, field

from dispatcher.handover.effect import AdvanceOnly, Apply, Collect, Drop, Install, Interrogate
from dispatcher.handover.errors import HandoverError
from dispatcher.handover.event import Applied, Collected, Interrogated
from dispatcher.handover.region import head, passage
from dispatcher.handover.region.head import Collecting, Head
from dispatcher.handover.region.message import Answer, Copy, MetWithKeys, MetWithState
from dispatcher.handover.region.passage import Arrived, Forget, Load, Put, Tell, TellKeys, TellState
from dispatcher.handover.simulator.dataflow import Dataflow
from dispatcher.handover.simulator.lanes import ANSWER, INSIDE, Lanes
from dispatcher.handover.simulator.witness import Kind, Violation

Said = Applied[int] | AdvanceOnly[int] | Interrogated[int] | Collected[int]
"""`AdvanceOnly`: every operator has been told."""


@dataclass(slots=True)
class Flow:
    """What there are copies of on edges, how many, and how many have come to each operator."""

    what: Applied[int] | AdvanceOnly[int]
    copies: int = 0
    come: Counter[str] = field(default_factory=Counter)


class Inside:
    """Of one unit; it knows no rule of the messages. What it says is for the unit, or for the witness."""

    def __init__(self, unit: int, dataflow: Dataflow, lanes: Lanes, applied: dict[int, int]) -> None:
        region, rules = dataflow.region, dataflow.rules
        self.unit = unit
        self.dataflow = dataflow
        self.lanes = lanes
        self.head: Head[int] = Head(region, rules, dataflow.chunk_bytes)
        names = {name for targets in region.targets.values() for name in targets}
        self.passages = {name: passage.passage(region, name, rules) for name in names}
        self.states = dataflow.states(applied)

    def do(self, effect: Apply[int] | Interrogate | Collect[int] | Install[int] | Drop[int]) -> list[Said]:
        match effect:
            case Apply(records=records):
                self._put(Flow(Applied(records)), self.dataflow.region.head)
                return []
            case _:
                return self._tell_head(effect)

    def advance(self, time: int, keys: frozenset[int]) -> None:
        """Behind the records on the edges, and so of no key that is being collected."""
        gathered = (opened.gathered for opened in self.head.open.values())
        collecting = {some.key for some in gathered if isinstance(some, Collecting)}
        self._put(Flow(AdvanceOnly(time, keys - collecting)), self.dataflow.region.head)

    def arrive(self, source: str, operator: str, item: Flow | Copy[int]) -> list[Said]:
        """What is next on the edge from `source`."""
        if isinstance(item, Copy):
            self.passages[operator], effects = passage.step(self.passages[operator], Arrived(source, item))
            for effect in effects:
                self._do(operator, effect)
            return []
        item.copies -= 1
        item.come[operator] += 1
        if isinstance(item.what, Applied):
            key = item.what.records.batch.key
            if operator in self.states:
                self.states[operator][key] = self.states[operator].get(key, 0) + 1
            self._put(item, operator)
        # An operator is at the time that all its edges are at.
        elif item.come[operator] == self.passages[operator].edges:
            self._put(item, operator)
        return [] if item.copies else [item.what]

    def answer(self, answer: Answer[int]) -> list[Said]:
        return self._tell_head(answer)

    def _put(self, flow: Flow, operator: str) -> None:
        """On the edges from there."""
        if isinstance(flow.what, Applied):
            targets = self.dataflow.targets(flow.what.records.batch.key, operator)
        else:
            targets = self.dataflow.region.targets.get(operator, ())
        flow.copies += len(targets)
        for target in targets:
            self.lanes.put((INSIDE, operator, target, self.unit), flow)

    def _do(self, operator: str, effect: passage.Effect[int]) -> None:
        states, answers = self.states.get(operator, {}), (ANSWER, operator, self.unit)
        match effect:
            case Put():
                self._copy(effect)
            case Tell(met=met):
                self.lanes.put(answers, met)
            case TellKeys(met=met):
                self.lanes.put(answers, MetWithKeys(met, frozenset(states)))
            case TellState(met=met, key=key):
                state = str(states[key]).encode() if key in states else None
                self.lanes.put(answers, MetWithState(met, state))
            case Load(key=key, state=state):
                if key in states:
                    raise Violation(
                        Kind.OVERWRITTEN,
                        f"{operator} of unit {self.unit} takes state of vnode {key}, and has some",
                    )
                if state is not None:
                    states[key] = int(state)
            case Forget(key=key):
                states.pop(key, None)

    def _copy(self, put: Put[int]) -> None:
        self.lanes.put((INSIDE, put.source, put.target, self.unit), put.copy)

    def _tell_head(self, event: head.Event[int]) -> list[Said]:
        try:
            self.head, effects = head.step(self.head, event)
        except HandoverError as error:
            raise Violation(Kind.STUCK, f"inside unit {self.unit}: {error}") from error
        said: list[Said] = []
        for effect in effects:
            match effect:
                case Put():
                    self._copy(effect)
                case Collected() | Interrogated():
                    said.append(effect)
        return said
