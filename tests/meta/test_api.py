"""What every route does: problems for what is unknown, malformed or no request at all."""

import httpx
import pytest

from meta.api.problems import STATUS
from meta.errors import MetaError
from tests.meta.story import Story, problem, told_on_sqlite

JSON = {"content-type": "application/json"}


def test_every_error_has_a_status() -> None:
    assert set(MetaError.__subclasses__()) == set(STATUS)


@told_on_sqlite
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/progress"),
        ("GET", "/current"),
        ("GET", "/versions"),
        ("GET", "/versions/1"),
        ("GET", "/versions/1/body"),
        ("GET", "/subscribers"),
        ("DELETE", "/subscribers/s"),
        ("POST", "/versions/1/acceptance"),
    ],
)
def test_an_unknown_fragment(http: httpx.Client, method: str, path: str) -> None:
    found = problem(
        http.request(method, f"/v1/fragments/nowhere{path}"),
        404,
        "fragment-not-found",
        "vnodectl fragment list",
    )
    assert found["fragment"] == "nowhere"


@told_on_sqlite
def test_an_unknown_fragment_cannot_be_planned_or_subscribed_to(http: httpx.Client) -> None:
    nowhere = Story(http, "nowhere")
    problem(nowhere.plan(1), 404, "fragment-not-found")
    problem(nowhere.hear("job", None), 404, "fragment-not-found")


@told_on_sqlite
def test_paths_and_methods_that_do_not_exist(http: httpx.Client) -> None:
    problem(http.get("/v1/nothing"), 404, "not-found", "/v1/nothing", "/openapi.json")
    refused = http.delete("/v1/fragments")
    problem(refused, 405, "method-not-allowed", "DELETE")
    assert refused.headers["allow"]


@told_on_sqlite
@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b'{"name": ', 422, "invalid-request"),
        (b"", 422, "invalid-request"),
        (b"[]", 422, "invalid-request"),
        (b"\xff\xfe{", 400, "bad-request"),
        (b"[" * 100_000, 400, "bad-request"),
        (b'{"name": "\\ud800"}', 422, "invalid-request"),
    ],
    ids=["cut", "empty", "no-object", "no-utf8", "deep", "surrogate"],
)
def test_bytes_that_are_no_request(http: httpx.Client, body: bytes, status: int, kind: str) -> None:
    problem(http.post("/v1/fragments", content=body, headers=JSON), status, kind)


@told_on_sqlite
def test_a_cut_document_is_told_where(http: httpx.Client) -> None:
    refused = http.post("/v1/fragments", content=b'{"name": oops', headers=JSON)
    problem(refused, 422, "invalid-request", "the request: it is no JSON, from character 9 on")


def test_a_text_has_no_nul_whatever_the_database_thinks_of_it(story: Story) -> None:
    problem(story.apply("\0" * 8), 422, "invalid-request", "token: ")
    problem(story.hear("job", None, name="a\0b"), 422, "invalid-request", "name: ")
    column = [{"name": "tail\0num", "type": "string"}]
    problem(story.create(name=f"{story.name}-b", distribution_key=column), 422, "invalid-request", "name: ")
    assert story.hear("job", None, name="a\nb \N{PILE OF POO}").json()["name"] == "a\nb \N{PILE OF POO}"


@told_on_sqlite
def test_the_api_describes_itself(http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()
    assert "/v1/rescales" in described["paths"]
    assert http.get("/v1/health").json() == {"status": "ok"}
