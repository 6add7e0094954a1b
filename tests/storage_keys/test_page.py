"""docs/keys.md, run as it stands there: its assertions hold, and its commands answer."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

from pyspark.sql import SparkSession

PAGE = (Path(__file__).parents[2] / "docs" / "keys.md").read_text()


def test_the_page_runs(spark: SparkSession) -> None:
    blocks = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    assert len(blocks) == 4
    names = {"spark": spark}
    for block in blocks:
        exec(block, names)


def test_the_commands_of_the_page_answer() -> None:
    commands = re.findall(r"^\$ (.*)$", PAGE, re.MULTILINE)
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    answers = [
        subprocess.run(
            command, shell=True, check=True, capture_output=True, text=True, env=environment
        ).stdout
        for command in commands
    ]
    assert [json.loads(answer) for answer in answers] == [{"hex": "feed1964"}, {"value": [5]}]
