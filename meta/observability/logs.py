"""The service's log: every logger's lines in one form, with the request and the rescale that they are about.

Code logs through `logging`; facts go into `extra`. Nothing here writes a secret: what looks like one is struck out.
"""

import logging
import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import structlog
from stamina.instrumentation import RetryDetails, set_on_retry_hooks
from structlog.typing import EventDict, Processor, WrappedLogger

from meta.api.requests import request_fields

log = logging.getLogger(__name__)


class LogFormat(StrEnum):
    TEXT = "text"
    JSON = "json"


# Whatever ends a line, moves a terminal's cursor, turns the direction of text, or is no character at all.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_SECRETS = (
    (re.compile(r"(vnm_[A-Za-z0-9]{1,32}_)[A-Za-z0-9_-]+"), r"\1***"),
    (re.compile(r"(?i)(\b(?:bearer|basic)\s+)[A-Za-z0-9._~+/=*-]{6,}"), r"\1***"),
    (re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,30}://[^\s:/@]{0,255}:)\S{1,1024}@"), r"\1***@"),
    (re.compile(r"(?i)(\bpassword\s*[=:]\s*)('[^']*'|\"[^\"]*\"|[^\s&'\"]+)"), r"\1***"),
)
_SECRET_NAMES = frozenset({"authorization", "password", "secret", "token", "headers", "body"})


def configure(form: LogFormat, level: int = logging.INFO) -> None:
    """For the whole process, in place of what was configured before."""
    handler = logging.StreamHandler()
    handler.setFormatter(_formatter(form))
    root = logging.getLogger()
    for old in tuple(root.handlers):
        root.removeHandler(old)
    root.addHandler(handler)
    root.setLevel(level)
    logging.getLogger("alembic").setLevel(logging.WARNING)
    set_on_retry_hooks([tell_of_retry])


def tell_of_retry(details: RetryDetails) -> None:
    """Without the arguments, which may hold tokens and URLs."""
    log.info(
        "%s is tried again",
        details.name,
        extra={
            "callable": details.name,
            "attempt": details.retry_num,
            "error": f"{type(details.caused_by).__name__}: {details.caused_by}",
            "wait_s": round(details.wait_for, 3),
        },
    )


def _formatter(form: LogFormat) -> logging.Formatter:
    shared: list[Processor] = [
        structlog.stdlib.ExtraAdder(),
        structlog.contextvars.merge_contextvars,
        _of_request,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="ts"),
        structlog.processors.format_exc_info,
        _without_secrets,
    ]
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(form)],
    )


def _rendering(form: LogFormat) -> list[Processor]:
    if form is LogFormat.JSON:
        # In ASCII, which no terminal and no shipper of logs takes for anything else.
        return [_in_order, structlog.processors.JSONRenderer(ensure_ascii=True)]
    return [
        _in_one_line,
        structlog.dev.ConsoleRenderer(
            colors=False,
            timestamp_key="ts",
            pad_event_to=0,
            exception_formatter=structlog.dev.plain_traceback,
        ),
    ]


def _of_request(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    event.pop("color_message", None)  # uvicorn's second form of its messages
    for name, value in request_fields().items():
        event.setdefault(name, value)
    return event


def _without_secrets(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    # structlog's own, such as the record, are taken out later.
    return {name: value if name.startswith("_") else _named(name, value) for name, value in event.items()}


def _named(name: str, value: Any) -> Any:
    return "***" if name.lower() in _SECRET_NAMES else _struck(value)


def _struck(value: Any) -> Any:
    match value:
        case None | bool() | int() | float():
            return value
        case Mapping():
            return {name: _named(str(name), entry) for name, entry in value.items()}
        case list() | tuple():
            return [_struck(entry) for entry in value]
        case _:
            return struck_out(str(value))


def struck_out(text: str) -> str:
    """The text without what looks like a secret in it."""
    for pattern, shown in _SECRETS:
        text = pattern.sub(shown, text)
    return text


def _in_order(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    first = {name: event[name] for name in ("ts", "level", "logger", "event") if name in event}
    return {**first, **event}


def _in_one_line(_logger: WrappedLogger, _method: str, event: EventDict) -> EventDict:
    """So that nobody's name looks like a line of its own. A traceback has lines, all marked as its own."""
    exception = event.pop("exception", None)
    event = {name: _escaped(value) if isinstance(value, str) else value for name, value in event.items()}
    if exception is not None:
        event["exception"] = "\n".join(f"  | {_escaped(line)}" for line in exception.splitlines())
    return event


def _escaped(text: str) -> str:
    return _CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
