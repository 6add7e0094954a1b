"""The header Idempotency-Key on requests that change something (draft-ietf-httpapi-idempotency-key-header)."""

import hashlib
import logging
from http import HTTPStatus

import sqlalchemy as sa
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meta.api.limits import replayed
from meta.api.problems import problem, refusal
from meta.callers.access import Caller
from meta.callers.idempotency import Idempotency, Reservation
from meta.callers.request_errors import BadIdempotencyKey
from meta.errors import MetaError
from meta.store.answers import Answer

METHODS = frozenset({"POST", "PUT", "PATCH", "DELETE"})
KEY_LENGTH_MAX = 255
# A larger answer is passed on and not kept: the same request again is carried out again.
ANSWER_BYTES_MAX = 4 << 20

log = logging.getLogger(__name__)


class Idempotent:
    """For requests that have a caller and whose body is one message: inside `Authenticated` and `Limited`."""

    def __init__(self, app: ASGIApp, idempotency: Idempotency) -> None:
        self._app = app
        self._idempotency = idempotency

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = Headers(scope=scope).get("idempotency-key") if scope["type"] == "http" else None
        caller = scope.get("state", {}).get("caller")
        if key is None or scope["method"] not in METHODS or caller is None:
            await self._app(scope, receive, send)
            return
        body: bytes = (await receive()).get("body", b"")
        try:
            found = await self._reserve(scope, key, caller, body)
        except (MetaError, sa.exc.SQLAlchemyError) as error:
            await refusal(error)(scope, receive, send)
            return
        if isinstance(found, Answer):
            await _send(found, send, (b"idempotent-replayed", b"true"))
            return
        await self._carry_out(found, (scope, replayed(body, receive), send))

    async def _reserve(self, scope: Scope, key: str, caller: Caller, body: bytes) -> Reservation | Answer:
        if not (1 <= len(key) <= KEY_LENGTH_MAX and key.isascii() and key.isprintable()):
            raise BadIdempotencyKey
        # Who has the name with another role shall not read what this one was answered.
        whose = f"{caller.role}:{caller.name}"
        return await run_in_threadpool(self._idempotency.reserve, whose, key, _digest(scope, body))

    async def _carry_out(self, reservation: Reservation, request: tuple[Scope, Receive, Send]) -> None:
        scope, receive, send = request
        held = _Held(send)
        try:
            await self._app(scope, receive, held.take)
        except Exception:
            await self._end(reservation, None)
            raise
        answer = held.answer()
        await self._end(reservation, answer and _to_keep(answer))
        if answer is not None:
            await _send(answer, send)

    async def _end(self, reservation: Reservation, answer: Answer | None) -> None:
        try:
            if answer is None:
                await run_in_threadpool(self._idempotency.release, reservation)
            else:
                await run_in_threadpool(self._idempotency.keep, reservation, answer)
        except sa.exc.SQLAlchemyError as error:
            # The request was carried out, or not, and its own answer says so.
            log.warning("an answer cannot be kept for its Idempotency-Key: %s", getattr(error, "orig", error))


class _Held:
    """An answer held back until it is complete, or passed on where it is long or a stream."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._start: Message = {}
        self._body = bytearray()
        self._passes = False

    async def take(self, message: Message) -> None:
        if self._passes:
            await self._send(message)
        elif message["type"] == "http.response.start":
            self._start = message
        else:
            self._body += message.get("body", b"")
            streams = (
                Headers(raw=self._start["headers"]).get("content-type", "").startswith("text/event-stream")
            )
            if streams or len(self._body) > ANSWER_BYTES_MAX:
                self._passes = True
                await self._send(self._start)
                await self._send({**message, "body": bytes(self._body)})

    def answer(self) -> Answer | None:
        """None where it was passed on."""
        if self._passes or not self._start:
            return None
        headers = tuple(
            (name.decode("latin-1"), value.decode("latin-1")) for name, value in self._start["headers"]
        )
        return Answer(self._start["status"], headers, bytes(self._body))


def _to_keep(answer: Answer) -> Answer | None:
    """None where the request may be tried again. A secret is not kept: what is, says that it was shown."""
    if answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return None
    if ("cache-control", "no-store") not in answer.headers:
        return answer
    told = problem(
        HTTPStatus.CONFLICT,
        "answer-not-kept",
        "this request was carried out, and the answer held a secret, which is shown once; revoke what was made "
        "(`vnodectl token list`, `vnodectl token revoke`) and ask again under another Idempotency-Key",
    )
    return Answer(told.status_code, tuple(told.headers.items()), bytes(told.body))


async def _send(answer: Answer, send: Send, *more: tuple[bytes, bytes]) -> None:
    headers = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in answer.headers]
    await send({"type": "http.response.start", "status": answer.status, "headers": [*headers, *more]})
    await send({"type": "http.response.body", "body": answer.body})


def _digest(scope: Scope, body: bytes) -> str:
    query = scope["query_string"]
    line = b"%s %s?%s\n" % (scope["method"].encode(), scope["path"].encode("utf-8", "surrogatepass"), query)
    return hashlib.sha256(line + body).hexdigest()
