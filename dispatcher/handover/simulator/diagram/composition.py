"""From turns to what is drawn: below each other in their order, so that all that is under way at once goes down."""

from collections.abc import Hashable, Iterable
from typing import Any, Final

from dispatcher.handover import effect, event, job
from dispatcher.handover.message import (
    Acquire,
    Batch,
    Credit,
    Frame,
    Path,
    Records,
    Redistribute,
    RelayedWatermark,
    Watermark,
)
from dispatcher.handover.simulator.diagram.sequence import Arrow, Change, Kind, Mark, Sequence, Span, Text
from dispatcher.handover.simulator.diagram.turns import COORDINATOR, Turn, name
from dispatcher.handover.simulator.topology import VnodeVersion
from dispatcher.handover.simulator.transcript import said

TOP: Final = 40
ROW: Final = 20
BELOW_TEXT: Final = 17
SLOT: Final = 9
"""Between the arrows that one event leads to."""
PHASE: Final = 24
BELOW_ARROW: Final = 11
BESIDE: Final = 4
"""From there to the base line of a text."""

ASIDE_MESSAGES: Final = (Credit, Watermark, RelayedWatermark)
ASIDE: Final = (
    event.Advanced,
    event.Opened,
    effect.Advance,
    effect.AdvanceOnly,
    effect.PauseSources,
    effect.ResumeSources,
)
NO_NEWS: Final = (effect.Drop, effect.StartSource, effect.StopSource)
"""Effects that their event has said."""


def composed(turns: Iterable[Turn], version: VnodeVersion, *, everything: bool = False) -> Sequence:
    """`version`: that of the beginning. Credit, pauses and event time are left out, unless `everything` is wanted."""
    composition = _Composition(version, everything=everything)
    for turn in turns:
        composition.add(turn)
    return composition.finished()


class _Composition:
    def __init__(self, version: VnodeVersion, *, everything: bool) -> None:
        self.everything = everything
        self.drawn = Sequence(tuple(version.owners), end=TOP)
        self.under_way: dict[tuple[int, int, int], Arrow] = {}
        self.spans: dict[tuple[int, Hashable], Span] = {}
        self.execution = 0
        self._span(COORDINATOR, 0)
        self._begin(version, 0)

    def add(self, turn: Turn) -> None:
        y = self.drawn.end
        arrival = self._arrival(turn, y)
        effects = [each for each in turn.effects if not self._is_aside(each)]
        self.drawn.left_out += sum(
            isinstance(each, effect.Send) and self._is_aside(each) for each in turn.effects
        )
        if self._is_aside(turn.event) and not (effects or turn.phase):
            return
        arrows = [arrow for each in effects if (arrow := _arrow(turn.lane, each))]
        sides = {arrow.side for arrow in arrows}
        side, words = _text(turn, arrival, effects, sides)
        base = y + (BELOW_ARROW if arrival else BESIDE)
        self.drawn.texts.append(Text(turn.lane, base, side, words, _line(turn)))
        self._mark(turn, y)
        bottom = self._send(arrows, y + BELOW_TEXT if side in sides else y)
        for each in (turn.event, *effects):
            self._change_spans(turn.lane, each, bottom if isinstance(each, effect.Left) else y)
        if turn.phase:
            bottom += PHASE
            self.drawn.changes.append(Change(turn.lane, bottom, turn.phase))
        self.drawn.end = bottom + ROW

    def finished(self) -> Sequence:
        """What is under way goes below the end, less what a restart has made pointless."""
        drawn = self.drawn
        drawn.bottom = drawn.end + ROW
        for arrow in self.under_way.values():
            if not isinstance(arrow.thing, Frame) or arrow.thing.execution == self.execution:
                arrow.end = drawn.bottom
                drawn.texts.append(
                    Text(arrow.target, arrow.end + BELOW_ARROW, -arrow.side, arrow.label, arrow.title)
                )
                drawn.bottom += ROW
        drawn.bottom += SLOT
        return drawn

    def _is_aside(self, what: Any) -> bool:
        if self.everything:
            return False
        match what:
            case effect.Send(frame=frame) | effect.Refuse(frame=frame) | event.Received(frame=frame):
                return isinstance(frame.message, ASIDE_MESSAGES)
            case _:
                return isinstance(what, ASIDE)

    def _arrival(self, turn: Turn, y: int) -> Arrow | None:
        """As which the event came, if it did."""
        match turn.event:
            case event.Received(sender=source, frame=thing) | job.Reported(unit=source, report=thing):
                pass
            case thing:
                source = COORDINATOR
        arrow = self.under_way.pop((source, turn.lane, id(thing)), None)
        if arrow:
            arrow.end, arrow.arrived = y, True
            arrow.title += f"\n{_line(turn)}"
        return arrow

    def _send(self, arrows: list[Arrow], y: int) -> int:
        """Returns where the last is."""
        for at, arrow in enumerate(arrows):
            arrow.begin = y + at * SLOT
            self.drawn.arrows.append(arrow)
            if arrow.kind is Kind.START:
                arrow.end, arrow.arrived = arrow.begin, True
                self._span(arrow.target, arrow.begin)
            else:
                self.under_way[arrow.source, arrow.target, id(arrow.thing)] = arrow
        return y + max(0, len(arrows) - 1) * SLOT

    def _mark(self, turn: Turn, y: int) -> None:
        """Batches that are applied, the event's own first, and whether that one waits."""
        own = _batch(turn.event)
        refused = any(isinstance(each, effect.Refuse) for each in turn.effects)
        applied = [each.records.batch for each in turn.effects if isinstance(each, effect.Apply)]
        if own and not refused and own not in applied and own not in map(_batch, turn.effects):
            self.drawn.marks.append(Mark(turn.lane, y, own.key, applied=False))
        for at, batch in enumerate(applied):
            self.drawn.marks.append(Mark(turn.lane, y + at * SLOT, batch.key, applied=True))

    def _change_spans(self, lane: int, what: Any, y: int) -> None:
        match what:
            case effect.Install(key=key):
                self._span(lane, y, key)
            case effect.Collect(key=key):
                self._end(lane, y, key)
                self._span(lane, y, key, leaving=True)
            case effect.Drop(key=key):
                self._end(lane, y, key)
            case effect.Left():
                self._end(lane, y)
            case job.Restart():
                self._break_off(y)
            case job.Restarted(execution=execution, version=version):
                self.execution = execution
                self._begin(version, y)

    def _begin(self, version: VnodeVersion, y: int) -> None:
        for unit in sorted(version.units):
            self._span(unit, y)
        for key, unit in version.owners.items():
            self._span(unit, y, key)

    def _break_off(self, y: int) -> None:
        """Orders end with their units; frames and reports may still come."""
        for lane, key in list(self.spans):
            if lane != COORDINATOR:
                self._end(lane, y, key)
        self.under_way = {at: arrow for at, arrow in self.under_way.items() if arrow.kind is not Kind.ORDER}

    def _span(self, lane: int, y: int, key: Any = None, *, leaving: bool = False) -> None:
        span = self.spans[lane, key] = Span(lane, y, key, leaving)
        self.drawn.spans.append(span)

    def _end(self, lane: int, y: int, key: Any = None) -> None:
        """A faulty protocol may end what there is not."""
        span = self.spans.pop((lane, key), None)
        if span:
            span.end = y


def _arrow(lane: int, what: Any) -> Arrow | None:
    """As which an effect leaves the lane; where, is not known yet."""
    title = f"{name(lane)} {said(what)}"
    match what:
        case effect.Send(to=to, frame=frame):
            kind, key = _kind(frame.message)
            direct = isinstance(frame.message, Records) and frame.message.path is Path.DIRECT
            return Arrow(kind, lane, to, frame, _label(lane, frame), title, key, direct)
        case (
            effect.Installed() | effect.Acknowledged() | effect.Released() | effect.Drained() | effect.Left()
        ):
            return Arrow(Kind.REPORT, lane, COORDINATOR, what, said(what), title)
        case job.Tell(to=to, order=order):
            return Arrow(Kind.ORDER, lane, to, order, said(order), title)
        case job.Start(unit=unit):
            return Arrow(Kind.START, lane, unit, what, said(what), title)
        case _:
            return None


def _kind(message: Any) -> tuple[Kind, Any]:
    match message:
        case Records(batch=Batch(key=key)):
            return Kind.RECORDS, key
        case Acquire(key=key):
            return Kind.STATE, key
        case Redistribute(key=key, count=count) if count:
            return Kind.STATE, key
        case _:
            return Kind.WORD, None


def _label(sender: int, frame: Frame[Any]) -> str:
    """Less what the arrow shows: whether a batch goes directly, and from where, but for one that is forwarded."""
    return said(frame.message).removesuffix(", direct").removesuffix(f" from unit {sender}")


def _text(turn: Turn, arrival: Arrow | None, effects: list[Any], sides: set[int]) -> tuple[int, str]:
    """One line, on the side from which the event came, or else where no arrow begins."""
    own = _batch(turn.event)
    words = [arrival.label if arrival else said(turn.event)]
    for each in effects:
        known = isinstance(each, NO_NEWS) or (isinstance(each, effect.Apply) and each.records.batch == own)
        if not known and not _arrow(turn.lane, each):
            words.append(f"refused: {each.reason}" if isinstance(each, effect.Refuse) else said(each))
    free = -1 if sides == {1} and turn.lane != COORDINATOR else 1
    return -arrival.side if arrival else free, " · ".join(words)


def _batch(what: Any) -> Batch[Any] | None:
    """Which an event brings, or an effect sends."""
    match what:
        case event.Read(batch=batch):
            return batch
        case event.Received(frame=Frame(message=Records(batch=batch))):
            return batch
        case effect.Send(frame=Frame(message=Records(batch=batch))):
            return batch
        case _:
            return None


def _line(turn: Turn) -> str:
    """As in the transcript."""
    return f"{name(turn.lane)}: {said(turn.event)}"
