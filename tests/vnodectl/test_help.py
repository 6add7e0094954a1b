"""What `--help` says of each command."""

from collections.abc import Iterator

import pytest
import typer

from meta.vnodectl.main import app
from tests.vnodectl.terminal import invoke


def commands() -> Iterator[list[str]]:
    """The words of each command there is."""
    top = typer.main.get_command(app)
    for name, command in sorted(top.commands.items()):  # type: ignore[attr-defined]
        inner = getattr(command, "commands", None)
        if inner is None:
            yield [name]
        else:
            yield from ([name, of] for of in sorted(inner))


@pytest.mark.parametrize("words", list(commands()), ids=" ".join)
def test_each_command_says_what_it_does_with_an_example(words: list[str]) -> None:
    said = invoke(*words, "--help", COLUMNS="200")
    assert said.exit_code == 0
    example = said.output.partition("Example: ")[2]
    # An offline form's example is the document that it reads.
    assert f"vnodectl {' '.join(words)}" in example or '{"' in said.output


def test_the_exit_codes_are_told() -> None:
    said = " ".join(invoke("--help").output.split())
    for words in ("0 done", "1 not settled in time", "2 refused", "130 Ctrl-C"):
        assert words in said
