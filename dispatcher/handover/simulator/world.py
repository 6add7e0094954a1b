"""The job of one run: `possible` says where something could happen next, `happen` lets it."""

from collections import Counter, deque
from collections.abc import Callable, Iterable
from typing import Any
from zlib import crc32

from dispatcher.handover.coordinator import advance
from dispatcher.handover.effect import (
    Acknowledged,
    Advance,
    AdvanceOnly,
    Apply,
    Collect,
    Drained,
    Drop,
    Effect,
    Install,
    Installed,
    Interrogate,
    Left,
    PauseSources,
    Refuse,
    Released,
    Report,
    ResumeSources,
    Send,
    StartSource,
    StopSource,
)
from dispatcher.handover.errors import HandoverError
from dispatcher.handover.event import (
    Advanced,
    Applied,
    Collected,
    Event,
    Interrogated,
    Opened,
    OpenSource,
    Read,
    Received,
)
from dispatcher.handover.job import (
    Coordinator,
    Defer,
    JobEffect,
    JobEvent,
    Reported,
    Requested,
    Restart,
    Restarted,
    Running,
    Seal,
    Settle,
    Start,
    Tell,
)
from dispatcher.handover.message import Frame, Records
from dispatcher.handover.simulator.inside import Inside, Said
from dispatcher.handover.simulator.lanes import (
    ANSWER,
    INSIDE,
    INTERROGATION,
    ORDERS,
    REPORTS,
    SOURCE,
    STATE,
    STREAM,
    Lane,
    Lanes,
)
from dispatcher.handover.simulator.machine import Machine
from dispatcher.handover.simulator.operators import Operators
from dispatcher.handover.simulator.source import Sources
from dispatcher.handover.simulator.topology import VnodeVersion
from dispatcher.handover.simulator.witness import Kind, Violation, Witness

Tracer = Callable[[str, object], None]


class World:
    """`restart` makes the mapping after a loss; `trace` is told all that happens. `messages`: those sent, by form."""

    def __init__(
        self,
        machine: Machine,
        version: VnodeVersion,
        sources: Sources,
        *,
        credit_bytes: int,
        recoverable: bool,
        restart: Callable[[VnodeVersion, int | None], VnodeVersion],
        trace: Tracer | None = None,
    ) -> None:
        self.machine = machine
        self.sources = sources
        self.credit_bytes = credit_bytes
        self.restart = restart
        self.trace = trace
        # Ordinary and direct credit of each unit, or a batch that is larger, and one that waits for it.
        bytes_max = 2 * max(credit_bytes, sources.batch_records) + sources.batch_records
        self.witness = Witness(dict(version.owners), bytes_max, keeps_order=machine.family.keeps_order)
        self.operators = Operators()
        self.units: dict[int, Any] = {}
        self.insides: dict[int, Inside] = {}
        # What they have forwarded may be on edges elsewhere, against their credit.
        self.left: set[int] = set()
        self.lanes = Lanes()
        self.messages: Counter[type] = Counter()
        self.answers: deque[tuple[int, Applied[int] | Interrogated[int] | Collected[int]]] = deque()
        self.deferred: list[JobEvent[int]] = []
        self.sealed = (self.witness.seals(), sources.positions())
        readers = sources.readers(version.units)
        self.job: Coordinator[int] = Coordinator(Running(version), 0, readers, recoverable=recoverable)
        for unit in sorted(version.units):
            self._start(unit, version)
        for source, unit in readers.items():
            self.lanes.put((ORDERS, unit), OpenSource(source))

    def work_with(self, operators: Operators) -> None:
        """After `begin_without`."""
        self.operators = operators
        self.witness.fleeting = operators.fleeting
        for unit in self.units:
            self._enclose(unit)

    def begin_without(self, keys: Iterable[int]) -> None:
        """Nobody has state of these keys yet."""
        for key in keys:
            del self.witness.holders[key]
        self.sealed = (self.witness.seals(), self.sources.positions())

    def possible(self) -> list[Lane]:
        """The lanes on which something could happen."""
        return [*self.lanes.queues, *((SOURCE, source) for source in self.sources.readable())]

    def happen(self, lane: Lane) -> None:
        """Raises `Violation`."""
        match lane:
            case (str(kind), source) if kind == SOURCE:
                self._read(*self.sources.read(source))
            case (str(kind), sender, to, *_) if kind == STREAM:
                self._deliver(sender, to, self.lanes.next(lane))
            case (str(kind), unit) if kind == ORDERS:
                self._step(unit, self.lanes.next(lane))
            case (str(kind), _) if kind == REPORTS:
                self.tell(self.lanes.next(lane))
            case (str(kind), unit) if kind == INTERROGATION:
                self._interrogate(unit, self.lanes.next(lane))
            case (str(kind), _, unit) if kind == STATE:
                collected: Collected[int] = self.lanes.next(lane)
                self.witness.collected(collected.key, collected.chunks)
                self._step(unit, collected)
            case (str(kind), source, target, unit) if kind == INSIDE:
                self._hear(unit, self.insides[unit].arrive(source, target, self.lanes.next(lane)))
                self._answer()
            case (str(kind), _, unit) if kind == ANSWER:
                self._hear(unit, self.insides[unit].answer(self.lanes.next(lane)))
                self._answer()

    def _interrogate(self, unit: int, asked: Interrogate | Interrogated[int]) -> None:
        """What the operators say is as old as their answer is slow."""
        if isinstance(asked, Interrogate):
            keys = self.witness.keys_at(unit)
            self.lanes.put((INTERROGATION, unit), Interrogated(keys, self.operators.having(keys)))
        else:
            self._step(unit, asked)

    def _read(self, unit: int, event: Read[int] | Advanced, time: int) -> None:
        if isinstance(event, Advanced):
            self._step(unit, event)
            return
        self.witness.reads(unit, event.batch, time, len(self.units.keys() | self.left))
        self._step(unit, event)
        self.witness.rests(unit, event.batch)

    def tell(self, event: JobEvent[int]) -> None:
        """To the coordinator."""
        if self.trace:
            self.trace("coordinator", event)
        if isinstance(event, Requested) and self.running:
            self.witness.parallel = event.pacing.parallel
        try:
            self.job, effects = advance(self.job, event)
        except HandoverError as error:
            raise Violation(Kind.STUCK, f"coordinator: {error}") from error
        for effect in effects:
            if self.trace:
                self.trace("", effect)
            self._do_for_job(effect)

    @property
    def running(self) -> bool:
        return isinstance(self.job.phase, Running)

    @property
    def version(self) -> VnodeVersion:
        return self.job.phase.version

    def _deliver(self, sender: int, to: int, frame: Frame[int]) -> None:
        stale = frame.execution < self.job.execution
        if stale and to not in self.units:
            return
        if stale or not isinstance(frame.message, Records):
            self._step(to, Received(sender, frame))
            return
        self.witness.enters(to, frame.message.batch)
        self._step(to, Received(sender, frame))
        self.witness.rests(to, frame.message.batch)

    def _step(self, unit: int, event: Event[int]) -> None:
        # Where it is applied at once, `Apply` has said it.
        if self.trace and (self.insides or not isinstance(event, Applied)):
            self.trace(f"unit {unit}", event)
        if unit not in self.units:
            self.witness.loses(unit, str(event))
        try:
            self.units[unit], effects = self.machine.step(self.units[unit], event)
        except HandoverError as error:
            raise Violation(Kind.STUCK, f"unit {unit}: {error}") from error
        for effect in effects:
            if self.trace:
                self.trace("", effect)
            self._do(unit, effect)
        self._answer()

    def _answer(self) -> None:
        """What the operators have said by now."""
        while self.answers:
            self._step(*self.answers.popleft())

    def _do(self, unit: int, effect: Effect[int]) -> None:
        match effect:
            case Send(to=to, frame=frame):
                if isinstance(frame.message, Records):
                    self.witness.leaves(unit, frame.message.batch)
                self.messages[type(frame.message)] += 1
                self.lanes.put((STREAM, unit, to, *self._connection(unit, frame)), frame)
            case Apply() | Interrogate() | Collect() | Install() | Drop():
                self._operate(unit, effect)
            case Refuse():
                self._refused(unit, effect)
            case Installed() | Acknowledged() | Released() | Drained() | Left():
                self._report(unit, effect)
            case _:
                self._do_beside(unit, effect)

    def _operate(
        self, unit: int, effect: Apply[int] | Interrogate | Collect[int] | Install[int] | Drop[int]
    ) -> None:
        """What the operators are to do."""
        match effect:
            case Apply(records=records):
                self.witness.gives(unit, records.batch)
            case Collect(key=key):
                self.witness.cuts(unit, self.job.target.owners[key], key)
            case Install(key=key, chunks=chunks):
                self.witness.installs(unit, key, chunks)
            case Drop(key=key):
                self.witness.drops(unit, key)
        if unit in self.insides:
            self._hear(unit, self.insides[unit].do(effect))
            return
        match effect:
            case Apply(records=records):
                self._hear(unit, [Applied(records)])
            case Collect(key=key):
                self.witness.collects(unit, key)
                self.lanes.put((STATE, key, unit), Collected(key, _chunks(key, unit)))
            case Interrogate():
                self.lanes.put((INTERROGATION, unit), effect)

    def _hear(self, unit: int, said: list[Said]) -> None:
        """What the operators say."""
        for word in said:
            match word:
                case AdvanceOnly(time=time, keys=keys):
                    self.witness.advances(unit, keys, time)
                    continue
                case Applied(records=records):
                    self.witness.applies(unit, records.batch)
                case Collected(key=key, chunks=chunks):
                    self.witness.collects(unit, key)
                    self.witness.collected(key, chunks)
            self.answers.append((unit, word))

    def _connection(self, unit: int, frame: Frame[int]) -> tuple[str, ...]:
        if self.machine.rules.one_stream:
            return ()
        if not isinstance(frame.message, Records):
            return ("state",)
        return ("own" if frame.message.origin == unit else "relayed",)

    def _do_beside(
        self,
        unit: int,
        effect: PauseSources | ResumeSources | StartSource | StopSource | Advance[int] | AdvanceOnly[int],
    ) -> None:
        """What is of sources and event time."""
        match effect:
            case PauseSources():
                self.sources.pause(unit)
            case ResumeSources():
                self.sources.resume(unit)
            case StartSource(source=source):
                self.sources.start(source, unit)
            case StopSource(source=source):
                self.sources.stop(source)
            case Advance(time=time, behind=behind):
                self._advance(unit, self.witness.keys_at(unit) - behind, time)
            case AdvanceOnly(time=time, keys=keys):
                self._advance(unit, keys, time)

    def _advance(self, unit: int, keys: frozenset[int], time: int) -> None:
        if unit in self.insides:
            self.insides[unit].advance(time, keys)
        else:
            self.witness.advances(unit, keys, time)

    def _refused(self, unit: int, refusal: Refuse[int]) -> None:
        if refusal.frame.execution == self.job.execution:
            raise Violation(
                Kind.LOST, f"unit {unit} refuses a frame of unit {refusal.sender}: {refusal.reason}"
            )

    def _report(self, unit: int, report: Report[int]) -> None:
        if isinstance(report, Left):
            self.witness.departs(unit)
            del self.units[unit]
            if self.insides:
                del self.insides[unit]
                self.left.add(unit)
                self.lanes.keep(lambda lane: lane[0] not in {INSIDE, ANSWER} or lane[-1] != unit)
        self.lanes.put((REPORTS, unit), Reported(unit, report, self.job.execution))

    def _do_for_job(self, effect: JobEffect[int]) -> None:
        match effect:
            case Tell(to=to, order=order):
                self.lanes.put((ORDERS, to), order)
            case Start(unit=unit, version=version):
                self._start(unit, version)
                self._connect(unit)
            case Defer(event=event):
                self.deferred.append(event)
            case Seal():
                self.sealed = (self.witness.seals(), self.sources.positions())
            case Restart(lost=lost):
                self._restart(lost)
            case Settle():
                pass

    def _restart(self, lost: int | None) -> None:
        """All units anew. Frames and reports of the old execution still arrive; all else ends with its unit."""
        self.lanes.keep(lambda lane: lane[0] in {STREAM, REPORTS})
        version = self.restart(self.version, lost)
        sighting, positions = self.sealed
        self.witness.restarts(sighting, dict(version.owners))
        self.sources.rewind(positions)
        self.units.clear()
        self.insides.clear()
        self.left.clear()
        readers = self.sources.readers(version.units)
        execution = self.job.execution + 1
        for unit in sorted(version.units):
            self._start(unit, version, execution)
        self.tell(Restarted(execution, version, readers))

    def _start(self, unit: int, version: VnodeVersion, execution: int | None = None) -> None:
        positions = self.sealed[1]
        number = self.job.execution if execution is None else execution
        self.units[unit] = self.machine.started(
            unit, number, version, credit_bytes=self.credit_bytes, times=self.sources.times(positions)
        )
        self._enclose(unit)

    def _enclose(self, unit: int) -> None:
        if self.operators.dataflow:
            applied = self.witness.applied_at(unit)
            self.insides[unit] = Inside(unit, self.operators.dataflow, self.lanes, applied)

    def ends(self, end: int | None) -> None:
        """Raises `Violation`."""
        self.witness.ends(dict(self.version.owners), end)
        for unit, inside in self.insides.items():
            expected = inside.dataflow.states(self.witness.applied_at(unit))
            if inside.states != expected:
                raise Violation(
                    Kind.LOST,
                    f"at the end unit {unit} has inside {inside.states}, and should have {expected}",
                )

    def _connect(self, unit: int) -> None:
        """Where it was of the job before, its old streams are read to their end first."""
        for peer in sorted(self.units.keys() - {unit}):
            for lane in [lane for lane in self.lanes.queues if lane[:3] == (STREAM, unit, peer)]:
                while lane in self.lanes:
                    self._deliver(unit, peer, self.lanes.next(lane))
            self._step(peer, Opened(unit))


def _chunks(key: int, unit: int) -> tuple[bytes, ...]:
    """The state of a vnode: some have none, which is one empty chunk."""
    count = crc32(str(key).encode()) % 3
    return tuple(f"{key} of {unit}, {at}".encode() for at in range(count)) or (b"",)
