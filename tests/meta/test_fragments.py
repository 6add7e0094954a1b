"""Fragments: how they begin, what may be changed of them, and what is shown."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest

from meta.errors import FragmentExists, FragmentNotFound, TooMany
from meta.etcd.client import EtcdClient
from meta.mapping.publication import Current, Phase, current_key, digest
from meta.registry import fragments
from tests.meta.story import Story, problem, told_on_sqlite
from tests.meta.world import World, at_once


@told_on_sqlite
@pytest.mark.parametrize("name", ["", "UPPER", "a b", "-a", "a/b", "a" * 64, "ä", "a\n", "..", "%00"])
def test_names_that_are_no_step_of_a_key(http: httpx.Client, name: str) -> None:
    request = {"name": name, "distribution_key": [{"name": "k", "type": "bigint"}], "parallelism": 1}
    problem(http.post("/v1/fragments", json=request), 422, "invalid-request", "name: ")


@told_on_sqlite
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"vnode_count": 0}, ["vnode_count", "1 to 4096"]),
        ({"vnode_count": 5000}, ["vnode_count", "power of two"]),
        ({"vnode_count": 131_072}, ["vnode_count", "65536"]),
        ({"distribution_key": [{"name": "k", "type": "map<int,int>"}]}, ["map<int,int>", "bigint"]),
        (
            {"distribution_key": [{"name": "k", "type": "int"}, {"name": "k", "type": "string"}]},
            ["distribution_key", "twice"],
        ),
    ],
    ids=["no-vnodes", "odd-count", "too-many-vnodes", "type", "column-twice"],
)
def test_fragments_that_storage_keys_refuse(
    http: httpx.Client, name: str, change: dict[str, Any], words: list[str]
) -> None:
    http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    found = problem(Story(http, name).create(**change), 422, "bad-fragment", *words)
    assert found["field"] == next(iter(change))
    problem(http.get(f"/v1/fragments/{name}"), 404, "fragment-not-found")


@told_on_sqlite
@pytest.mark.parametrize(
    ("change", "field_name"),
    [
        ({"vnode_count": "256"}, "vnode_count"),
        ({"vnode_count": 2.5}, "vnode_count"),
        ({"parallelism": 0}, "parallelism"),
        ({"parallelism": True}, "parallelism"),
        ({"parallelism": None}, "parallelism"),
        ({"distribution_key": []}, "distribution_key"),
        ({"distribution_key": [{"name": "", "type": "int"}]}, "distribution_key.0.name"),
        ({"distribution_key": [{"name": "k"}]}, "distribution_key.0.type"),
        ({"parallelism": {"fixed": 3}}, "parallelism.adaptive"),
        ({"parallelism": {"adaptive": {"min": 1}}}, "parallelism.adaptive.max"),
        ({"parallelism": {"adaptive": {"min": 0, "max": 2}}}, "parallelism.adaptive.min"),
        ({"parallelism": {"adaptive": {"max": 2, "cool_down_ms": 0}}}, "parallelism.adaptive.cool_down_ms"),
        ({"table_ids": [1, 1]}, "table_ids"),
        ({"table_ids": [-1]}, "table_ids.0"),
        ({"table_ids": [2**32]}, "table_ids.0"),
        ({"table_ids": list(range(1_001))}, "table_ids"),
        ({"applier_timeout_ms": 99}, "applier_timeout_ms"),
        ({"vnodes": 256}, "vnodes"),
    ],
    ids=str,
)
def test_requests_that_are_malformed_are_told_by_field(
    http: httpx.Client, name: str, change: dict[str, Any], field_name: str
) -> None:
    found = problem(Story(http, name).create(**change), 422, "invalid-request", f"{field_name}: ")
    assert found["errors"][0]["field"] == field_name
    assert found["errors"][0]["reason"]


def test_too_few_units_for_a_fragment(http: httpx.Client, name: str) -> None:
    found = problem(
        Story(http, name).create(parallelism=4096, vnode_count=4096),
        422,
        "not-enough-units",
        "ask for at most",
    )
    assert (found["parallelism"], found["available"] < 4096) == (4096, True)
    http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    problem(Story(http, name).create(vnode_count=2), 422, "more-units-than-vnodes", "at most 2 units")


def test_a_fragment_begins_settled_with_one_run_for_each_unit(http: httpx.Client, name: str) -> None:
    http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    created = Story(http, name).create()
    assert created.status_code == 201
    assert (created.json()["version"], created.json()["phase"]) == (1, "settled")
    assert (created.json()["vnode_count"], created.json()["hash_id"]) == (256, "xxh64-1:utf8")
    assert http.get(f"/v1/fragments/{name}").json() == created.json()
    assert (created.json()["parallelism"], created.json()["not_now"]) == ({"fixed": 3}, None)
    assert (len(created.json()["units"]), created.json()["lost_units"]) == (3, [])
    assert (created.json()["table_ids"], created.json()["oldest_version"]) == ([], 1)
    first = http.get(f"/v1/fragments/{name}/versions/1").json()
    assert sorted(unit["vnodes"] for unit in first["units"]) == [85, 85, 86]
    assert len([v for v in range(255) if first["owners"][v] != first["owners"][v + 1]]) == 2
    problem(Story(http, name).create(), 409, "fragment-exists", name)


def test_a_fragment_that_etcd_has_of_somebody_else_is_refused_with_what_to_do(
    http: httpx.Client, name: str
) -> None:
    coordination = http.get("/v1/coordination").json()["etcd"]
    foreign = Current(1, Phase.SETTLED, digest(b"of another database"))
    with EtcdClient(coordination["endpoints"]) as etcd:
        etcd.put(current_key(name, coordination["root"]), foreign.encode())
        refused = Story(http, name).create()
        # Others use this service, and want it well.
        etcd.delete(current_key(name, coordination["root"]))
    problem(refused, 409, "fragment-published-elsewhere", "Restore the database", "choose another name")
    problem(http.get(f"/v1/fragments/{name}"), 404, "fragment-not-found")


def test_a_key_whose_hash_id_the_database_cannot_hold_is_refused(story: Story) -> None:
    def key(columns: int) -> list[dict[str, str]]:
        return [{"name": f"c{column}", "type": "decimal(38,18)"} for column in range(columns)]

    assert story.create(name=f"{story.name}-24", distribution_key=key(24)).status_code == 201
    refused = story.create(name=f"{story.name}-25", distribution_key=key(25))
    problem(refused, 422, "bad-fragment", "distribution_key", "name fewer")


@told_on_sqlite
def test_a_policy_whose_bounds_are_none_is_refused(http: httpx.Client, name: str) -> None:
    http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    story = Story(http, name)
    upside_down = {"adaptive": {"min": 3, "max": 2}}
    problem(story.create(parallelism=upside_down), 422, "bad-fragment", "parallelism: min 3 is above max 2")
    assert story.create().status_code == 201
    refused = http.patch(story.path, json={"parallelism": upside_down})
    problem(refused, 422, "bad-fragment", "parallelism: min 3 is above max 2")
    too_many = {"adaptive": {"min": 257, "max": 300}}
    problem(http.patch(story.path, json={"parallelism": too_many}), 422, "bad-fragment", "256 vnodes")


def test_what_is_changed_is_changed_and_the_rest_stays(story: Story) -> None:
    before = story.http.get(story.path).json()
    policy = {"adaptive": {"min": 2, "max": 8, "cool_down_ms": 86_400_000}}
    changed = story.http.patch(story.path, json={"parallelism": policy})
    assert changed.status_code == 200
    assert changed.json() == {**before, "parallelism": policy, "not_now": changed.json()["not_now"]}
    assert "version 2 is young" in changed.json()["not_now"], "there are more units than it runs on"
    assert story.http.get(story.path).json() == changed.json()
    more = story.http.patch(story.path, json={"table_ids": [0, 2**32 - 1], "applier_timeout_ms": 100}).json()
    assert more == {**changed.json(), "table_ids": [0, 2**32 - 1], "applier_timeout_ms": 100}
    assert story.http.patch(story.path, json={}).json() == more
    assert story.http.patch(story.path, json={"parallelism": None, "table_ids": None}).json() == more
    fixed = story.http.patch(story.path, json={"parallelism": "fixed", "table_ids": []}).json()
    assert fixed == {**before, "applier_timeout_ms": 100}


@told_on_sqlite
@pytest.mark.parametrize(
    ("change", "field_name"),
    [
        ({"parallelism": 3}, "parallelism"),
        ({"parallelism": "adaptive"}, "parallelism"),
        ({"parallelism": {"adaptive": {}}}, "parallelism.adaptive.max"),
        ({"table_ids": [7, 7]}, "table_ids"),
        ({"vnode_count": 512}, "vnode_count"),
        ({"name": "other"}, "name"),
    ],
    ids=str,
)
def test_changes_that_are_none(story: Story, change: dict[str, Any], field_name: str) -> None:
    found = problem(story.http.patch(story.path, json=change), 422, "invalid-request", f"{field_name}: ")
    assert [error["field"] for error in found["errors"]] == [field_name]


@told_on_sqlite
def test_an_unknown_fragment_cannot_be_changed(http: httpx.Client) -> None:
    problem(http.patch("/v1/fragments/nowhere", json={}), 404, "fragment-not-found")


def test_a_fragment_keeps_its_table_ids_and_policy_from_the_start(http: httpx.Client, name: str) -> None:
    http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    policy = {"adaptive": {"min": 1, "max": 2}}
    created = Story(http, name).create(parallelism=policy, table_ids=[18, 17]).json()
    assert created["parallelism"] == {"adaptive": {"min": 1, "max": 2, "cool_down_ms": 60_000}}
    assert (created["table_ids"], len(created["units"])) == ([18, 17], 2)


def test_units_of_a_dead_worker_are_shown_as_lost(
    http: httpx.Client, name: str, eventually: Callable[..., None]
) -> None:
    story, mortal = Story(http, name), {"parallelism": 4, "heartbeat_timeout_ms": 300}
    story.begin()
    story.units = http.put(f"/v1/workers/{name}", json=mortal).json()["units"]

    def lost() -> None:
        assert http.get(story.path).json()["lost_units"] == story.units[:3]

    eventually(lost)
    assert http.get(story.path).json()["units"] == story.units[:3]


def test_fragments_are_listed_by_name_in_pages_and_by_worker(story: Story) -> None:
    http = story.http
    others = [f"{story.name}.{letter}" for letter in "cab"]
    for other in others:
        assert story.create(name=other).status_code == 201
    listed = pages(http, limit=2)
    names = [fragment["name"] for fragment in listed]
    assert names == sorted(set(names))
    assert [name for name in names if name.startswith(story.name)] == [story.name, *sorted(others)]
    on_it = pages(http, limit=1, worker=story.name)
    assert story.name in [fragment["name"] for fragment in on_it]
    assert all(set(fragment["units"]) & set(story.units) for fragment in on_it)
    problem(http.get("/v1/fragments", params={"worker": "nobody"}), 404, "worker-not-found")
    problem(http.get("/v1/fragments", params={"cursor": "nonsense"}), 422, "bad-cursor")


def test_a_fragment_too_many_is_refused_with_what_to_do(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fragments, "FRAGMENTS_MAX", 1)
    with pytest.raises(TooMany, match="at most 1 fragments and this would make 2"):
        world.create("trains")
    with pytest.raises(FragmentNotFound):
        world.fragments.get("trains")


def test_of_two_that_create_one_fragment_at_once_one_is_told(world: World) -> None:
    def create() -> str:
        try:
            world.create("trains")
        except FragmentExists:
            return "there"
        return "created"

    assert sorted(at_once(*[create] * 8)) == ["created", *["there"] * 7]
    with world.database.reading() as tx:
        assert [entry.action for entry in tx.audit.newest(9, subject="trains")] == ["create"]


def pages(http: httpx.Client, **params: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        page = http.get("/v1/fragments", params={**params, **cursor}).raise_for_status().json()
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"]}
