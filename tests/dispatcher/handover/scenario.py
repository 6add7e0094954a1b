"""A job driven by hand: one command after the other, and the transcript of each.

`job 0 1: a=0 b=1` begins with these units and owners; options before the colon: `protocol=icadd`, `credit=1`,
`variant=without-rule-5`, `new-units=next`, `stateless=a,b` (keys that nobody has state of), `distributors=1` (have all
sources), `at_once=2`, `operators=a,b/b,c` (the keys of each). Then, each for one thing that happens: `read p0 a 7` (a
record of event time 7, or 0 if that is left out, at the partition's unit), `time p0 7` (its watermark), `deliver 0 1`
(the next frame of a stream; `deliver 0 1 state` of one of several), `order 1` (the next of the coordinator's to a
unit), `report 1`, `operators 0` (are asked for their keys; then the unit is told), `state a 0` (is cut out at unit 0).
`rescale 0 1 2: a=2 b=1`, which may have `parallel=1` before the colon, `renumber` (what is published after an abort),
`move p0 1`, `snapshot`, `lost 1`, `late` are asked of the coordinator. `flow` is all that can happen, in a fixed order,
but for what is named behind it. `end`: nothing is missing. A scenario may have several jobs.
"""

from collections.abc import Iterator
from typing import Any

from dispatcher.handover.event import Intent
from dispatcher.handover.job import (
    DeadlinePassed,
    JobEffect,
    MoveSource,
    Requested,
    SnapshotDue,
    Start,
    Tell,
    UnitLost,
)
from dispatcher.handover.pacing import Pacing
from dispatcher.handover.simulator.lanes import INTERROGATION, ORDERS, REPORTS, SOURCE, STATE, STREAM
from dispatcher.handover.simulator.machine import machine
from dispatcher.handover.simulator.operators import Operators
from dispatcher.handover.simulator.options import FRAMES
from dispatcher.handover.simulator.source import Sources
from dispatcher.handover.simulator.transcript import Transcript
from dispatcher.handover.simulator.witness import Violation
from dispatcher.handover.simulator.world import World
from dispatcher.handover.version import Version


class Scenario:
    def __init__(self) -> None:
        self.transcript = Transcript()
        self.world: Any = None
        self.over = False

    def does(self, command: str) -> list[str]:
        """The transcript of one command; of the commands after a violation, nothing."""
        self.transcript.lines.clear()
        words, _, owners = command.partition(":")
        name, *arguments = words.split()
        if not self.over or name == "job":
            try:
                getattr(self, f"_{name}")(*arguments, *([_owners(owners)] if owners else []))
            except Violation as violation:
                self.transcript.lines.append(f"VIOLATION {violation}")
                self.over = True
        return list(self.transcript.lines)

    def _job(self, *words: Any) -> None:
        *words, owners = words
        self.over = False
        units = frozenset(int(word) for word in words if word.isdigit())
        options = dict(word.split("=") for word in words if not word.isdigit())
        names = tuple(f"p{at}" for at in range(len(units)))
        sources = Sources(names, 0, 1, None, _parameters(options).get("distributors"))  # type: ignore[arg-type]
        kind = _NewUnitsWithNext if options.get("new-units") == "next" else World
        self.world = kind(
            machine(options.get("protocol", "ordered"), options.get("variant"), **_parameters(options)),
            _version(1, units, owners),
            sources,
            credit_bytes=int(options.get("credit", FRAMES)),
            recoverable=False,
            restart=self._without,
            trace=self.transcript,
        )
        for items in sources.items.values():
            items.clear()
        chain = options["operators"].split("/") if "operators" in options else []
        self.world.begin_without(options["stateless"].split(",") if "stateless" in options else [])
        self.world.work_with(Operators(tuple(frozenset(keys.split(",")) for keys in chain)))
        self._flow()
        self.transcript.lines.clear()

    def _rescale(self, *words: Any) -> None:
        *words, owners = words
        units = frozenset(int(word) for word in words if word.isdigit())
        options = dict(word.split("=") for word in words if not word.isdigit())
        pacing = Pacing(int(options["parallel"])) if options else Pacing()
        number = self.world.version.number + 1
        self.world.tell(Requested(_version(number, units, owners), pacing))

    def _renumber(self) -> None:
        version = self.world.version
        self.world.tell(Requested(_version(version.number + 2, version.units, version.owners)))

    def _without(self, version: Version[str], lost: int | None) -> Version[str]:
        units = version.units - {lost}
        owners = {key: unit if unit in units else min(units) for key, unit in version.owners.items()}
        return _version(version.number + 1, frozenset(units), owners)

    def _read(self, source: str, key: str, time: str = "0") -> None:
        self._happens_at(source, (key, int(time)))

    def _time(self, source: str, time: str) -> None:
        self._happens_at(source, int(time))

    def _happens_at(self, source: str, item: Any) -> None:
        sources = self.world.sources
        sources.items[source].append(item)
        if source in sources.readable():
            self.world.happen((SOURCE, source))

    def _deliver(self, sender: str, to: str, *connection: str) -> None:
        self.world.happen((STREAM, int(sender), int(to), *connection))

    def _order(self, unit: str) -> None:
        self.world.happen((ORDERS, int(unit)))

    def _report(self, unit: str) -> None:
        self.world.happen((REPORTS, int(unit)))

    def _state(self, key: str, unit: str) -> None:
        self.world.happen((STATE, key, int(unit)))

    def _operators(self, unit: str) -> None:
        self.world.happen((INTERROGATION, int(unit)))

    def _move(self, source: str, to: str) -> None:
        self.world.tell(MoveSource(source, int(to)))

    def _snapshot(self) -> None:
        self.world.tell(SnapshotDue())

    def _lost(self, unit: str) -> None:
        self.world.tell(UnitLost(int(unit)))

    def _late(self) -> None:
        self.world.tell(DeadlinePassed(self.world.job.phase.next.number))

    def _flow(self, *but: str) -> None:
        """`but`: lanes as they are written in the other commands, with `-` for the blank."""
        while lanes := [lane for lane in self.world.possible() if _name(lane) not in but]:
            self.world.happen(min(lanes, key=str))

    def _end(self) -> None:
        assert not self.world.possible()
        witness = self.world.witness
        self.world.ends(None)
        order = f"and {witness.overtaking} before an older one" if witness.overtaking else "in order"
        self.transcript.lines.append(f"every record is applied once, {order}")


class _NewUnitsWithNext(World):
    """Hole G: a new unit that goes by the new mapping from the beginning."""

    def _do_for_job(self, effect: JobEffect[int]) -> None:
        match effect:
            case Start(unit=unit):
                super()._do_for_job(Start(unit, self.job.phase.next))  # type: ignore[union-attr]
            case Tell(to=to, order=Intent()) if to not in self.version.units:
                pass
            case _:
                super()._do_for_job(effect)


def transcribed(text: str) -> Iterator[str]:
    """The paragraphs of a scenario, with what the commands led to below each `----`."""
    scenario = Scenario()
    for paragraph in text.rstrip().split("\n\n"):
        commands, divider, _ = paragraph.partition("\n----")
        if not divider:
            yield paragraph
            continue
        lines = [line for command in commands.splitlines() for line in scenario.does(command)]
        yield "\n".join([commands, "----", *lines])


def _name(lane: tuple[Any, ...]) -> str:
    word = {
        STREAM: "deliver",
        ORDERS: "order",
        REPORTS: "report",
        INTERROGATION: "operators",
        STATE: "state",
        SOURCE: "read",
    }[lane[0]]
    return "-".join(map(str, (word, *lane[1:])))


def _parameters(options: dict[str, str]) -> dict[str, int]:
    """Of `controller`."""
    return {name: int(options[name]) for name in ("distributors", "at_once") if name in options}


def _owners(text: str) -> dict[str, int]:
    return {key: int(unit) for key, _, unit in (pair.partition("=") for pair in text.split())}


def _version(number: int, units: frozenset[int], owners: dict[str, int]) -> Version[Any]:
    return Version(number, f"digest of {number}", owners, units)
