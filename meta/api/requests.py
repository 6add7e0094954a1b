"""The border of every request: its id, its line in the log, its metrics.

Stands outside the whole application, so that whatever answers, answers with the request's id.
"""

import logging
import re
import secrets
from contextvars import ContextVar
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meta.observability.metrics import Metrics

log = logging.getLogger("vnodemap.access")

REQUEST_ID = re.compile(rb"[A-Za-z0-9._-]{1,64}")
SLOW_S = 1.0

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
# Anything may be sent as a method; a metric has a series for each.
_METHODS = _READING | {"POST", "PUT", "PATCH", "DELETE"}
_NO_ANSWER = 499  # the client was gone before there was one, in nginx's words

_served: ContextVar[Scope | None] = ContextVar("served", default=None)

# What a path names, in the log's words, by the collection that it is in.
_NAMED = {"workers": "worker", "fragments": "fragment", "rescales": "rescale", "plans": "rescale"}


@dataclass(slots=True)
class _Answer:
    """What is known of the answer once it began."""

    status: int = 0
    seconds: float = 0.0
    replayed: bool = False


class Requests:
    """Gives the request's id as `request.state.request_id`: the client's own if it is well-formed, else a new one."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = _request_id(scope)
        scope.setdefault("state", {})["request_id"] = request_id
        # Never taken back: the server's own lines about this request come after, in the same task.
        _served.set(scope)
        answer, began = _Answer(), perf_counter()

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer.status, answer.seconds = int(message["status"]), perf_counter() - began
                headers = list(message.get("headers", ()))
                answer.replayed = any(name.lower() == b"idempotent-replayed" for name, _ in headers)
                message = {**message, "headers": [*headers, (b"x-request-id", request_id.encode())]}
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            if not answer.status:
                answer.status, answer.seconds = _NO_ANSWER, perf_counter() - began
            self._count(scope, answer)
            _write_line(scope, answer)

    def _count(self, scope: Scope, answer: _Answer) -> None:
        method = scope["method"] if scope["method"] in _METHODS else "other"
        route = _route(scope)
        self._metrics.requests.labels(method, route, str(answer.status)).inc()
        self._metrics.request_seconds.labels(method, route).observe(answer.seconds)
        if answer.replayed:
            self._metrics.replays.inc()


def request_fields() -> dict[str, str]:
    """Of the request that is being served here, in this task or a thread of it: its id, caller and what it names."""
    scope = _served.get()
    if scope is None:
        return {}
    state = scope["state"]
    fields = {"request_id": state["request_id"], **_named(scope)}
    if caller := state.get("caller"):
        fields["caller"] = caller.name
    return fields


def _request_id(scope: Scope) -> str:
    for name, value in scope["headers"]:
        if name == b"x-request-id" and REQUEST_ID.fullmatch(value):
            return str(value.decode("ascii"))
    return secrets.token_hex(8)


def _route(scope: Scope) -> str:
    """The template: a path of its own for each fragment would be a series of its own for each."""
    return getattr(scope.get("route"), "path", None) or "none"


def _named(scope: Scope) -> dict[str, str]:
    params: dict[str, Any] = scope.get("path_params") or {}
    match _route(scope).split("/"):
        case ["", "v1", collection, step, *_] if collection in _NAMED and step.startswith("{"):
            value = params.get(step.strip("{}"))
            return {} if value is None else {_NAMED[collection]: str(value)}
    return {}


def _write_line(scope: Scope, answer: _Answer) -> None:
    worth_telling = scope["method"] not in _READING or answer.status >= 400 or answer.seconds > SLOW_S
    log.log(
        logging.INFO if worth_telling else logging.DEBUG,
        "request",
        extra={
            "method": scope["method"],
            "path": scope["path"],
            "route": _route(scope),
            "status": answer.status,
            "seconds": round(answer.seconds, 4),
        },
    )
