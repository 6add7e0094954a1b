"""A unit as its engine sees it: `step`. Here are streams, credit and sources; the rules are in the modules beside."""

from dataclasses import dataclass, field
from typing import Generic

from dispatcher.handover.effect import (
    Apply,
    Drained,
    Effect,
    Left,
    PauseSources,
    Refuse,
    Released,
    ResumeSources,
    Send,
    StartSource,
    StopSource,
)
from dispatcher.handover.errors import IllegalEvent, UnknownVersion
from dispatcher.handover.event import (
    Barrier,
    Collected,
    Complete,
    Event,
    Intent,
    Opened,
    OpenSource,
    Read,
    Received,
    ReleaseSource,
    Resume,
)
from dispatcher.handover.ledger import CREDIT_BYTES, Ledger
from dispatcher.handover.links import Links
from dispatcher.handover.message import Credit, Frame, Message, Path, Records
from dispatcher.handover.ordered.handing import hear, obey
from dispatcher.handover.ordered.outcome import Heard, Here, Post, Take, Transition
from dispatcher.handover.ordered.phase import Gone, Leaving, Phase, Settled, version_of
from dispatcher.handover.ordered.records import route, take
from dispatcher.handover.ordered.rules import ALL, Rules
from dispatcher.handover.sources import Flowing, Sources
from dispatcher.handover.version import K, Version


@dataclass(frozen=True, slots=True)
class Unit(Generic[K]):
    """The whole state of a unit in one execution of its job. Use `started`."""

    here: Here
    execution: int
    phase: Phase[K]
    ledger: Ledger[K]
    links: Links = field(default_factory=Links)
    sources: Sources = field(default_factory=Sources)


def started(
    unit: int,
    execution: int,
    version: Version[K],
    *,
    credit_bytes: int = CREDIT_BYTES,
    rules: Rules = ALL,
) -> Unit[K]:
    """Rule 8: a new unit starts with the version before the one that it is for."""
    return Unit(Here(unit, rules), execution, Settled(version), Ledger(credit_bytes))


def step(unit: Unit[K], event: Event[K]) -> tuple[Unit[K], tuple[Effect[K], ...]]:
    """The unit after the event, and what it wants done. Raises `HandoverError`."""
    turn = _Turn(unit)
    turn.take(event)
    turn.pump()
    turn.report()
    after = Unit(unit.here, unit.execution, turn.phase, turn.ledger, turn.links, turn.sources)
    return after, tuple(turn.effects)


class _Turn(Generic[K]):
    """One step under way: the parts of the unit as they are by now, and the effects so far."""

    __slots__ = ("effects", "execution", "here", "ledger", "links", "phase", "read_before", "sources")

    def __init__(self, unit: Unit[K]) -> None:
        self.here = unit.here
        self.execution = unit.execution
        self.phase: Phase[K] = unit.phase
        self.ledger = unit.ledger
        self.links = unit.links
        self.sources = unit.sources
        self.effects: list[Effect[K]] = []
        self.read_before = self._may_read()

    def take(self, event: Event[K]) -> None:
        match event:
            case _ if isinstance(self.phase, Gone):
                raise IllegalEvent(self.phase, event)
            case Received(sender=sender, frame=frame):
                self._receive(sender, frame)
            case Read(batch=batch):
                self.ledger = self.ledger.park(batch)
            case Opened(unit=unit):
                self.links = self.links.opened(unit)
            case Intent() | Collected() | Complete():
                self._follow(obey(self.here, self.phase, event))
            case OpenSource(source=source):
                self.sources = self.sources.opened(source)
                self.effects.append(StartSource(source))
            case ReleaseSource(source=source):
                self.sources = self.sources.releasing_too(source)
                self.effects.append(StopSource(source))
            case Barrier(epoch=epoch):
                self.sources = self.sources.draining(epoch)
            case Resume():
                self.sources = self.sources.resumed()

    def pump(self) -> None:
        """Rule 9: own records go while there is credit, in their order."""
        while self.ledger.parked:
            batch = self.ledger.parked[0]
            to, path = route(self.here, self.phase, batch.key)
            free = path is Path.DIRECT and not self.here.rules.needs_credit
            if not free and not self.ledger.affords(to, path, batch.size_bytes):
                return
            self.ledger = self.ledger.unpark().spend(to, path, batch)
            self._post(to, Records(batch, self.here.unit, to, path))

    def report(self) -> None:
        """What the coordinator and the engine wait for, where it has come true in this step."""
        drains = self.here.rules.drains_sources
        for source in sorted(self.sources.releasing):
            if not drains or self.ledger.released(source):
                self.sources = self.sources.released(source)
                self.effects.append(Released(source))
        if self.sources.epoch is not None and self.ledger.drained():
            self.effects.append(Drained(self.sources.epoch))
            self.sources = self.sources.drained()
        if isinstance(self.phase, Leaving) and self.sources.none and self.ledger.drained():
            self.phase = Gone(self.phase.version)
            self.effects.append(Left())
        reads = self._may_read()
        if reads != self.read_before:
            self.effects.append(ResumeSources() if reads else PauseSources())

    def _may_read(self) -> bool:
        return not self.ledger.parked and isinstance(self.sources.flow, Flowing)

    def _receive(self, sender: int, frame: Frame[K]) -> None:
        if frame.execution != self.execution:
            reason = f"it is of execution {frame.execution}, and this is {self.execution}"
            self.effects.append(Refuse(sender, frame, reason))
            return
        own = version_of(self.phase).number
        if frame.version > own + 1:
            raise UnknownVersion(sender, own=own, version=frame.version)
        self.links = self.links.received(sender, frame.number)
        self._hear(sender, frame.version, frame.digest, frame.message)

    def _hear(self, sender: int, version: int, digest: str, message: Message[K]) -> None:
        match message:
            case Credit():
                self.ledger = self.ledger.restore(message)
            case Records():
                heard = Heard(sender, version, digest, message)
                self._follow(take(self.here, self.phase, heard, message))
            case _:
                self._follow(hear(self.here, self.phase, Heard(sender, version, digest, message), message))

    def _follow(self, transition: Transition[K]) -> None:
        self.phase, outcomes = transition
        for outcome in outcomes:
            match outcome:
                case Post(to=to, message=message):
                    self._post(to, message)
                case Take(records=records):
                    self.effects.append(Apply(records.batch))
                    batch = records.batch
                    credit = Credit(records.granter, records.path, batch.source, batch.size_bytes)
                    self._post(records.origin, credit)
                case _:
                    self.effects.append(outcome)

    def _post(self, to: int, message: Message[K]) -> None:
        version = version_of(self.phase)
        if to == self.here.unit:
            self._hear(to, version.number, version.digest, message)
            return
        self.links, number = self.links.sent(to)
        frame = Frame(self.execution, version.number, version.digest, number, message)
        self.effects.append(Send(to, frame))
