"""The audit log: each change of the API leaves an entry with who asked for it and by which request."""

from typing import TYPE_CHECKING, Any

import httpx
import pytest

if TYPE_CHECKING:
    from tests.meta.conftest import Replicas


on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


class Admin:
    """Asks each thing under a request id of its own."""

    def __init__(self, service: httpx.Client) -> None:
        self.service = service
        made = service.post("/v1/tokens", json={"name": "ann", "role": "admin"})
        service.headers["Authorization"] = f"Bearer {made.raise_for_status().json()['token']}"

    def asks(self, request_id: str, method: str, path: str, body: Any = None) -> Any:
        sent = {"X-Request-Id": request_id}
        response = self.service.request(method, path, json=body, headers=sent)
        assert response.is_success, (request_id, response.text)
        return response.json() if response.content else None

    def entries(self, **query: Any) -> list[Any]:
        return list(self.service.get("/v1/audit", params=query).raise_for_status().json()["items"])


@pytest.fixture
def admin(replicas: "Replicas") -> Admin:
    return Admin(replicas.start())


def test_every_change_has_its_entry(admin: Admin) -> None:
    key = [{"name": "k", "type": "int"}]
    fragment = {"name": "f", "distribution_key": key, "parallelism": 1, "vnode_count": 4}
    admin.asks("worker", "PUT", "/v1/workers/w", {"parallelism": 2})
    admin.asks("other-worker", "PUT", "/v1/workers/v", {"parallelism": 1})
    admin.asks("fragment", "POST", "/v1/fragments", fragment)
    admin.asks("policy", "PATCH", "/v1/fragments/f", {"applier_timeout_ms": 20_000})
    applier = {"name": "job", "role": "applier", "acknowledged_version": None}
    admin.asks("unaudited-beat", "PUT", "/v1/fragments/f/subscribers/s", applier)
    planned = admin.asks("plan", "POST", "/v1/fragments/f/plans", {"parallelism": 2})
    applied = admin.asks("apply", "POST", "/v1/rescales", {"token": planned["token"]})
    admin.asks("abort", "POST", f"/v1/rescales/{applied['id']}/abort")
    planned = admin.asks("plan-again", "POST", "/v1/fragments/f/plans", {"parallelism": 2})
    version = admin.asks("apply-again", "POST", "/v1/rescales", {"token": planned["token"]})["version"]
    admin.asks("accept", "POST", f"/v1/fragments/f/versions/{version}/acceptance")
    admin.asks("deregister", "DELETE", "/v1/fragments/f/subscribers/s")
    admin.asks("rollback", "POST", "/v1/fragments/f/rollback", {})
    admin.asks("drain", "POST", "/v1/workers/v/drain")
    admin.asks("undrain", "DELETE", "/v1/workers/v/drain")
    token = admin.asks("token", "POST", "/v1/tokens", {"name": "t", "role": "reader"})
    admin.asks("revoke", "DELETE", f"/v1/tokens/{token['id']}")
    entries = admin.entries(limit=1000)
    told = {entry["request_id"]: entry for entry in entries if entry["caller"] == "ann"}
    expected = {
        "worker": "w",
        "other-worker": "v",
        "fragment": "f",
        "policy": "f",
        "plan": "f",
        "apply": "f",
        "abort": "f",
        "plan-again": "f",
        "apply-again": "f",
        "accept": "f",
        "deregister": "f",
        "rollback": "f",
        "drain": "v",
        "undrain": "v",
        "token": token["id"],
        "revoke": token["id"],
    }
    assert {request: entry["subject"] for request, entry in told.items()} == expected
    assert {entry["role"] for entry in told.values()} == {"admin"}
    assert [entry["action"] for entry in admin.entries(subject=token["id"])] == [
        "revoke-token",
        "create-token",
    ]


@on_sqlite
def test_the_log_is_read_in_pages_newest_first(admin: Admin) -> None:
    for number in range(5):
        admin.asks(f"r{number}", "PUT", f"/v1/workers/w{number}", {"parallelism": 1})
    found, cursor = [], None
    while True:
        query = {"limit": 2} | ({"cursor": cursor} if cursor else {})
        page = admin.service.get("/v1/audit", params=query).json()
        found += page["items"]
        if (cursor := page["next_cursor"]) is None:
            break
    ids = [entry["id"] for entry in found]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids)) == 6, "and the admin's own token"
    assert [entry["request_id"] for entry in found][:5] == ["r4", "r3", "r2", "r1", "r0"]
    assert admin.entries(subject="w3", limit=1)[0]["request_id"] == "r3"


@on_sqlite
def test_what_changed_nothing_left_no_entry(admin: Admin) -> None:
    before = len(admin.entries())
    refused = admin.service.post("/v1/fragments/nothing/plans", json={"parallelism": 1})
    assert refused.status_code == 404
    assert len(admin.entries()) == before
