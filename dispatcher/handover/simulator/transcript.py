"""What happens in a run, in words: a line for each event, and one more indented for each effect."""

from collections.abc import Callable, Mapping
from typing import Any

from dispatcher.handover import effect, event, job
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
from dispatcher.handover.simulator.run import Outcome, Run


class Transcript:
    """A tracer that keeps the lines."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def __call__(self, who: str, what: object) -> None:
        self.lines.append(f"{who}: {said(what)}" if who else f"  {said(what)}")


def transcribed(run: Run) -> tuple[list[str], Outcome]:
    """Of a run that has not begun."""
    transcript = run.world.trace = Transcript()
    outcome = run.finish()
    return transcript.lines, outcome


def said(what: Any) -> str:
    """An event, an effect or a message."""
    return _WORDS[type(what)](what) if type(what) in _WORDS else _message(what)


_WORDS: dict[type, Callable[[Any], str]] = {
    # Events of a unit.
    event.Read: lambda e: f"reads {_batch(e.batch)}",
    event.Advanced: lambda e: f"reads that {e.source} is at {e.time}",
    event.Received: lambda e: f"hears unit {e.sender}, frame {_frame(e.frame)}",
    event.Opened: lambda e: f"is connected with unit {e.unit}",
    event.Applied: lambda e: f"has applied {_batch(e.records.batch)}",
    event.Interrogated: lambda e: (
        f"the operators have {' / '.join(_keys(keys) or 'nothing' for keys in e.operators)}"
    ),
    event.Collected: lambda e: f"has the state of {e.key} in hand",
    event.Intent: lambda e: (
        f"INTENT {e.base} -> {e.next.number}: {_owners(e.next.owners)}{_rounds(e.rounds)}"
    ),
    event.Round: lambda e: f"ROUND {e.number} of version {e.version}",
    event.Complete: lambda e: f"COMPLETE {e.version}",
    event.OpenSource: lambda e: f"is to read {e.source}",
    event.ReleaseSource: lambda e: f"is to release {e.source}",
    event.Barrier: lambda e: f"BARRIER of epoch {e.epoch}",
    event.Resume: lambda _: "RESUME",
    # Effects of a unit.
    effect.Send: lambda e: f"to unit {e.to}, frame {_frame(e.frame)}",
    effect.Apply: lambda e: f"apply {_batch(e.records.batch)}",
    effect.Interrogate: lambda _: "interrogate the operators",
    effect.Collect: lambda e: f"collect the state of {e.key}",
    effect.Install: lambda e: f"install the state of {e.key}",
    effect.Drop: lambda e: f"drop {e.key}",
    effect.Advance: lambda e: f"event time {e.time}{_but(e.behind)}",
    effect.AdvanceOnly: lambda e: f"event time {e.time} of {_keys(e.keys)}",
    effect.PauseSources: lambda _: "pause the sources",
    effect.ResumeSources: lambda _: "resume the sources",
    effect.StartSource: lambda e: f"read {e.source}",
    effect.StopSource: lambda e: f"stop reading {e.source}",
    effect.Refuse: lambda e: f"refuse frame {_frame(e.frame)} of unit {e.sender}: {e.reason}",
    effect.Installed: lambda e: f"the state of {e.key} is installed",
    effect.Acknowledged: lambda e: f"acknowledge {e.version}",
    effect.Released: lambda e: f"{e.source} is released",
    effect.Drained: lambda e: f"drained for epoch {e.epoch}",
    effect.Left: lambda _: "leave",
    # Of the coordinator.
    job.Requested: lambda e: f"version {e.next.number} is published: {_owners(e.next.owners)}",
    job.Reported: lambda e: f"unit {e.unit} reports: {said(e.report)}",
    job.SnapshotDue: lambda _: "a snapshot is due",
    job.MoveSource: lambda e: f"{e.source} is to move to unit {e.to}",
    job.UnitLost: lambda e: f"unit {e.unit} is lost",
    job.DeadlinePassed: lambda e: f"the deadline of version {e.version} has passed",
    job.Restarted: lambda e: (
        f"execution {e.execution} begins, version {e.version.number}: {_owners(e.version.owners)}"
    ),
    job.Tell: lambda e: f"to unit {e.to}: {said(e.order)}",
    job.Start: lambda e: f"start unit {e.unit} with version {e.version.number}",
    job.Defer: lambda e: f"not now: {said(e.event)}",
    job.Seal: lambda e: f"seal epoch {e.epoch}",
    job.Restart: lambda e: f"restart from epoch {e.epoch}",
    job.Settle: lambda e: f"version {e.version} is complete",
}


def _frame(frame: Frame[Any]) -> str:
    return f"{frame.number} of version {frame.version}: {_message(frame.message)}"


def _message(message: Message[Any]) -> str:  # noqa: C901, PLR0911, PLR0912 - one for each form
    match message:
        case Records(batch=batch, origin=origin, path=path):
            return f"{_batch(batch)} from unit {origin}{', direct' if path is Path.DIRECT else ''}"
        case Acquire(key=key, index=index, count=count):
            return f"ACQUIRE {key}, {index + 1} of {count}"
        case Watermark(source=source, time=time):
            return f"{source} is at {time}"
        case RelayedWatermark(source=source, time=time):
            return f"{source} is at {time}, relayed"
        case Done():
            return "DONE"
        case Flush():
            return "FLUSH"
        case Flushed(origin=origin):
            return f"FLUSHED of unit {origin}"
        case Shutdown():
            return "SHUTDOWN"
        case Scaleup():
            return "SCALEUP"
        case Sets(whitelist=whitelist, hold=hold):
            return f"whitelist {{{_keys(whitelist)}}} hold {{{_in_order(hold)}}}"
        case Final(keys=keys):
            return f"FINAL {_in_order(keys)}"
        case Redistribute(key=key, index=index, count=count, next=following):
            state = f"{index + 1} of {count}" if count else "no state"
            return f"REDISTRIBUTE {key}, {state}{_then(following)}"
        case Credit(granter=granter, path=path, size_bytes=size_bytes):
            return f"CREDIT {size_bytes} {path.value} of unit {granter}"


def _then(keys: tuple[Any, ...] | None) -> str:
    return "" if keys is None else f", next {_in_order(keys) or 'None'}"


def _in_order(keys: tuple[Any, ...]) -> str:
    return " ".join(map(str, keys))


def _but(keys: frozenset[Any]) -> str:
    return f" but of {_keys(keys)}" if keys else ""


def _keys(keys: frozenset[Any]) -> str:
    return " ".join(sorted(map(str, keys)))


def _batch(batch: Batch[Any]) -> str:
    numbers = ",".join(map(str, batch.sequences))
    return f"{batch.source}#{numbers} for {batch.key}"


def _rounds(numbers: Mapping[Any, int]) -> str:
    """The keys of each, in the order of the rounds."""
    keys = [
        [str(key) for key in numbers if numbers[key] == number] for number in sorted(set(numbers.values()))
    ]
    return ", in rounds: " + ", then ".join(" ".join(sorted(together)) for together in keys) if keys else ""


def _owners(owners: Mapping[Any, int]) -> str:
    return " ".join(f"{key}={unit}" for key, unit in owners.items())
