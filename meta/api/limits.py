"""What a request may be: a body so large, and so slow. Larger headers and URLs are refused by uvicorn."""

import asyncio

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from meta.api.problems import refusal
from meta.callers.request_errors import BodyTooLarge, BodyTooSlow

BODY_BYTES_MAX = 4 << 20
BODY_S_MAX = 30.0
# So much more is read and dropped: who still sends would find a closed connection instead of the refusal.
DROPPED_BYTES_MAX = 16 << 20


class Limited:
    """Hands on requests whose body is complete, as one message."""

    def __init__(
        self, app: ASGIApp, bytes_max: int = BODY_BYTES_MAX, seconds_max: float = BODY_S_MAX
    ) -> None:
        self._app = app
        self._bytes_max = bytes_max
        self._seconds_max = seconds_max

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            body = await self._body(scope, receive)
        except (BodyTooLarge, BodyTooSlow) as error:
            answer = refusal(error)
            # What is left of the body is not read, so nothing after it could be.
            answer.headers["connection"] = "close"
            await answer(scope, receive, send)
            return
        if body is not None:
            await self._app(scope, replayed(body, receive), send)

    async def _body(self, scope: Scope, receive: Receive) -> bytes | None:
        """None where the client is gone."""
        told = Headers(scope=scope).get("content-length", "")
        if told.isdecimal() and int(told) > self._bytes_max + DROPPED_BYTES_MAX:
            raise BodyTooLarge(self._bytes_max)
        try:
            async with asyncio.timeout(self._seconds_max):
                return await self._received(receive)
        except TimeoutError as error:
            raise BodyTooSlow(self._seconds_max) from error

    async def _received(self, receive: Receive) -> bytes | None:
        body, length, more = bytearray(), 0, True
        while more and length <= self._bytes_max + DROPPED_BYTES_MAX:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            chunk, more = message.get("body", b""), message.get("more_body", False)
            length += len(chunk)
            if length <= self._bytes_max:
                body += chunk
        if length > self._bytes_max:
            raise BodyTooLarge(self._bytes_max)
        return bytes(body)


def replayed(body: bytes, receive: Receive) -> Receive:
    """`receive` for whoever is still to read the whole body."""
    first: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def next_message() -> Message:
        return first.pop() if first else await receive()

    return next_message


class Unsniffed:
    """No browser takes an answer for anything but what it says it is."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def tell(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        await self._app(scope, receive, tell if scope["type"] == "http" else send)
