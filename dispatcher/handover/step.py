"""A step of a unit: streams, credit and sources are here, the rules of the handover in its protocol."""

from dataclasses import replace
from typing import Any, Generic

from dispatcher.handover.announcement import announced, intended
from dispatcher.handover.effect import (
    Acknowledged,
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
from dispatcher.handover.errors import IllegalEvent, UnknownKey, UnknownVersion
from dispatcher.handover.event import (
    Advanced,
    Applied,
    Barrier,
    Collected,
    Complete,
    Event,
    Intent,
    Interrogated,
    Opened,
    OpenSource,
    Order,
    Read,
    Received,
    ReleaseSource,
    Resume,
    Round,
)
from dispatcher.handover.message import (
    Credit,
    Frame,
    Message,
    Path,
    Records,
    Watermark,
)
from dispatcher.handover.outcome import Heard, Merge, Outcomes, Post, Retell, Take
from dispatcher.handover.phase import Gone, Leaving
from dispatcher.handover.protocol import P, Transition
from dispatcher.handover.sources import Flowing
from dispatcher.handover.unit import Unit
from dispatcher.handover.version import K


def step(unit: Unit[K, P], event: Event[K]) -> tuple[Unit[K, P], tuple[Effect[K], ...]]:
    """The unit after the event, and what it wants done. Raises `HandoverError`."""
    turn = _Turn(unit)
    turn.take(event)
    turn.pump()
    turn.tell_time()
    turn.report()
    after = Unit(
        unit.protocol,
        turn.here,
        unit.execution,
        turn.phase,
        turn.ledger,
        turn.links,
        turn.sources,
        turn.told,
        turn.digests,
        turn.renumbered,
    )
    return after, tuple(turn.effects)


class _Turn(Generic[K, P]):
    """One step under way: the parts of the unit as they are by now, and the effects so far."""

    __slots__ = (
        "digests",
        "effects",
        "execution",
        "here",
        "ledger",
        "links",
        "phase",
        "protocol",
        "read_before",
        "renumbered",
        "sources",
        "timed",
        "told",
    )

    def __init__(self, unit: Unit[K, P]) -> None:
        self.protocol = unit.protocol
        self.here = unit.here
        self.execution = unit.execution
        self.phase: Any = unit.phase
        self.ledger = unit.ledger
        self.links = unit.links
        self.sources = unit.sources
        self.told = unit.told
        self.digests = unit.digests
        self.renumbered = unit.renumbered
        self.timed = False
        self.effects: list[Effect[K]] = []
        self.read_before = self._may_read()

    def take(self, event: Event[K]) -> None:
        """Of the engine and of other units; the rest are orders."""
        match event:
            case _ if isinstance(self.phase, Gone):
                raise IllegalEvent(self.phase, event)
            case Received(sender=sender, frame=frame):
                self._receive(sender, frame)
            case Read(batch=batch):
                self.ledger = self.ledger.park(batch)
            case Advanced(source=source, time=time):
                self.ledger = self.ledger.park(Watermark(source, time))
            case Opened(unit=unit):
                self.links = self.links.opened(unit)
            # Rule 9: credit comes back from whoever applied the records.
            case Applied(records=records):
                batch = records.batch
                credit = Credit(records.granter, records.path, batch.source, batch.size_bytes)
                self._post(records.origin, credit)
            case _:
                self._obey(event)

    def _obey(self, order: Interrogated[K] | Collected[K] | Order[K]) -> None:
        match order:
            case Intent():
                self._upgrade(order)
            case Complete(version=number) if self._completes(number):
                self.renumbered = None
            case Collected(chunks=()):
                raise IllegalEvent(self.phase, order)
            case Round() | Interrogated() | Collected() | Complete():
                self._follow(self.protocol.obey(self.here, self.phase, order))
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

    def _upgrade(self, intent: Intent[K]) -> None:
        if self.renumbered:
            raise IllegalEvent(self.phase, intent)
        own, following = self.protocol.version_of(self.phase), intent.next
        self.digests = intended(self.here.unit, self.digests, own, intent)
        if not following.renumbers(own):
            self._follow(self.protocol.obey(self.here, self.phase, intent))
            return
        if self.phase != self.protocol.settled(own):
            raise IllegalEvent(self.phase, intent)
        self.phase, self.renumbered = self.protocol.settled(following), own
        self.effects.append(Acknowledged(following.number))

    def _completes(self, number: int) -> bool:
        """Whether that is what it was renumbered to."""
        return self.renumbered is not None and number == self.protocol.version_of(self.phase).number

    def pump(self) -> None:
        """Rule 9: own records go while there is credit, in their order."""
        while self.ledger.parked:
            batch = self.ledger.parked[0]
            if isinstance(batch, Watermark):
                if self.protocol.drains_time and batch.source in self.ledger.of_source:
                    return
                self.ledger = self.ledger.unpark()
                for unit in sorted(self.protocol.hearers(self.phase)):
                    self._post(unit, batch)
                continue
            to, path = self.protocol.route(self.here, self.phase, batch.key)
            free = path is Path.DIRECT and not self.here.rules.needs_credit
            if not free and not self.ledger.affords(to, path, batch.size_bytes):
                return
            self.ledger = self.ledger.unpark().spend(to, path, batch)
            self._post(to, Records(batch, self.here.unit, to, path))

    def tell_time(self) -> None:
        """Event time, where it may have changed in this step."""
        if self.timed:
            self.told, effects = self.protocol.told(self.here, self.phase, self.told)
            self.effects += effects

    def report(self) -> None:
        """What the coordinator and the engine wait for, where it has come true in this step."""
        reads = self._may_read()
        if reads != self.read_before:
            self.effects.append(ResumeSources() if reads else PauseSources())
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

    def _may_read(self) -> bool:
        return not self.ledger.parked and isinstance(self.sources.flow, Flowing)

    def _receive(self, sender: int, frame: Frame[K]) -> None:
        if frame.execution != self.execution:
            reason = f"it is of execution {frame.execution}, and this is {self.execution}"
            self.effects.append(Refuse(sender, frame, reason))
            return
        own = self.protocol.version_of(self.phase).number
        if sender == self.here.unit:
            raise IllegalEvent(self.phase, frame)
        if frame.version > own + 1:
            raise UnknownVersion(sender, own=own, version=frame.version)
        self.digests = announced(self.digests, own, frame.version, frame.digest)
        if self.here.rules.one_stream:
            self.links = self.links.received(sender, frame.number)
        self._hear(sender, frame.version, frame.message)

    def _hear(self, sender: int, version: int, message: Message[K]) -> None:
        match message:
            case Credit():
                self.ledger = self.ledger.restore(message)
            case Watermark(source=source, time=time):
                clock = self.here.clock.hears(sender, source, time)
                self.here = replace(self.here, clock=clock)
                self.timed = True
                self._do(self.protocol.relays(self.here, self.phase, sender, message))
            case Records(batch=batch):
                own = self.protocol.version_of(self.phase)
                if batch.key not in own.owners:
                    raise UnknownKey(sender, batch.key, version=own.number)
                heard = Heard(sender, version, message)
                self._follow(self.protocol.take(self.here, self.phase, heard, message))
            case _:
                self.timed = True
                heard = Heard(sender, version, message)
                self._follow(self.protocol.hear(self.here, self.phase, heard, message))

    def _follow(self, transition: Transition[P, K]) -> None:
        self.phase, outcomes = transition
        self._do(outcomes)

    def _do(self, outcomes: Outcomes[K]) -> None:
        for outcome in outcomes:
            match outcome:
                case Post(to=to, message=message):
                    self._post(to, message)
                case Take(records=records):
                    self.effects.append(Apply(records))
                case Retell(group=group):
                    self.told = {other: time for other, time in self.told.items() if other != group}
                case Merge(times=times):
                    self.here = replace(self.here, clock=replace(self.here.clock, floor=times))
                    self.told = {None: min(self.told.values())} if self.told else {}
                    self.timed = True
                case _:
                    self.effects.append(outcome)

    def _post(self, to: int, message: Message[K]) -> None:
        version = self.protocol.version_of(self.phase)
        if to == self.here.unit:
            self._hear(to, version.number, message)
            return
        version = self.renumbered or version
        self.links, number = self.links.sent(to)
        frame = Frame(self.execution, version.number, version.digest, number, message)
        self.effects.append(Send(to, frame))
