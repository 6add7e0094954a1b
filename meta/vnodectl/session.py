"""What every command shares: where the service is, how answers and refusals are printed."""

import json
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import islice
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.prompt import Confirm

from meta.mapping.errors import MappingError
from meta.vnodectl.client import REFUSED, Service, ServiceError
from storage_keys.errors import StorageKeyError, shown

DEFAULT_PORT = 7070
DEFAULT_SERVER = f"http://127.0.0.1:{DEFAULT_PORT}"

Core = Callable[[object], dict[str, Any]]
Refusal = type[MappingError] | type[StorageKeyError]

# Answers go to standard output, so that they can be piped; what happens meanwhile goes to standard error.
out = Console(highlight=False)
err = Console(stderr=True, highlight=False)

Server = Annotated[
    str, typer.Option("--server", envvar="VNODEMAP_SERVER", metavar="URL", help="The vnodemap service.")
]
Json = Annotated[
    bool,
    typer.Option("--json", help="Print the answer as one JSON document, and a refusal on standard error."),
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


class AnswerLost(Exception):
    """Nobody can read the answer; the message says why."""


class ServeError(Exception):
    """The service cannot start; the message says what to change."""


@contextmanager
def connected(server: str, *, as_json: bool) -> Iterator[Service]:
    """The service."""
    with refused_as_asked(as_json=as_json), Service(server) as api:
        yield api


@contextmanager
def refused_as_asked(*, as_json: bool) -> Iterator[None]:
    """What is refused within is a JSON document on standard error where JSON is asked for."""
    try:
        yield
    except ServiceError as error:
        if not as_json:
            raise
        print(json.dumps(error.problem), file=sys.stderr)
        raise typer.Exit(error.exit_code) from error


def print_json(answer: Any) -> None:
    """One document on one line."""
    _write(answer)


def confirm(question: str, *, yes: bool) -> None:
    """Goes on only if the operator wants it. Asks on standard error, so that the answer can be piped."""
    if not yes and not Confirm.ask(question, console=err, default=False):
        raise typer.Abort


def listed(words: Iterable[object], words_max: int = 12) -> str:
    """`1, 2, 3 and 40 more`."""
    every = list(words)
    more = f" and {len(every) - words_max} more" if len(every) > words_max else ""
    return ", ".join(map(str, islice(every, words_max))) + more


def local_time(at_ms: int | None) -> str:
    """The day where it is not today."""
    if at_ms is None:
        return "-"
    at = datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
    today = at.date() == datetime.now(UTC).astimezone().date()
    return f"{at:%H:%M:%S}" if today else f"{at:%Y-%m-%d %H:%M:%S}"


def answer_json(core: Core, refusal: Refusal, *, lines: bool = False) -> None:
    """An offline form: JSON from standard input through `core` to standard output, one a line with `lines`."""
    # The interpreter has None for what its parent closed.
    if sys.stdin is None or sys.stdout is None:
        raise AnswerLost("standard input and standard output must be open")
    if sys.stdin.isatty():
        err.print("reading JSON from standard input; Ctrl-D ends it")
    documents = sys.stdin.buffer if lines else [sys.stdin.buffer.read()]
    for number, document in enumerate(documents, 1):
        answer, refused = _answer(core, refusal, document)
        _write(answer | {"line": number} if refused and lines else answer)
        if refused and not lines:
            raise typer.Exit(REFUSED)


def _write(answer: Any) -> None:
    try:
        # In ASCII, which every terminal's encoding and every lone surrogate survives.
        print(json.dumps(answer), flush=True)
    except BrokenPipeError:
        # Its reader has read enough, which typer ends in silence.
        raise
    except OSError as error:
        raise AnswerLost(f"cannot write the answer: {error.strerror}") from error


def _answer(core: Core, refusal: Refusal, text: bytes) -> tuple[dict[str, Any], bool]:
    """The answer, or the error document; and whether it is one."""
    try:
        document = json.loads(text, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        return {"error": "malformed", "detail": _why_unread(text, error)}, True
    try:
        return core(document), False
    except refusal as error:
        return {"error": error.name, "detail": str(error)}, True


def _why_unread(text: bytes, error: Exception) -> str:
    if not text.strip():
        return "there is no JSON document here; give one on standard input"
    several = isinstance(error, json.JSONDecodeError) and error.msg == "Extra data"
    advice = "; for several documents use --lines, one a line" if several else ""
    return f"this is not a JSON document: {error}{advice}"


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of a name that comes twice, Python would keep the last value without a word."""
    found = dict(pairs)
    if len(found) < len(pairs):
        twice = next(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        raise ValueError(f"{shown(twice)} comes twice in one object; write it once")
    return found
