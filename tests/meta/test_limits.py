"""What is sent is only so large, so slow and so deep, whoever sends it; and nothing of it is our mistake."""

import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import httpx
import pytest

from meta.api.limits import BODY_BYTES_MAX, BODY_S_MAX

if TYPE_CHECKING:
    from tests.meta.conftest import Replicas

pytestmark = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)

JSON = {"content-type": "application/json"}


@pytest.fixture
def service(replicas: "Replicas") -> httpx.Client:
    return replicas.start()


def kind_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["type"].removeprefix("/problems/")


def raw(service: httpx.Client, request: bytes) -> bytes:
    """What the service answers to these very bytes, until it closes the connection."""
    host, port = service.base_url.host, service.base_url.port
    with socket.create_connection((host, port), timeout=20) as connection:
        answer = b""
        # A server that has heard enough closes while we still send.
        with suppress(ConnectionError):
            connection.sendall(request)
            while chunk := connection.recv(65536):
                answer += chunk
    return answer


def test_a_body_may_be_so_large(service: httpx.Client) -> None:
    assert BODY_BYTES_MAX == 4 << 20
    exact = b'{"parallelism": 1}'.ljust(BODY_BYTES_MAX)
    assert service.put("/v1/workers/w", content=exact, headers=JSON).status_code == 201
    more = service.put("/v1/workers/v", content=exact + b" ", headers=JSON)
    assert kind_of(more) == (413, "body-too-large")
    assert str(BODY_BYTES_MAX) in more.json()["detail"]
    assert service.get("/v1/workers/v").status_code == 404


def test_a_body_in_chunks_is_counted_too(service: httpx.Client) -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(5):
            yield b" " * (1 << 20)

    answer = service.put("/v1/workers/w", content=chunks(), headers=JSON)
    assert kind_of(answer) == (413, "body-too-large")


def test_a_length_that_is_told_is_believed_without_waiting_for_it(service: httpx.Client) -> None:
    head = (
        b"PUT /v1/workers/w HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: "
    )
    assert b" 413 " in raw(service, head + b"99999999999\r\n\r\n")


def test_a_body_that_does_not_come_is_not_waited_for(
    replicas: "Replicas", monkeypatch: pytest.MonkeyPatch
) -> None:
    assert BODY_S_MAX == 30
    monkeypatch.setattr("meta.api.limits.Limited.__init__.__defaults__", (BODY_BYTES_MAX, 0.2))
    service = replicas.start()
    head = b"PUT /v1/workers/w HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head += b"Content-Length: 100\r\n\r\n"
    answer = raw(service, head + b'{"par')
    assert b" 408 " in answer
    assert b"body-too-slow" in answer


def test_headers_and_paths_that_are_too_large_are_refused(service: httpx.Client) -> None:
    for line in (
        b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * (1 << 20),
        b"GET /" + b"x" * (1 << 20),
    ):
        assert not raw(service, line + b"\r\n\r\n").startswith(b"HTTP/1.1 2")
    assert service.get("/v1/health").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"parallelism": ' + b"9" * 10_000 + b"}",
        b'{"parallelism": 1e999}',
        b'{"parallelism": NaN}',
        b'{"parallelism": 1, "labels": {"\\ud800": "\\udfff"}}',
        b'{"parallelism": 1, "\\ud800": 1}',
        b'{"parallelism": 1, "labels": {"a": "\\u0000"}}',
        b"\xff\xfe",
        b"",
        b"null",
    ],
    ids=lambda body: body[:40].decode("latin-1"),
)
def test_no_body_is_our_mistake(service: httpx.Client, body: bytes) -> None:
    response = service.put("/v1/workers/w", content=body, headers=JSON)
    assert response.status_code in (400, 422), response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert service.get("/v1/workers/w").status_code == 404
