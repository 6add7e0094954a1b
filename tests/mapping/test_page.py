"""docs/planner.md and docs/expansion.md, run as they stand there: assertions hold, and commands answer."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / f"{name}.md").read_text()


def commands_of(text: str) -> list[str]:
    return re.findall(r"^\$ (.*)$", text, re.MULTILINE)


def answer(command: str) -> Any:
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    ran = subprocess.run(command, shell=True, check=True, capture_output=True, text=True, env=environment)
    return json.loads(ran.stdout)


@pytest.mark.parametrize(("name", "count"), [("planner", 4), ("expansion", 2)])
def test_the_page_runs(name: str, count: int) -> None:
    blocks = re.findall(r"```python\n(.*?)```", page(name), re.DOTALL)
    assert len(blocks) == count
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)


def test_the_planner_answers_as_its_page_says() -> None:
    (command,) = commands_of(page("planner"))
    planned = answer(command)
    assert (planned["lower_bound"], planned["gap"], planned["assigned"]) == (len(planned["moves"]), 0, 1)
    assert {"owners", "spread", "runs", "cross_worker_moves", "summary"} <= planned.keys()


def test_the_expansion_answers_as_its_page_says() -> None:
    text = page("expansion")
    commands = commands_of(text)
    first, grown = map(answer, commands)
    assert f'"previous": {json.dumps(first["tasks"])}' in commands[1]
    assert json.dumps(grown) in " ".join(text.split())
