"""`vnodectl expand --offline` as a process of its own; what all offline forms share is in test_processes.py."""

import json
import subprocess
import sys

from typer.testing import CliRunner

from meta.vnodectl.main import app

CLICKS = [["kafka", "clicks", number] for number in range(3)]


def test_a_refusal_is_a_document_and_exit_code_2() -> None:
    refused = {"grouper": "partition", "partitions": CLICKS, "previous": {"a": CLICKS[:2]}}
    command = [sys.executable, "-m", "meta.vnodectl", "expand", "--offline"]
    done = subprocess.run(command, input=json.dumps(refused), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "")
    answer = json.loads(done.stdout)
    assert answer["error"] == "not-a-multiple"
    assert "a multiple of 2, the next is 4" in answer["detail"]


def test_without_offline_it_says_what_to_do() -> None:
    said = CliRunner().invoke(app, ["expand"])
    assert said.exit_code == 2
    assert "use --offline" in said.output
