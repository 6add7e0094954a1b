"""docs/scan.md, run as it stands there: its assertions hold, and its command answers."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

PAGE = (Path(__file__).parents[3] / "docs" / "scan.md").read_text()


def test_the_page_runs() -> None:
    # What reads a database has one in test_jdbc_spark.py.
    blocks = [block for block in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL) if "spark." not in block]
    assert len(blocks) == 2
    names: dict[str, Any] = {}
    for block in blocks:
        exec(block, names)


def test_the_command_of_the_page_answers() -> None:
    (command,) = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    # The checkout's own, wherever `vnodectl` is installed from.
    command = command.replace("vnodectl", f"{sys.executable} -m meta.vnodectl")
    done = subprocess.run(
        command, shell=True, check=True, capture_output=True, text=True, cwd=Path(__file__).parents[3]
    )
    answer = json.loads(done.stdout)
    assert (answer["ranges_opened"], answer["vnodes_pruned"]) == (2, 3)
