"""What the log says, and what it never says."""

import io
import json
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import stamina
from stamina.instrumentation import set_on_retry_hooks
from structlog.contextvars import bound_contextvars

from meta.observability.logs import LogFormat, configure

log = logging.getLogger("vnodemap.test")

SECRET = "hunter2-s3cret"


@pytest.fixture
def written() -> Iterator[Callable[[LogFormat], io.StringIO]]:
    """Configures the log, and gives what is written from then on."""
    root = logging.getLogger()
    handlers, level = tuple(root.handlers), root.level

    def begin(form: LogFormat) -> io.StringIO:
        configure(form)
        (handler,) = root.handlers
        assert isinstance(handler, logging.StreamHandler)
        stream = io.StringIO()
        handler.setStream(stream)
        return stream

    yield begin
    root.handlers[:] = handlers
    root.setLevel(level)
    set_on_retry_hooks(None)


def only(stream: io.StringIO) -> dict[str, Any]:
    (line,) = stream.getvalue().splitlines()
    return dict(json.loads(line))


def test_a_json_line_has_the_facts_and_what_it_is_about(written: Callable[[LogFormat], io.StringIO]) -> None:
    stream = written(LogFormat.JSON)
    with bound_contextvars(fragment="flights", version=7, rescale="ab12"):
        log.warning("etcd is %s", "away", extra={"wait_s": 0.5})
    line = only(stream)
    assert line.pop("ts").endswith("Z")
    assert line == {
        "level": "warning",
        "logger": "vnodemap.test",
        "event": "etcd is away",
        "fragment": "flights",
        "version": 7,
        "rescale": "ab12",
        "wait_s": 0.5,
    }


@pytest.mark.parametrize("logger", ["uvicorn.error", "sqlalchemy.pool", "alembic.runtime", "vnodemap.test"])
def test_every_library_writes_in_the_same_form(
    written: Callable[[LogFormat], io.StringIO], logger: str
) -> None:
    stream = written(LogFormat.JSON)
    logging.getLogger(logger).warning("hello", extra={"color_message": "\x1b[32mhello"})
    line = only(stream)
    assert (line["logger"], line["event"], line["level"]) == (logger, "hello", "warning")
    assert "color_message" not in line


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize(
    "hostile",
    [
        "a\n2026-01-01T00:00:00Z [info] root: all is well",
        "a\r\nb",
        "a\x1b[2Jb",
        "a\u2028b",
        "a\ud800b",
        "a\u202eb",
    ],
)
def test_nobodys_name_can_look_like_a_line_of_its_own(
    written: Callable[[LogFormat], io.StringIO], form: LogFormat, hostile: str
) -> None:
    stream = written(form)
    log.info("subscriber %s came", hostile, extra={"subscriber": hostile})
    text = stream.getvalue()
    assert text.count("\n") == 1
    assert len(text.splitlines()) == 1
    assert not {character for character in text if character < " "} - {"\n"}
    text.encode()


def test_a_traceback_in_text_has_its_lines_marked(written: Callable[[LogFormat], io.StringIO]) -> None:
    stream = written(LogFormat.TEXT)
    try:
        raise ValueError("one\n2026-01-01 [info] two")
    except ValueError:
        log.exception("it failed")
    first, *rest = stream.getvalue().splitlines()
    assert "it failed" in first
    assert "ValueError: one" in stream.getvalue()
    assert [line for line in rest if not line.startswith("  | ")] == []


@pytest.mark.parametrize("form", LogFormat)
@pytest.mark.parametrize(
    "said",
    [
        f"Authorization: Bearer vnm_ab12_{SECRET}",
        f"postgresql://meta:{SECRET}@db.example/vnodemap is away",
        f"postgresql://meta:{SECRET}/@:with@db.example/vnodemap",
        f"connection to host=db user=meta password={SECRET} failed",
        f"password='{SECRET} and more'",
        f"the token vnm_ab12_{SECRET} is not known",
        f"http://proxy:{SECRET}@10.0.0.1:8080",
    ],
)
def test_no_secret_is_written(
    written: Callable[[LogFormat], io.StringIO], form: LogFormat, said: str
) -> None:
    stream = written(form)
    log.info(said)
    log.info("%s", said, extra={"url": said, "headers": {"authorization": SECRET}, "tried": [said]})
    log.info("x", extra={"token": SECRET, "request": {"Authorization": f"Bearer {SECRET}"}})
    try:
        raise ValueError(said)
    except ValueError:
        log.exception("it failed")
    assert SECRET not in stream.getvalue()
    assert "***" in stream.getvalue()


def test_a_retry_is_told_without_the_arguments(written: Callable[[LogFormat], io.StringIO]) -> None:
    stream = written(LogFormat.JSON)

    @stamina.retry(on=OSError, attempts=2, wait_initial=0, wait_jitter=0)
    def ask(url: str, token: str) -> None:
        raise OSError("no route")

    with pytest.raises(OSError, match="no route"):
        ask(f"http://a:{SECRET}@b", token=SECRET)
    line = only(stream)
    assert line["callable"].endswith("ask")
    assert (line["attempt"], line["error"], line["wait_s"]) == (1, "OSError: no route", 0)
    assert SECRET not in stream.getvalue()


def test_a_log_that_cannot_show_a_fact_shows_what_it_is(written: Callable[[LogFormat], io.StringIO]) -> None:
    stream = written(LogFormat.JSON)
    log.info("read", extra={"where": OSError("gone"), "many": (1, 2)})
    assert only(stream)["where"] == "gone"
