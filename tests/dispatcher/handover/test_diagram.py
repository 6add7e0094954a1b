"""The picture of a run has all that happened in it; and those of docs/ are what their commands draw."""

import json
import os
import re
import shlex
from collections import Counter
from pathlib import Path
from typing import Any, get_args, get_origin
from xml.etree import ElementTree as ET

import pytest

from dispatcher.handover.effect import Report, Send
from dispatcher.handover.event import Read, Received
from dispatcher.handover.job import Reported, Tell
from dispatcher.handover.message import Batch
from dispatcher.handover.simulator.diagram.composition import composed
from dispatcher.handover.simulator.diagram.drawing import GAP_MAX, LETTER, svg
from dispatcher.handover.simulator.diagram.picture import pictured
from dispatcher.handover.simulator.diagram.turns import Turn
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Run
from dispatcher.handover.simulator.transcript import said
from dispatcher.handover.version import Version
from tests.vnodectl.terminal import invoke

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "handover.md").read_text()
DRAWN = [
    shlex.split(line)[1:] for line in re.findall(r"^\$ (vnodectl handover trace .*)$", PAGE, re.MULTILINE)
]
SEED = 2
FRAMES = {"records", "state", "word"}
REPORTS = {get_origin(report) or report for report in get_args(Report)}
SAID = {*FRAMES, "order", "report"}


def parsed(text: str) -> ET.Element:
    """Without the namespace."""
    assert "<script" not in text
    return ET.fromstring(text.replace(' xmlns="http://www.w3.org/2000/svg"', ""))


def of_class(picture: ET.Element, *classes: str) -> list[ET.Element]:
    return [each for each in picture.iter() if set(each.get("class", "").split()) & set(classes)]


def drawn(options: Options, seed: int, *, everything: bool = False) -> str:
    return pictured(Run(options, seed), f"seed {seed}", everything=everything)[0]


def titles(elements: list[ET.Element]) -> list[str]:
    return [each.findtext("title", "") for each in elements]


@pytest.mark.parametrize(
    "options",
    [
        Options(),
        Options(units_before=3, units_after=2, records=12, overlap=True, moving_sources=True),
        Options(units_before=3, units_after=5, vnodes=2, records=6, crash=True, credit_frames=1),
        Options(variant="without-rule-5"),
        Options(parallel=1, units_before=3, units_after=2, records=12, vnodes=8, overlap=True),
        Options("icadd", records=12),
        Options("controller", records=12),
    ],
    ids=["default", "overlap", "crash", "broken", "rounds", "icadd", "controller"],
)
def test_every_frame_order_and_report_is_drawn_once_from_where_it_is_sent_to_where_it_is_heard(
    options: Options,
) -> None:
    sent: Counter[str] = Counter()
    heard: Counter[str] = Counter()
    under_way = []
    at = ""

    def trace(who: str, what: Any) -> None:
        nonlocal at
        at = who if who.startswith("unit") else at
        match what:
            case Send(frame=thing) | Tell(order=thing):
                by = "coordinator" if isinstance(what, Tell) else at
            case _ if not who and type(what) in REPORTS:
                by, thing = at, what
            case Received(frame=thing) | Reported(report=thing):
                by = ""
            case thing:
                by = ""
        if by:
            under_way.append(thing)
            sent[f"{by} {said(what)}"] += 1
        # What is read first is nobody's order.
        elif any(thing is each for each in under_way):
            heard[f"{who}: {said(what)}"] += 1

    Run(options, SEED, trace=trace).finish()
    arrows = titles(of_class(parsed(drawn(options, SEED, everything=True)), *SAID))
    assert Counter(title.split("\n")[0] for title in arrows) == sent
    assert Counter(title.split("\n")[1] for title in arrows if "\n" in title) == heard


def test_credit_and_event_time_are_left_out_and_counted() -> None:
    whole, less = (drawn(Options(), 1, everything=everything) for everything in (True, False))
    count = len(of_class(parsed(whole), *FRAMES)) - len(of_class(parsed(less), *FRAMES))
    assert count > 0
    assert f"Not drawn: {count} frames" in less
    assert "Not drawn" not in whole
    assert "CREDIT" not in less


def test_a_lane_for_the_coordinator_and_each_unit_and_bars_where_the_state_is() -> None:
    picture = parsed(drawn(Options(vnodes=1, records=5), 522))
    heads = [lane.findtext("text") for lane in of_class(picture, "lane")]
    assert heads == ["coordinator", "unit 0", "unit 1", "unit 2"]
    begins = [int(box.get("y", "")) for lane in of_class(picture, "lane") for box in lane.findall("rect")[:1]]
    assert begins[0] == begins[1] == begins[2] < begins[3]
    bars = of_class(picture, "holding", "leaving")
    assert titles(bars) == ["unit 0: state of 0", "unit 0: state of 0", "unit 2: state of 0"]
    (old, leaving, new) = [
        (int(bar.get("y", "")), int(bar.get("y", "")) + int(bar.get("height", "")))
        for bar in (each.find("rect") for each in bars)
        if bar is not None
    ]
    assert old[1] == leaving[0] < leaving[1] < new[0] < new[1]
    assert [change.text for change in of_class(picture, "phase")][:2] == ["Giving", "Given"]


def test_a_unit_to_which_nothing_happens_has_no_lane_and_any_name_is_a_key() -> None:
    version: Version[Any] = Version(1, "", {"<a&b>": 0}, frozenset({0, 1}))
    picture = parsed(svg(composed([Turn(0, Read(Batch("<a&b>", "p0", (0,), 1)), [])], version), "<heading>"))
    assert [lane.findtext("text") for lane in of_class(picture, "lane")] == ["unit 0"]
    assert "reads p0#0 for <a&b>" in [text.text for text in picture.iter("text")]
    assert len(of_class(picture, "waits")) == 1


def test_what_is_broken_is_shown_with_what_was_under_way() -> None:
    command = ("handover", "trace", "--variant", "without-rule-5", "--seed", "2", "--vnodes", "1")
    whole, shortest = (
        invoke(*command, "--records", "4", "--svg", "-", *less) for less in ((), ("--shortest",))
    )
    for ran in (whole, shortest):
        assert ran.exit_code == 1
        assert ran.stderr.startswith("order: unit 2 applies ")
        picture = parsed(ran.stdout)
        assert " ".join(line.text or "" for line in of_class(picture, "violation")) == ran.stderr.rstrip()
        under_way = titles(of_class(picture, "nowhere"))
        assert under_way
        assert all("\n" not in title for title in under_way)
    assert len(shortest.stdout) < len(whole.stdout)
    assert not of_class(parsed(drawn(Options(), SEED)), "violation", "nowhere")


@pytest.mark.parametrize("command", DRAWN, ids=lambda command: Path(command[-1]).stem)
def test_the_pictures_of_the_page_are_what_its_commands_draw(command: list[str]) -> None:
    """With `REWRITE=1` in the environment they are drawn anew."""
    *command, option, file = command
    assert option == "--svg"
    assert f"({Path(file).relative_to('docs')})" in PAGE
    picture = invoke(*command, option, "-").stdout
    if os.environ.get("REWRITE"):
        (ROOT / file).write_text(picture)
    else:
        assert (ROOT / file).read_text() == picture


def test_the_page_has_a_picture() -> None:
    assert DRAWN


def test_the_command_writes_a_file_and_says_where_and_what_it_shows(tmp_path: Path) -> None:
    file = tmp_path / "run.svg"
    for _ in range(2):
        ran = invoke("handover", "trace", "--seed", "1", "--svg", str(file))
        assert ran.exit_code == 0
        assert re.fullmatch(rf"\d+ steps, and all held; drawn in {re.escape(str(file))}\n", ran.stdout)
        assert file.read_text() == drawn(Options(), 1)


def test_what_cannot_be_drawn_or_written_is_refused_with_advice(tmp_path: Path) -> None:
    wall = invoke("handover", "trace", "--seed", "1", "--records", "300", "--svg", str(tmp_path / "wall.svg"))
    assert wall.exit_code == 2
    answer = json.loads(wall.stdout)
    assert answer["error"] == "too-large"
    assert "try fewer events with --records 6 --vnodes 2, or" in answer["detail"]
    few = ("--records", "2", "--vnodes", "2", "--svg", "-")
    broad = invoke("handover", "trace", "--seed", "1", "--from", "12", "--to", "13", *few)
    assert "try fewer units with --from 2 --to 3, or" in json.loads(broad.stdout)["detail"]
    nowhere = invoke("handover", "trace", "--seed", "1", "--svg", str(tmp_path / "none" / "run.svg"))
    assert nowhere.exit_code == 2
    assert "No such file" in nowhere.stderr
    assert not list(tmp_path.iterdir())


def test_what_is_written_begins_within_the_picture() -> None:
    """Also where it is longer than lanes are apart."""
    written = of_class(parsed(drawn(Options(vnodes=8, records=6), 2)), "left")
    assert max(len(each.text or "") for each in written) * LETTER > GAP_MAX
    assert min(float(each.get("x", "0")) - len(each.text or "") * LETTER for each in written) >= 0
