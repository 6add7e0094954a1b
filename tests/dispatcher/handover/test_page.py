"""docs/handover.md: its commands do what it says."""

import json
import re
import shlex
from pathlib import Path

from dispatcher.handover.simulator.machine import FAMILIES
from tests.vnodectl.terminal import invoke

PAGE = (Path(__file__).parents[3] / "docs" / "handover.md").read_text()


def test_the_commands_of_the_page_answer() -> None:
    commands = [
        shlex.split(line)[1:]
        for line in re.findall(r"^\$ (vnodectl handover (?!trace ).*)$", PAGE, re.MULTILINE)
    ]
    (whole, broken, replayed) = [invoke(*command) for command in commands]
    assert [ran.exit_code for ran in (whole, broken, replayed)] == [0, 1, 1]
    answer = json.loads(re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)[0])
    # Of the violations, two kinds and an ellipsis stand for all.
    assert (
        answer.pop("violations").items() - {("...", 0)}
        <= (told := json.loads(whole.stdout)).pop("violations").items()
    )
    assert answer == told
    assert 7 in json.loads(broken.stdout)["failed_seeds"]
    assert replayed.stdout.splitlines()[-1] in broken.stderr


def test_the_page_names_the_variants() -> None:
    assert (
        {"without-rule-2", "without-rule-9"}
        <= set(re.findall(r"without-rule-\d", PAGE))
        <= set(FAMILIES["ordered"].variants)
    )
