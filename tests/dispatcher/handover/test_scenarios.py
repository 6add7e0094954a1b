"""The scenarios, as they are written; with `REWRITE=1` in the environment they are written anew."""

import os
from pathlib import Path

import pytest

from tests.dispatcher.handover.scenario import transcribed

SCENARIOS = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_it_happens_as_it_is_written(path: Path) -> None:
    written = path.read_text()
    happened = "\n\n".join(transcribed(written)) + "\n"
    if os.environ.get("REWRITE"):
        path.write_text(happened)
    else:
        assert happened == written
