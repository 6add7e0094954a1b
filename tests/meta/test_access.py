"""Tokens and roles: who is let in, who may what, and that no secret is anywhere but in its one answer."""

import hashlib
import logging
import traceback
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute

from meta.api.access import OPEN, Needs
from meta.api.wire.tokens import NewTokenOut
from meta.callers import doorkeeper
from meta.callers.access import AccessRole
from meta.callers.tokens import TOKENS_MAX

if TYPE_CHECKING:
    from tests.meta.conftest import Replicas

WORKER = {"parallelism": 1}

# What the database has no part in.
on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def made(service: httpx.Client, role: str, by: str | None = None, **more: Any) -> str:
    """A token's secret; `by` an admin's, once there is one."""
    response = service.post(
        "/v1/tokens", json={"name": f"a-{role}", "role": role, **more}, headers=bearer(by) if by else {}
    )
    assert response.status_code == 201, response.text
    assert response.headers["cache-control"] == "no-store"
    return str(response.json()["token"])


def refused(response: Any, status: int, kind: str) -> str:
    assert response.status_code == status, response.text
    assert response.json()["type"] == f"/problems/{kind}"
    return str(response.json()["detail"])


@pytest.fixture
def service(replicas: "Replicas") -> httpx.Client:
    return replicas.start()


@pytest.fixture
def admin(service: httpx.Client) -> str:
    return made(service, "admin")


@on_sqlite
def test_without_any_token_everybody_on_this_machine_may_do_everything(service: httpx.Client) -> None:
    assert service.put("/v1/workers/w", json=WORKER).status_code == 201
    assert service.get("/v1/tokens").json() == {"items": [], "next_cursor": None}


@on_sqlite
def test_without_any_token_a_page_in_a_browser_may_nothing(service: httpx.Client) -> None:
    sent = {"Origin": "https://elsewhere.example"}
    detail = refused(service.post("/v1/workers/w/heartbeat", headers=sent), 403, "page-without-token")
    assert "https://elsewhere.example" in detail


@on_sqlite
def test_from_the_first_token_on_everybody_needs_one(
    service: httpx.Client, admin: str, replicas: "Replicas"
) -> None:
    response = service.get("/v1/workers")
    detail = refused(response, 401, "unauthenticated")
    assert response.headers["www-authenticate"] == "Bearer"
    assert "vnodectl token create" in detail
    assert service.get("/v1/workers", headers=bearer(admin)).status_code == 200
    assert service.get("/v1/workers", headers={"Authorization": f"bearer   {admin}"}).status_code == 200
    for path in OPEN & {"/openapi.json", *(route.path for route in api_routes(replicas.apps[0].routes))}:
        assert service.get(path).status_code in (200, 503)


@on_sqlite
def test_who_is_not_let_in_cannot_send_a_body_nor_learn_what_there_is(
    service: httpx.Client, admin: str
) -> None:
    for path in ("/v1/workers/w", "/v1/nothing", "/"):
        refused(service.put(path, content=b"{oops"), 401, "unauthenticated")


@on_sqlite
def test_a_token_that_is_not_right_to_the_last_letter_is_none(service: httpx.Client, admin: str) -> None:
    _, token_id, secret = admin.split("_", 2)
    for broken in (
        admin[:-1] + ("A" if admin[-1] != "A" else "B"),
        f"vnn_{token_id}_{secret}",
        f"{token_id}_{secret}",
        f"vnm_{'0' * 16}_{secret}",
        f"vnm_{token_id}_",
        f"vnm_{'0' * 16}_",
        f"{admin}\xff",
        "_" * 1000,
    ):
        shown = {"Authorization": f"Bearer {broken}".encode("latin-1")}
        refused(service.get("/v1/workers", headers=shown), 401, "unauthenticated")


@on_sqlite
def test_another_scheme_is_no_token(service: httpx.Client, admin: str) -> None:
    for sent in (f"Basic {admin}", admin, "Bearer"):
        refused(service.get("/v1/workers", headers={"Authorization": sent}), 401, "unauthenticated")


@on_sqlite
def test_each_role_may_what_it_may(service: httpx.Client, admin: str) -> None:
    reader, operator = made(service, "reader", admin), made(service, "operator", admin)
    assert service.get("/v1/workers", headers=bearer(reader)).status_code == 200
    worker = service.put("/v1/workers/w", json=WORKER, headers=bearer(reader))
    detail = refused(worker, 403, "forbidden")
    assert "needs the role operator" in detail
    assert "the token a-reader has the role reader" in detail
    assert service.put("/v1/workers/w", json=WORKER, headers=bearer(operator)).status_code == 201
    for token in (reader, operator):
        assert "role admin" in refused(service.get("/v1/audit", headers=bearer(token)), 403, "forbidden")
        refused(service.get("/v1/tokens", headers=bearer(token)), 403, "forbidden")


def test_a_revoked_token_is_none_at_any_replica_within_a_second(
    service: httpx.Client, admin: str, replicas: "Replicas", eventually: Callable[..., None]
) -> None:
    other = replicas.start()
    operator = made(service, "operator", admin)
    assert other.get("/v1/workers", headers=bearer(operator)).status_code == 200, "at once, though just made"
    token_id = operator.split("_")[1]
    assert service.delete(f"/v1/tokens/{token_id}", headers=bearer(admin)).status_code == 204

    def check() -> None:
        for replica in (service, other):
            refused(replica.get("/v1/workers", headers=bearer(operator)), 401, "unauthenticated")

    eventually(check, within_s=1.1)
    again = service.delete(f"/v1/tokens/{token_id}", headers=bearer(admin))
    assert again.status_code == 204
    (entry,) = [e for e in _audit(service, admin, token_id) if e["action"] == "revoke-token"]
    assert entry["caller"] == "a-admin"
    shown = {token["id"]: token for token in _tokens(service, admin)}
    assert shown[token_id]["revoked_at_ms"] == replicas.now_ms


def test_a_token_ends_when_it_expires(service: httpx.Client, admin: str, replicas: "Replicas") -> None:
    operator = made(service, "operator", admin, expires_in_s=60)
    replicas.now_ms += 59_999
    assert service.get("/v1/workers", headers=bearer(operator)).status_code == 200
    replicas.now_ms += 1
    refused(service.get("/v1/workers", headers=bearer(operator)), 401, "unauthenticated")


@on_sqlite
def test_with_the_database_away_the_last_known_tokens_decide(
    service: httpx.Client, admin: str, replicas: "Replicas", monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = made(service, "reader", admin)
    assert service.get("/v1/workers", headers=bearer(reader)).status_code == 200
    monkeypatch.setattr(doorkeeper, "SNAPSHOT_S", -1.0)  # each request asks the database
    (database,) = replicas.databases
    monkeypatch.setattr(type(database), "reading", _away)
    monkeypatch.setattr(type(database), "transaction", _away)
    refused(service.get("/v1/workers"), 401, "unauthenticated")
    refused(service.put("/v1/workers/w", json=WORKER, headers=bearer(reader)), 403, "forbidden")
    refused(service.get("/v1/workers", headers=bearer(reader)), 503, "database-unavailable")


@on_sqlite
def test_before_the_tokens_were_ever_read_nobody_is_let_in(
    replicas: "Replicas", monkeypatch: pytest.MonkeyPatch
) -> None:
    service = replicas.start()
    (database,) = replicas.databases
    monkeypatch.setattr(type(database), "reading", _away)
    refused(service.get("/v1/workers"), 503, "database-unavailable")
    assert service.get("/v1/health").status_code == 200


def test_tokens_are_listed_newest_first_in_pages_and_without_secrets(
    service: httpx.Client, admin: str, replicas: "Replicas"
) -> None:
    secrets = [admin]
    for number in range(4):
        replicas.now_ms += number % 2
        secrets.append(made(service, "reader", admin))
    listed, cursor = [], None
    while True:
        query = {"limit": 2, "cursor": cursor} if cursor else {"limit": 2}
        page = service.get("/v1/tokens", params=query, headers=bearer(admin)).json()
        listed += page["items"]
        if (cursor := page["next_cursor"]) is None:
            break
    assert sorted(token["id"] for token in listed) == sorted(secret.split("_")[1] for secret in secrets)
    instants = [token["created_at_ms"] for token in listed]
    assert instants == sorted(instants, reverse=True)
    for secret in secrets:
        assert secret.split("_", 2)[2] not in str(listed)


@on_sqlite
def test_a_token_is_refused_that_cannot_be(service: httpx.Client, replicas: "Replicas") -> None:
    for wrong in (
        {"name": "local", "role": "admin"},
        {"name": "vnodemap", "role": "admin"},
        {"name": "a", "role": "god"},
        {"name": "", "role": "admin"},
        {"name": "a", "role": "admin", "expires_in_s": 0},
        {"name": "a\nb", "role": "admin"},
    ):
        assert service.post("/v1/tokens", json=wrong).status_code == 422, wrong
    refused(service.delete(f"/v1/tokens/{'0' * 16}"), 404, "token-not-found")
    assert service.get("/v1/tokens").json()["items"] == [], "none was made"


def test_there_are_only_so_many_usable_tokens(
    service: httpx.Client, admin: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert TOKENS_MAX == 1_000
    monkeypatch.setattr("meta.callers.tokens.TOKENS_MAX", 2)
    reader = made(service, "reader", admin)
    wanted = {"name": "third", "role": "reader"}
    refused(service.post("/v1/tokens", json=wanted, headers=bearer(admin)), 409, "too-many-tokens")
    service.delete(f"/v1/tokens/{reader.split('_')[1]}", headers=bearer(admin))
    assert service.post("/v1/tokens", json=wanted, headers=bearer(admin)).status_code == 201


def test_a_secret_is_nowhere_but_in_its_one_answer(
    replicas: "Replicas", tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    service = replicas.start()
    admin = made(service, "admin")
    secret = admin.split("_", 2)[2]
    service.get("/v1/workers", headers=bearer(admin))
    refused(service.get("/v1/workers", headers=bearer(admin + "x")), 401, "unauthenticated")
    key = {**bearer(admin), "Idempotency-Key": "k"}
    answered = service.post("/v1/tokens", json={"name": "b", "role": "reader"}, headers=key).json()
    again = service.post("/v1/tokens", json={"name": "b", "role": "reader"}, headers=key)
    assert "token revoke" in refused(again, 409, "answer-not-kept")
    assert len([token for token in _tokens(service, admin) if token["name"] == "b"]) == 1
    for hidden in (secret, answered["token"].split("_", 2)[2]):
        assert hidden not in caplog.text
        assert hidden not in str(_rows(replicas))
        assert hidden not in str(_audit(service, admin))
    assert hashlib.sha256(secret.encode()).hexdigest() in str(_rows(replicas))
    assert secret not in repr(NewTokenOut(**{**answered, "token": admin}))


@on_sqlite
def test_a_token_that_breaks_something_is_not_in_the_traceback(
    replicas: "Replicas",
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    eventually: Callable[..., None],
) -> None:
    service = replicas.start()
    admin = made(service, "admin")

    def broken(*_arguments: object) -> None:
        raise RuntimeError("our mistake")

    monkeypatch.setattr("meta.callers.doorkeeper.matching", broken)
    response = service.get("/v1/workers", headers=bearer(admin))
    assert response.status_code == 500

    def logged() -> None:
        assert any(record.exc_info for record in caplog.records)

    # The answer is first.
    eventually(logged)
    assert admin not in response.text + caplog.text
    (trace,) = [record.exc_info for record in caplog.records if record.exc_info]
    assert admin not in "".join(traceback.format_exception(*trace))


@on_sqlite
def test_answers_say_nothing_of_the_server_and_are_what_they_say(service: httpx.Client) -> None:
    for response in (service.get("/v1/health"), service.get("/v1/nothing"), service.get("/openapi.json")):
        assert response.headers["x-content-type-options"] == "nosniff"
        assert "server" not in response.headers


# Every route with the role it needs: a new one has to be entered here, and thought about.
ROLES = {
    "GET /metrics": "reader",
    "GET /v1/audit": "admin",
    "GET /v1/coordination": "reader",
    "POST /v1/fragments": "operator",
    "GET /v1/fragments": "reader",
    "PATCH /v1/fragments/{name}": "operator",
    "GET /v1/fragments/{name}": "reader",
    "POST /v1/fragments/{name}/abort": "operator",
    "GET /v1/fragments/{name}/current": "reader",
    "GET /v1/fragments/{name}/diff": "reader",
    "GET /v1/fragments/{name}/events": "reader",
    "GET /v1/fragments/{name}/groups": "reader",
    "GET /v1/fragments/{name}/loads": "reader",
    "PUT /v1/fragments/{name}/loads/{reporter}": "operator",
    "POST /v1/fragments/{name}/locate": "reader",
    "GET /v1/fragments/{name}/mapping": "reader",
    "POST /v1/fragments/{name}/plans": "operator",
    "GET /v1/fragments/{name}/plans": "reader",
    "GET /v1/fragments/{name}/progress": "reader",
    "POST /v1/fragments/{name}/rollback": "operator",
    "GET /v1/fragments/{name}/subscribers": "reader",
    "PUT /v1/fragments/{name}/subscribers/{subscriber_id}": "reader",
    "DELETE /v1/fragments/{name}/subscribers/{subscriber_id}": "reader",
    "GET /v1/fragments/{name}/versions": "reader",
    "GET /v1/fragments/{name}/versions/{version}": "reader",
    "POST /v1/fragments/{name}/versions/{version}/acceptance": "operator",
    "GET /v1/fragments/{name}/versions/{version}/body": "reader",
    "GET /v1/health": None,
    "GET /v1/plans/{plan_id}": "reader",
    "GET /v1/ready": None,
    "POST /v1/rescales": "operator",
    "GET /v1/rescales": "reader",
    "GET /v1/rescales/{rescale_id}": "reader",
    "POST /v1/rescales/{rescale_id}/abort": "operator",
    "POST /v1/tokens": "admin",
    "GET /v1/tokens": "admin",
    "DELETE /v1/tokens/{token_id}": "admin",
    "GET /v1/workers": "reader",
    "PUT /v1/workers/{name}": "operator",
    "DELETE /v1/workers/{name}": "operator",
    "GET /v1/workers/{name}": "reader",
    "POST /v1/workers/{name}/drain": "operator",
    "DELETE /v1/workers/{name}/drain": "operator",
    "POST /v1/workers/{name}/heartbeat": "operator",
}


def api_routes(routes: Sequence[Any]) -> Iterator[APIRoute]:
    for route in routes:
        if isinstance(route, APIRoute):
            yield route
        elif included := getattr(route, "original_router", None):
            yield from api_routes(included.routes)


def declared(app: FastAPI) -> Iterator[tuple[str, str | None]]:
    for route in api_routes(app.routes):
        roles = [needs.call.role for needs in route.dependant.dependencies if isinstance(needs.call, Needs)]
        for method in route.methods - {"HEAD"}:
            yield f"{method} {route.path}", max(roles, key=list(AccessRole).index) if roles else None


@on_sqlite
def test_every_route_wants_the_role_that_it_should(replicas: "Replicas") -> None:
    replicas.start()
    assert dict(declared(replicas.apps[0])) == ROLES


def _away(*_arguments: object, **_more: object) -> Any:
    import sqlalchemy as sa  # noqa: PLC0415

    raise sa.exc.OperationalError("SELECT", {}, Exception("gone"))


def _tokens(service: httpx.Client, admin: str) -> Any:
    return service.get("/v1/tokens", headers=bearer(admin)).json()["items"]


def _audit(service: httpx.Client, admin: str, subject: str | None = None) -> Any:
    query = {"subject": subject} if subject else {}
    return service.get("/v1/audit", params=query, headers=bearer(admin)).json()["items"]


def _rows(replicas: "Replicas") -> list[Any]:
    """All that the database holds in plain words."""
    from meta.store.tables import metadata  # noqa: PLC0415

    with replicas.databases[0].engine.connect() as connection:
        return [tuple(row) for table in metadata.sorted_tables for row in connection.execute(table.select())]
