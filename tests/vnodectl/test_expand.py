"""`vnodectl expand --offline` as a process of its own."""

import json
import subprocess
import sys
from typing import Any

CLICKS = [["kafka", "clicks", number] for number in range(4)]
FIRST = {"grouper": "partition", "partitions": CLICKS[:2]}


def expand(typed: str, *options: str) -> tuple[int, list[Any], str]:
    """The exit code, each line of the answer, and what was said beside it."""
    command = [sys.executable, "-m", "meta.vnodectl", "expand", *options]
    done = subprocess.run(command, input=typed, capture_output=True, text=True, check=False)
    return done.returncode, [json.loads(line) for line in done.stdout.splitlines()], done.stderr


def test_an_answer_becomes_the_previous_assignment() -> None:
    code, (first,), _ = expand(json.dumps(FIRST), "--offline")
    assert (code, first) == (0, {"tasks": {"Partition 0": CLICKS[:1], "Partition 1": CLICKS[1:2]}})
    grown = {**FIRST, "partitions": CLICKS, "previous": first["tasks"]}
    expected = {"tasks": {"Partition 0": CLICKS[::2], "Partition 1": CLICKS[1::2]}}
    assert expand(json.dumps(grown), "--offline") == (0, [expected], "")


def test_a_refusal_is_a_document_and_exit_code_2() -> None:
    refused = {**FIRST, "partitions": CLICKS[:3], "previous": {"a": CLICKS[:2]}}
    code, (answer,), _ = expand(json.dumps(refused), "--offline")
    assert (code, answer["error"]) == (2, "not-a-multiple")
    assert "a multiple of 2, the next is 4" in answer["detail"]
    code, (answer,), _ = expand("{", "--offline")
    assert (code, answer["error"]) == (2, "malformed")


def test_with_lines_a_refused_line_does_not_end_the_run() -> None:
    code, answers, _ = expand(f"{json.dumps(FIRST)}\n[]\n{json.dumps(FIRST)}\n", "--offline", "--lines")
    assert code == 0
    assert answers[0] == answers[2]
    assert answers[1]["error"] == "malformed"


def test_without_offline_it_says_what_to_do() -> None:
    code, answers, said = expand("")
    assert (code, answers) == (2, [])
    assert "use --offline" in said
