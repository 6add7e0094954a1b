"""Idempotency-Key: the first request is carried out, the same again has the same answer."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from meta.callers.idempotency import DEAD_MS, KEPT_MS, KEYS_MAX, Idempotency
from meta.hearing import Hearing
from meta.registry.workers import WorkerRegistry
from meta.store.answers import Answer

if TYPE_CHECKING:
    from tests.meta.conftest import Replicas

on_sqlite = pytest.mark.parametrize("database_url", ["sqlite"], indirect=True)


def keyed(key: str) -> dict[str, str]:
    return {"Idempotency-Key": key}


def put(service: httpx.Client, worker: str, key: str, parallelism: int = 2) -> httpx.Response:
    return service.put(f"/v1/workers/{worker}", json={"parallelism": parallelism}, headers=keyed(key))


def refused(response: httpx.Response, status: int, kind: str) -> None:
    assert response.status_code == status, response.text
    assert response.json()["type"] == f"/problems/{kind}"


@pytest.fixture
def service(replicas: "Replicas") -> httpx.Client:
    return replicas.start()


def test_the_same_request_has_the_same_answer_at_every_replica(
    service: httpx.Client, replicas: "Replicas"
) -> None:
    first = put(service, "w", "k")
    assert (first.status_code, "idempotent-replayed" in first.headers) == (201, False)
    for replica in (service, replicas.start()):
        again = put(replica, "w", "k")
        assert (again.status_code, again.headers["idempotent-replayed"]) == (201, "true")
        assert again.content == first.content
        assert again.headers["content-type"] == first.headers["content-type"]
    assert put(service, "w", "another").status_code == 200, "carried out: it was there already"


def test_another_request_under_the_key_is_refused(service: httpx.Client) -> None:
    put(service, "w", "k")
    for other in (put(service, "w", "k", 3), put(service, "v", "k")):
        refused(other, 422, "idempotency-key-reused")
    refused(service.delete("/v1/workers/w", headers=keyed("k")), 422, "idempotency-key-reused")
    assert service.get("/v1/workers/v").status_code == 404
    assert service.get("/v1/workers", headers=keyed("k")).status_code == 200, "a key means nothing to a GET"


def test_what_was_refused_is_refused_again_in_the_same_words(service: httpx.Client) -> None:
    put(service, "w", "k")
    first = put(service, "w", "l", 1)
    service.delete("/v1/workers/w")
    again = put(service, "w", "l", 1)
    refused(again, 409, "worker-differs")
    assert again.json() == first.json()
    assert put(service, "w", "m", 1).status_code == 201


def test_of_two_at_once_at_two_replicas_one_is_carried_out(
    service: httpx.Client, replicas: "Replicas", monkeypatch: pytest.MonkeyPatch
) -> None:
    others = [service, replicas.start()]
    entered, going_on = threading.Event(), threading.Event()
    register, calls = WorkerRegistry.register, []

    def slow(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        entered.set()
        assert going_on.wait(20)
        return register(*arguments, **more)

    monkeypatch.setattr(WorkerRegistry, "register", slow)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(put, service, "w", "k")
        assert entered.wait(20)
        for replica in others:
            refused(put(replica, "w", "k"), 409, "idempotency-key-in-use")
        going_on.set()
        assert first.result().status_code == 201
    assert [put(replica, "w", "k").headers["idempotent-replayed"] for replica in others] == ["true", "true"]
    assert len(calls) == 1


def test_many_at_once_reserve_a_key_once(service: httpx.Client, replicas: "Replicas") -> None:
    services = [service, replicas.start()]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda number: put(services[number % 2], "w", "k"), range(16)))
    assert {answer.status_code for answer in answers} <= {201, 409}
    carried_out = [a for a in answers if a.status_code == 201 and "idempotent-replayed" not in a.headers]
    assert len(carried_out) == 1


def test_a_reservation_whose_service_died_is_taken_over_after_a_minute(
    service: httpx.Client, replicas: "Replicas", monkeypatch: pytest.MonkeyPatch
) -> None:
    """kill -9 between the reservation and the answer: what was carried out is not kept."""
    with monkeypatch.context() as dying:
        dying.setattr(Idempotency, "keep", lambda *_: None)
        assert put(service, "w", "k").status_code == 201
    refused(put(service, "w", "k"), 409, "idempotency-key-in-use")
    replicas.now_ms += DEAD_MS
    refused(put(service, "w", "k"), 409, "idempotency-key-in-use")
    replicas.now_ms += 1
    anew = put(service, "w", "k")
    assert (anew.status_code, "idempotent-replayed" in anew.headers) == (200, False), "and is not done twice"
    assert put(service, "w", "k").headers["idempotent-replayed"] == "true"


def test_who_was_thought_dead_does_not_overwrite_the_answer_of_who_took_over(replicas: "Replicas") -> None:
    replicas.start()
    (database,) = replicas.databases
    use_cases = Idempotency(database, Hearing(lambda: replicas.now_ms))
    slow = use_cases.reserve("operator:a", "k", "digest")
    replicas.now_ms += DEAD_MS + 1
    quick = use_cases.reserve("operator:a", "k", "digest")
    use_cases.keep(quick, Answer(201, (("a", "b"),), b"quick"))
    use_cases.keep(slow, Answer(500, (), b"slow"))
    use_cases.release(slow)
    assert use_cases.reserve("operator:a", "k", "digest") == Answer(201, (("a", "b"),), b"quick")


@on_sqlite
def test_a_day_later_a_key_is_new(service: httpx.Client, replicas: "Replicas") -> None:
    put(service, "w", "k")
    replicas.now_ms += KEPT_MS
    assert put(service, "w", "k").headers["idempotent-replayed"] == "true"
    replicas.now_ms += 1
    assert put(service, "v", "k").status_code == 201


@on_sqlite
def test_an_answer_that_says_our_mistake_is_not_kept(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_arguments: Any, **_more: Any) -> None:
        raise RuntimeError("our mistake")

    with monkeypatch.context() as failing:
        failing.setattr(WorkerRegistry, "register", broken)
        # uvicorn closes a connection whose request failed so.
        failed = service.put(
            "/v1/workers/w", json={"parallelism": 2}, headers={**keyed("k"), "Connection": "close"}
        )
        assert failed.status_code == 500
    assert put(service, "w", "k").status_code == 201


@on_sqlite
def test_a_key_is_its_caller_s_own(service: httpx.Client) -> None:
    tokens = {}
    for name, role in (("a", "admin"), ("b", "operator"), ("b", "reader")):
        headers = {"Authorization": f"Bearer {tokens['a', 'admin']}"} if tokens else {}
        made = service.post("/v1/tokens", json={"name": name, "role": role}, headers=headers)
        tokens[name, role] = made.json()["token"]
    found = {}
    for (name, role), token in tokens.items():
        headers = {"Authorization": f"Bearer {token}", **keyed("k")}
        found[name, role] = service.put(f"/v1/workers/{name}", json={"parallelism": 1}, headers=headers)
    assert [response.status_code for response in found.values()] == [201, 201, 403]
    assert not any("idempotent-replayed" in response.headers for response in found.values())


@on_sqlite
@pytest.mark.parametrize("key", ["", "x" * 256, "a\tb", "é"])
def test_a_key_that_is_none_is_refused(service: httpx.Client, key: str) -> None:
    response = service.put(
        "/v1/workers/w", json={"parallelism": 1}, headers={"Idempotency-Key": key.encode()}
    )
    refused(response, 422, "bad-idempotency-key")
    assert service.get("/v1/workers/w").status_code == 404


@on_sqlite
def test_a_caller_has_so_many_keys(service: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    assert KEYS_MAX == 10_000
    monkeypatch.setattr("meta.callers.idempotency.KEYS_MAX", 2)
    assert [put(service, "w", key).status_code for key in ("a", "b", "a")] == [201, 200, 201]
    refused(put(service, "w", "c"), 429, "too-many-idempotency-keys")


@on_sqlite
def test_a_long_answer_is_passed_on_and_not_kept(
    service: httpx.Client, monkeypatch: pytest.MonkeyPatch, eventually: Callable[..., None]
) -> None:
    monkeypatch.setattr("meta.api.idempotency.ANSWER_BYTES_MAX", 10)
    assert put(service, "w", "k").status_code == 201
    again = put(service, "w", "k")
    assert (again.status_code, "idempotent-replayed" in again.headers) == (200, False)
