"""The SVG: plain shapes on a background of their own, so that it reads the same on a dark page."""

from itertools import pairwise
from textwrap import wrap
from typing import Any, Final
from xml.etree import ElementTree as ET

from dispatcher.handover.simulator.diagram.sequence import Arrow, Kind, Sequence, Span, Text
from dispatcher.handover.simulator.diagram.turns import COORDINATOR, name

PALETTE: Final = ("#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#332288", "#8c6d31", "#999933")
"""For vnodes, then again from the beginning. The first are Okabe and Ito's, which colour-blind people tell apart, less
what is too pale on white or too near to the red of a violation."""
GREY: Final = "#666666"
RED: Final = "#b00020"
STYLE: Final = f"""
text {{ font: 11px sans-serif; fill: #222; stroke: #fff; stroke-width: 3px; paint-order: stroke; }}
.heading {{ font-size: 14px; font-weight: bold; }}
.head, .phase {{ text-anchor: middle; stroke: none; }}
.head {{ font-weight: bold; }}
.phase {{ font-style: italic; }}
.key {{ font-size: 9px; text-anchor: middle; stroke: none; }}
.left {{ text-anchor: end; }}
.violation {{ fill: {RED}; font-weight: bold; }}
.arrow {{ stroke-width: 1.2; }}
.leaving {{ opacity: 0.3; }}
.state {{ stroke-width: 3; }}
.order, .report, .start {{ stroke-width: 0.7; }}
.start {{ stroke-dasharray: 3 3; }}
.direct {{ stroke-dasharray: 8 3; }}
.nowhere {{ stroke-dasharray: 2 3; }}
"""
LANES_MAX: Final = 11
EVENTS_MAX: Final = 300
MARGIN: Final = 24
HEADER: Final = 72
LINE: Final = 16
LETTER: Final = 5.7
"""How wide one is, about."""
GAP_MIN: Final = 110
GAP_MAX: Final = 270
STRIP: Final = 7
HEAD: Final = 10
"""Half the height of a lane's head."""
HEAD_WIDTH: Final = 52
STUB: Final = 0.2
"""How much is drawn of an arrow that a restart made pointless."""
LEGEND: Final = (
    "p0#1 for 2: record 1 of source partition p0, which is for vnode 2. Full dot: applied; empty dot: waits.",
    "Thick arrow: state. Grey: what units and the coordinator say.",
    "Bar: the unit holds the vnode's state (pale: it is being cut out). Box: the unit's phase from there on.",
)


class TooLarge(ValueError):
    """Nobody could read the picture."""

    def __init__(self, lanes: int, events: int) -> None:
        self.lanes = lanes
        self.events = events
        ways = [
            *(["fewer units with --from 2 --to 3"] if lanes > LANES_MAX else []),
            *(["fewer events with --records 6 --vnodes 2"] if events > EVENTS_MAX else []),
        ]
        fewer = " and ".join(ways)
        super().__init__(
            f"{events} events on {lanes} lanes are no picture that can be read, {EVENTS_MAX} on {LANES_MAX} may be;"
            f" try {fewer}, or --shortest where something is broken"
        )


def svg(drawn: Sequence, heading: str, violation: str | None = None) -> str:
    """Raises `TooLarge`."""
    if len(drawn.lanes) > LANES_MAX or len(drawn.texts) > EVENTS_MAX:
        raise TooLarge(len(drawn.lanes), len(drawn.texts))
    drawing = _Drawing(drawn, heading, violation)
    drawing.draw()
    ET.indent(drawing.root)
    # In ASCII, which every terminal's encoding survives.
    text: bytes = ET.tostring(drawing.root, encoding="us-ascii")
    return text.decode("ascii") + "\n"


class _Drawing:
    def __init__(self, drawn: Sequence, heading: str, violation: str | None) -> None:
        self.drawn = drawn
        self.heading = heading
        self.colours = {key: PALETTE[at % len(PALETTE)] for at, key in enumerate(drawn.keys)}
        self.half = len(drawn.keys) * STRIP // 2 + 2
        self.x, width = self._columns()
        self.width = max(width, 2 * MARGIN + round(max(map(len, LEGEND)) * LETTER))
        self.broken = wrap(violation, round((self.width - 2 * MARGIN) / LETTER / 1.1)) if violation else []
        self.legend: tuple[str, ...] = LEGEND
        if any(arrow.direct for arrow in drawn.arrows):
            self.legend += ("Dashed: records that go past the old owner, or were held at a distributor.",)
        if not all(arrow.arrived for arrow in drawn.arrows):
            self.legend += ("Dotted: it has not arrived, before the end or before a restart.",)
        if drawn.left_out:
            self.legend += (
                f"Not drawn: {drawn.left_out} frames of credit and event time; with --all, they are.",
            )
        self.height = HEADER + drawn.bottom + LINE * (len(self.broken) + len(self.legend) + 3)
        self.root = ET.Element(
            "svg",
            xmlns="http://www.w3.org/2000/svg",
            width=f"{self.width}",
            height=f"{self.height}",
            viewBox=f"0 0 {self.width} {self.height}",
        )

    def draw(self) -> None:
        """The background first."""
        ET.SubElement(self.root, "title").text = self.heading
        ET.SubElement(self.root, "style").text = STYLE
        self._draw_heads_of_arrows()
        self._rect(self.root, (0, 0, self.width, self.height), fill="#ffffff")
        self._write(self.root, MARGIN, 26, self.heading, "heading")
        self._draw_keys()
        lanes = ET.SubElement(self.root, "g", transform=f"translate(0 {HEADER})")
        spans = [span for span in self.drawn.spans if span.lane in self.x]
        lives = [span for span in spans if span.key is None]
        for life in lives:
            self._draw_line_of_life(lanes, life)
        for span in spans:
            if span.key is not None:
                self._draw_bar(lanes, span)
        for life in lives:
            self._draw_heads(lanes, life)
        for arrow in self.drawn.arrows:
            self._draw_arrow(lanes, arrow)
        self._draw_marks(lanes)
        for text in self.drawn.texts:
            self._draw_text(lanes, text)
        self._draw_end(lanes)
        self._draw_legend()

    def _columns(self) -> tuple[dict[int, int], int]:
        """The lanes, as far from each other as what is written between them needs, within limits; and the width."""
        lanes = self.drawn.lanes
        reach = {(lane, side): 0 for lane in lanes for side in (-1, 1)}
        for text in self.drawn.texts:
            reach[text.lane, text.side] = max(reach[text.lane, text.side], round(len(text.text) * LETTER))
        at = MARGIN + 40
        columns = {lanes[0]: at} if lanes else {}
        for left, right in pairwise(lanes):
            widest = max(reach[left, 1], reach[right, -1]) + 2 * self.half + 30
            at += min(GAP_MAX, max(GAP_MIN, widest))
            columns[right] = at
        # Where the widest gap was too small, what is written to the left begins beyond the first lane.
        begin = min([MARGIN, *(columns[lane] - self.half - 12 - reach[lane, -1] for lane in lanes)])
        columns = {lane: x + MARGIN - begin for lane, x in columns.items()}
        at += MARGIN - begin
        ends = [columns[lane] + self.half + 12 + reach[lane, 1] for lane in lanes]
        return columns, max([at + 40, *ends]) + MARGIN

    def _draw_heads_of_arrows(self) -> None:
        definitions = ET.SubElement(self.root, "defs")
        for colour in sorted({GREY, *self.colours.values()}):
            marker = ET.SubElement(
                definitions,
                "marker",
                id=f"head-{colour[1:]}",
                viewBox="0 0 8 8",
                refX="8",
                refY="4",
                markerWidth="8",
                markerHeight="8",
                markerUnits="userSpaceOnUse",
                orient="auto",
            )
            ET.SubElement(marker, "path", d="M0 0 8 4 0 8z", fill=colour)

    def _draw_keys(self) -> None:
        x = MARGIN
        for key, colour in self.colours.items():
            self._rect(self.root, (x, 36, 10, 10), fill=colour)
            self._write(self.root, x + 15, 45, f"vnode {key}")
            x += round((len(f"vnode {key}") + 4) * LETTER) + 12

    def _draw_line_of_life(self, parent: ET.Element, span: Span) -> None:
        x = self.x[span.lane]
        self._line(parent, (x, span.begin), (x, self._end(span)), stroke="#999999")

    def _draw_heads(self, parent: ET.Element, span: Span) -> None:
        """At both ends, but at the lower one only a bar where it ends before the run does."""
        group = ET.SubElement(parent, "g", {"class": "lane"})
        self._draw_head(group, span.lane, span.begin)
        if span.end is None:
            self._draw_head(group, span.lane, self.drawn.bottom)
        else:
            x = self.x[span.lane]
            self._line(group, (x - self.half, span.end), (x + self.half, span.end), stroke="#222222")

    def _draw_bar(self, parent: ET.Element, span: Span) -> None:
        left, begin = self._strip(span.lane, span.key), span.begin
        if not begin:
            begin = HEAD + 14
            self._write(parent, left + STRIP // 2, begin - 3, str(span.key), "key")
        group = ET.SubElement(parent, "g", {"class": "leaving" if span.leaving else "holding"})
        ET.SubElement(group, "title").text = f"{name(span.lane)}: state of {span.key}"
        box = (left, begin, STRIP - 1, self._end(span) - begin)
        self._rect(group, box, fill=self.colours[span.key])

    def _end(self, span: Span) -> int:
        return self.drawn.bottom if span.end is None else span.end

    def _strip(self, lane: int, key: Any) -> int:
        """Where the bar of a vnode begins, from the left: each has its place on a lane."""
        keys = self.drawn.keys
        return self.x[lane] - len(keys) * STRIP // 2 + keys.index(key) * STRIP

    def _draw_head(self, parent: ET.Element, lane: int, y: int) -> None:
        width = HEAD_WIDTH + 28 if lane == COORDINATOR else HEAD_WIDTH
        box = (self.x[lane] - width // 2, y - HEAD, width, 2 * HEAD)
        self._rect(parent, box, fill="#eeeeee", stroke="#888888", rx="3")
        self._write(parent, self.x[lane], y + 4, name(lane), "head")

    def _draw_arrow(self, parent: ET.Element, arrow: Arrow) -> None:
        colour = GREY if arrow.key is None else self.colours[arrow.key]
        classes = ["arrow", arrow.kind.value]
        if arrow.direct:
            classes.append("direct")
        if not arrow.arrived:
            classes.append("nowhere")
        group = ET.SubElement(parent, "g", {"class": " ".join(classes)})
        ET.SubElement(group, "title").text = arrow.title
        out = arrow.side * (self.half + 1)
        x, to_x, to_y = self.x[arrow.source] + out, self.x[arrow.target] - out, arrow.end
        if arrow.kind is Kind.START:
            to_x = self.x[arrow.target] - HEAD_WIDTH // 2
        if to_y is None:
            to_x, to_y = round(x + (to_x - x) * STUB), arrow.begin + LINE
        head = f"url(#head-{colour[1:]})"
        self._line(group, (x, arrow.begin), (to_x, to_y), stroke=colour, marker_end=head)

    def _draw_marks(self, parent: ET.Element) -> None:
        for mark in self.drawn.marks:
            colour = self.colours[mark.key]
            ET.SubElement(
                parent,
                "circle",
                {"class": "applied" if mark.applied else "waits"},
                cx=f"{self._strip(mark.lane, mark.key) + STRIP // 2}",
                cy=f"{mark.y}",
                r="5",
                fill=colour if mark.applied else "#ffffff",
                stroke="#222222",
            )
        for change in self.drawn.changes:
            half, x = round(len(change.phase) * LETTER / 2) + 8, self.x[change.lane]
            self._rect(
                parent, (x - half, change.y - 8, 2 * half, 16), fill="#ffffff", stroke="#222222", rx="8"
            )
            self._write(parent, x, change.y + 4, change.phase, "phase")

    def _draw_text(self, parent: ET.Element, text: Text) -> None:
        x = self.x[text.lane] + text.side * (self.half + 11)
        written = self._write(parent, x, text.y, text.text, "left" if text.side < 0 else None)
        ET.SubElement(written, "title").text = text.title

    def _draw_end(self, parent: ET.Element) -> None:
        y = self.drawn.bottom + HEAD + LINE
        if self.broken:
            line = (MARGIN, self.drawn.end), (self.width - MARGIN, self.drawn.end)
            self._line(parent, *line, stroke=RED, stroke_width="2")
        for at, words in enumerate(self.broken):
            self._write(parent, MARGIN, y + LINE * at, words, "violation")

    def _draw_legend(self) -> None:
        y = self.height - LINE * len(self.legend)
        for at, words in enumerate(self.legend):
            self._write(self.root, MARGIN, y + LINE * at, words)

    def _write(self, parent: ET.Element, x: int, y: int, words: str, kind: str | None = None) -> ET.Element:
        text = ET.SubElement(parent, "text", {"class": kind} if kind else {}, x=f"{x}", y=f"{y}")
        text.text = words
        return text

    def _rect(self, parent: ET.Element, box: tuple[int, int, int, int], **look: str) -> None:
        x, y, width, height = map(str, box)
        ET.SubElement(parent, "rect", look, x=x, y=y, width=width, height=height)

    def _line(self, parent: ET.Element, begin: tuple[int, int], end: tuple[int, int], **look: str) -> None:
        (x1, y1), (x2, y2) = begin, end
        dashed = {name.replace("_", "-"): value for name, value in look.items()}
        ET.SubElement(parent, "line", dashed, x1=f"{x1}", y1=f"{y1}", x2=f"{x2}", y2=f"{y2}")
