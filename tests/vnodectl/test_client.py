"""What the commands make of a service that is away, slow, broken, behind a proxy or none at all."""

import json
import socket
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from typer.testing import CliRunner

from deploy.process import ServiceProcess
from meta.vnodectl.client import Away, Interrupted, Service, ServiceError, Unavailable, path
from meta.vnodectl.main import app

PROBLEM = {"type": "/problems/x", "title": "x", "status": 503, "detail": "the database is busy; try again"}
Answer = tuple[int, str, str]


class Scripted(ThreadingHTTPServer):
    """Answers the requests in the order of `answers`; None breaks the connection. `seen` has what was asked."""

    daemon_threads = True

    def __init__(self, *answers: Answer | None) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.answers = deque(answers)
        self.seen: list[tuple[str, str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: Scripted

    def handle_one_request(self) -> None:
        self.raw_requestline = self.rfile.readline(65537)
        if not self.raw_requestline or not self.parse_request():
            self.close_connection = True
            return
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.seen.append((self.command, self.path, self.headers.get("idempotency-key")))
        answer = self.server.answers.popleft()
        if answer is None:
            self.close_connection = True
            return
        status, media_type, body = answer
        self.send_response(status)
        self.send_header("content-type", media_type)
        self.send_header("content-length", str(len(body)))
        if status in (301, 308):
            self.send_header("location", "https://elsewhere/")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - its name there
        pass


@contextmanager
def scripted(*answers: Answer | None) -> Iterator[Scripted]:
    with Scripted(*answers) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def ok(body: Any) -> Answer:
    return 200, "application/json", json.dumps(body)


def problem(status: int) -> Answer:
    return status, "application/problem+json", json.dumps(PROBLEM | {"status": status})


@pytest.mark.parametrize("first", [None, problem(503), (502, "text/html", "<h1>Bad gateway</h1>")])
def test_a_change_that_broke_or_met_a_busy_service_is_asked_once_more_under_the_same_key(
    first: Answer | None,
) -> None:
    with scripted(first, ok({"token": "t"})) as server, Service(server.url) as api:
        assert api.post("/v1/rescales", {"token": "t"}) == {"token": "t"}
    (method, where, key), again = server.seen
    assert (method, where) == ("POST", "/v1/rescales")
    assert key
    assert again == (method, where, key)


def test_it_is_asked_no_third_time_and_each_change_has_a_key_of_its_own() -> None:
    with scripted(problem(503), problem(503), ok({})) as server, Service(server.url) as api:
        with pytest.raises(Unavailable, match="the database is busy; try again"):
            api.put("/v1/x", {})
        api.put("/v1/x", {})
    keys = [key for _, _, key in server.seen]
    assert keys[0] == keys[1] != keys[2]


def test_a_connection_that_always_breaks_is_told() -> None:
    with scripted(None, None) as server, Service(server.url) as api, pytest.raises(Interrupted) as caught:
        api.get("/v1/x")
    assert f"the connection to {server.url} broke" in str(caught.value)
    assert [key for _, _, key in server.seen] == [None, None]


@pytest.mark.parametrize(
    "answer", [ok({"status": "up"}), (404, "application/json", '{"error": "no such page"}')]
)
def test_status_of_what_is_no_vnodemap_service_says_so(answer: Answer) -> None:
    with (
        scripted(answer) as server,
        Service(server.url) as api,
        pytest.raises(ServiceError, match="is that a vnodemap service") as caught,
    ):
        api.readiness()
    assert caught.value.problem["type"] == "/problems/not-a-service"


def test_what_is_refused_is_not_asked_again() -> None:
    with scripted(problem(409), ok({})) as server, Service(server.url) as api:
        with pytest.raises(ServiceError) as caught:
            api.post("/v1/x")
        assert caught.value.problem["status"] == 409
    assert len(server.seen) == 1


def test_a_list_is_followed_from_page_to_page() -> None:
    pages = [{"items": [1, 2], "next_cursor": "a b"}, {"items": [3], "next_cursor": None}]
    with scripted(*map(ok, pages)) as server, Service(server.url) as api:
        assert api.items("/v1/x", {"worker": "w", "order": None}) == [1, 2, 3]
    assert [where for _, where, _ in server.seen] == [
        "/v1/x?worker=w&limit=1000",
        "/v1/x?worker=w&limit=1000&cursor=a+b",
    ]


def test_no_more_pages_are_read_than_are_wanted() -> None:
    with scripted(ok({"items": [1, 2], "next_cursor": "c"})) as server, Service(server.url) as api:
        assert api.items("/v1/x", items_max=2) == [1, 2]
    assert server.seen[0][1] == "/v1/x?limit=2"


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (
            (200, "text/html", "<title>Log in</title>"),
            "answered 200 with text/html; is that a vnodemap service",
        ),
        ((403, "text/html", "<h1>Forbidden</h1>"), "answered 403 with text/html"),
        ((404, "text/plain", ""), "or a proxy before one?"),
        ((301, "text/html", ""), "it is at https://elsewhere/; name that as --server"),
        ((200, "application/problem+json", "{oops"), "answered 200 with application/problem+json"),
        ((500, "application/problem+json", "[]"), "answered 500 with application/problem+json"),
        ((200, "application/json", "{oops"), "answered 200 with application/json"),
    ],
)
def test_an_answer_that_is_not_a_services_says_so(answer: Answer, words: str) -> None:
    with scripted(answer) as server, Service(server.url) as api, pytest.raises(ServiceError) as caught:
        api.get(path("workers"))
    assert words in str(caught.value)
    assert f"{server.url}/v1/workers answered" in str(caught.value)


def test_a_service_that_says_nothing_is_given_up() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with Service(url, timeout_s=0.2) as api, pytest.raises(Away) as caught:
            api.get("/v1/workers")
    assert str(caught.value) == f"the service at {url} did not answer within 0.2 s; see its log"


def test_https_to_a_service_without_is_told_so() -> None:
    with scripted() as server, Service(server.url.replace("http:", "https:")) as api:
        with pytest.raises(ServiceError) as caught:
            api.get("/v1/workers")
        assert "no TLS with https://127.0.0.1" in str(caught.value)
        assert "http:// where it has none" in str(caught.value)


def test_with_json_a_refusal_is_a_document_on_standard_error() -> None:
    with scripted(problem(409)) as server:
        result = CliRunner().invoke(app, ["worker", "list", "--json", "--server", server.url])
    assert (result.exit_code, result.stdout) == (2, "")
    assert json.loads(result.stderr) == PROBLEM | {"status": 409}


def test_with_json_a_service_that_is_away_is_such_a_document_too() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
        result = CliRunner().invoke(app, ["worker", "list", "--json", "--server", url])
    assert (result.exit_code, result.stdout) == (2, "")
    told = json.loads(result.stderr)
    assert told["type"] == "/problems/unreachable"
    assert url in told["detail"]


STANDING = {
    "status": "ok",
    "detail": "",
    "database": "ok",
    "etcd": "ok",
    "reconciled_ms_ago": 1500,
    "conflicts": {},
    "unknown_fragments": [],
}
NOTHING = ok({"items": [], "next_cursor": None})


def test_status_says_in_what_state_the_service_is_and_why() -> None:
    degraded = STANDING | {"status": "degraded", "detail": "etcd does not answer", "etcd": "unavailable"}
    with scripted(ok(degraded), NOTHING, NOTHING) as server:
        result = CliRunner().invoke(app, ["status", "--server", server.url])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[:2] == [
        "service degraded: database ok, etcd unavailable, compared 1.5 s ago",
        "etcd does not answer",
    ]


def test_status_of_a_service_that_is_not_ready_is_why_and_exit_code_2() -> None:
    away = {**STANDING, "status": 503, "type": "/problems/unavailable", "title": "unavailable"}
    away |= {"detail": "the database does not answer", "database": "unavailable", "reconciled_ms_ago": None}
    for options in ([], ["--json"]):
        with scripted((503, "application/problem+json", json.dumps(away))) as server:
            result = CliRunner().invoke(app, ["status", "--server", server.url, *options])
        assert result.exit_code == 2
        assert "the database does not answer" in result.stdout
    assert json.loads(result.stdout)["service"]["status"] == 503


@pytest.mark.parametrize(
    "words",
    [("plan", "f", "--weight", "3=nan"), ("plan", "f", "--by-load", "--count-slack", "inf")],
)
def test_what_no_json_can_say_is_refused(words: tuple[str, ...], shared_service: ServiceProcess) -> None:
    result = CliRunner().invoke(app, [*words, "--server", shared_service.url])
    assert isinstance(result.exception, ServiceError), result.exception
    assert "cannot be sent" in str(result.exception)


def test_bytes_that_are_no_text_are_refused(shared_service: ServiceProcess) -> None:
    for words in (
        ("fragment", "show", "\udcff"),
        ("worker", "add", "east", "--units", "2", "--label", "a=\udcff"),
    ):
        result = CliRunner().invoke(app, [*words, "--server", shared_service.url])
        assert isinstance(result.exception, ServiceError), result.exception
