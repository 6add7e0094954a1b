"""Workers: they register, drain and leave."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import httpx
import pytest

from meta.errors import MetaError, TooMany, WorkerNotFound
from meta.mapping.errors import MappingError
from meta.mapping.publication import Phase
from meta.registry import workers
from meta.rescaling.goal import Goal, ToParallelism
from meta.rescaling.planning import advance, planned_under
from tests.meta.story import Story, problem, told_on_sqlite
from tests.meta.world import OPERATOR, WORKER_TIMEOUT_MS, World, at_once


def test_a_worker_registers_again_and_again_and_keeps_its_units(http: httpx.Client, name: str) -> None:
    first = http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    again = http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    assert (first.status_code, again.status_code) == (201, 200)
    assert len(set(first.json()["units"])) == 3
    assert again.json()["units"] == first.json()["units"]
    assert again.json()["alive"]
    assert http.post(f"/v1/workers/{name}/heartbeat").status_code == 204
    shown = http.get(f"/v1/workers/{name}").json()
    assert shown == {**again.json(), "seen_at_ms": shown["seen_at_ms"]}


def test_a_worker_may_get_more_units_and_not_fewer(http: httpx.Client, name: str) -> None:
    first = http.put(f"/v1/workers/{name}", json={"parallelism": 2}).json()["units"]
    grown = http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    assert grown.status_code == 200
    assert grown.json()["units"][:2] == first
    assert len(set(grown.json()["units"])) == 3
    found = problem(
        http.put(f"/v1/workers/{name}", json={"parallelism": 2}),
        409,
        "worker-differs",
        f"vnodectl drain {name}",
    )
    assert (found["worker"], found["parallelism"]) == (name, 3)
    entries = http.get("/v1/audit", params={"subject": name}).json()["items"]
    assert [(entry["action"], entry["detail"]["parallelism"]) for entry in entries] == [
        ("change", 3),
        ("register", 2),
    ]


def test_an_unknown_worker_cannot_beat(http: httpx.Client) -> None:
    problem(http.post("/v1/workers/nobody/heartbeat"), 404, "worker-not-found", "vnodectl worker add nobody")


def test_labels_are_a_worker_s_own_and_each_registration_sets_them_all(http: httpx.Client, name: str) -> None:
    labels = {"zone": "eu-1a", "example.org/disk": "nvme", "empty": ""}
    assert register(http, name, labels=labels).json()["labels"] == labels
    assert register(http, name, labels={"zone": "eu-1b"}).json()["labels"] == {"zone": "eu-1b"}
    assert register(http, name).json()["labels"] == {"zone": "eu-1b"}, "who says nothing of them keeps them"
    assert register(http, name, labels={}).json()["labels"] == {}


@told_on_sqlite
@pytest.mark.parametrize(
    "labels",
    [
        {"Zone": "a"},
        {"": "a"},
        {"-zone": "a"},
        {"z" * 64: "a"},
        {"zone": "a b"},
        {"zone": "a" * 64},
        {"zone": "a\0"},
        {"zone": 1},
        {"zone": None},
        {f"l{number}": "" for number in range(33)},
        ["zone"],
    ],
    ids=str,
)
def test_labels_that_are_none(http: httpx.Client, name: str, labels: Any) -> None:
    problem(register(http, name, labels=labels), 422, "invalid-request", "labels")


def test_the_most_labels(http: httpx.Client, name: str) -> None:
    labels = {"k" * 61 + f"{number:02}": "V" * 63 for number in range(32)}
    assert register(http, name, labels=labels).json()["labels"] == labels


def test_workers_are_listed_by_name_in_pages_with_the_fragments_on_them(story: Story) -> None:
    for letter in ("c", "b", "a"):
        register(story.http, f"{story.name}.{letter}")
    page = {"items": [], "next_cursor": None}
    listed: list[dict[str, Any]] = []
    while True:
        page = story.http.get(
            "/v1/workers", params={"limit": 7, "cursor": page["next_cursor"]} if listed else {"limit": 7}
        ).json()
        assert len(page["items"]) == 7 or page["next_cursor"] is None
        listed += page["items"]
        if page["next_cursor"] is None:
            break
    names = [worker["name"] for worker in listed]
    assert names == sorted(set(names))
    ours = {worker["name"]: worker["fragments"] for worker in listed if worker["name"].startswith(story.name)}
    assert ours == {story.name: [story.name], **{f"{story.name}.{letter}": [] for letter in "abc"}}


def test_a_draining_worker_is_chosen_by_no_plan_until_that_is_taken_back(story: Story) -> None:
    http = story.http
    assert http.post(f"/v1/workers/{story.name}/drain").json()["draining"]
    assert http.post(f"/v1/workers/{story.name}/drain").json()["draining"], "twice is once"
    found = problem(
        story.plan(*story.units), 409, "units-not-alive", "Draining", f"vnodectl drain {story.name} --undo"
    )
    assert (found["units"], found["draining"]) == (story.units, [story.name])
    shown = http.get(f"/v1/workers/{story.name}").json()
    assert (shown["draining"], shown["alive"], shown["fragments"]) == (True, True, [story.name])
    elsewhere = http.post(f"{story.path}/plans", json={"parallelism": 2}).json()
    assert not set(elsewhere["owners"]) & set(story.units)
    assert not http.delete(f"/v1/workers/{story.name}/drain").json()["draining"]
    assert story.plan(*story.units).status_code == 201


def test_a_plan_from_before_the_draining_is_refused_with_what_to_do(story: Story) -> None:
    token = story.token(*story.units)
    story.http.post(f"/v1/workers/{story.name}/drain")
    problem(story.apply(token), 409, "units-not-alive", f"vnodectl drain {story.name} --undo")
    story.http.delete(f"/v1/workers/{story.name}/drain")
    assert story.apply(token).status_code == 202


def test_a_worker_is_removed_once_nothing_is_on_it(story: Story) -> None:
    http, path = story.http, f"/v1/workers/{story.name}"
    found = problem(http.delete(path), 409, "worker-in-use", f"vnodectl drain {story.name}")
    assert (found["worker"], found["fragments"]) == (story.name, [story.name])
    story.hear("job", 2)
    elsewhere = http.get("/v1/workers/a1").json()["units"]
    story.apply(story.token(*elsewhere))
    problem(http.delete(path), 409, "worker-in-use")
    assert http.get(path).json()["fragments"] == [story.name], "its vnodes are on their way"
    story.hear("job", 3)
    assert http.get(path).json()["fragments"] == []
    assert http.delete(path).status_code == 204
    problem(http.delete(path), 404, "worker-not-found")
    problem(http.get(path), 404, "worker-not-found")
    problem(http.post(f"{path}/heartbeat"), 404, "worker-not-found", "register it")
    problem(http.post(f"{path}/drain"), 404, "worker-not-found")
    again = register(http, story.name)
    assert again.status_code == 201
    assert min(again.json()["units"]) > max(story.units), "their ids never come back"


def test_what_is_done_to_a_worker_is_in_the_audit_log_and_heartbeats_are_not(world: World) -> None:
    world.workers.register("w1", parallelism=2, heartbeat_timeout_ms=WORKER_TIMEOUT_MS, by=OPERATOR)
    world.workers.beat("w1")
    world.workers.register(
        "w1", parallelism=2, heartbeat_timeout_ms=WORKER_TIMEOUT_MS, labels={"zone": "a"}, by=OPERATOR
    )
    for draining in (True, True, False):
        world.workers.drain("w1", draining=draining, by=OPERATOR)
    world.workers.register("w3", parallelism=1, heartbeat_timeout_ms=None, by=OPERATOR)
    world.workers.remove("w3", by=OPERATOR)
    with world.database.reading() as tx:
        actions = {
            worker: [entry.action for entry in tx.audit.newest(10, subject=worker)] for worker in ("w1", "w3")
        }
        (registered, removed) = reversed(tx.audit.newest(10, subject="w3"))
    assert actions == {"w1": ["undrain", "drain", "change", "register"], "w3": ["remove", "register"]}
    assert registered.detail == {"parallelism": 1, "labels": {}, "heartbeat_timeout_ms": None}
    assert (removed.caller, removed.detail) == (OPERATOR, {"units": [5]})


@pytest.mark.parametrize("round_", range(4))
def test_of_a_removal_and_an_apply_on_its_units_one_loses(world: World, round_: int) -> None:
    """Both are released at one instant; whoever is first, no version is on a worker that is gone."""
    world.apply(1, 2)
    token = world.plan(1, 3)
    actions = [lambda: remove(world, "w2"), lambda: said(lambda: world.apply_token(token))]
    outcome = set(at_once(*(actions if round_ % 2 else reversed(actions))))
    assert outcome in ({"done", "UnitsNotAlive"}, {"WorkerInUse", "done"})


def test_a_removal_waits_for_an_apply_that_has_not_ended_and_then_loses(world: World) -> None:
    world.apply(1, 2)
    token = world.plan(1, 3)
    with ThreadPoolExecutor(1) as threads:
        with world.database.transaction() as tx:
            tx.fragments.hold("flights")
            advance(tx, planned_under(tx, token), world.hearing.now())
            removal = threads.submit(remove, world, "w2")
            assert not wait([removal], timeout=0.2).done
        assert removal.result() == "WorkerInUse"


def test_an_apply_waits_for_a_removal_that_has_not_ended_and_then_loses(world: World) -> None:
    world.apply(1, 2)
    token = world.plan(1, 3)
    with ThreadPoolExecutor(1) as threads:
        with world.database.transaction() as tx:
            tx.workers.hold("w2")
            tx.workers.remove("w2")
            applied = threads.submit(said, lambda: world.apply_token(token))
            assert not wait([applied], timeout=0.2).done
        assert applied.result() == "UnitsNotAlive"
    assert world.current == (2, Phase.SETTLED)


def test_a_fragment_begins_beside_a_removal_that_has_not_ended_and_loses_its_units(world: World) -> None:
    world.apply(1, 2)
    with ThreadPoolExecutor(1) as threads:
        with world.database.transaction() as tx:
            tx.workers.hold("w2")
            tx.workers.remove("w2")
            created = threads.submit(said, lambda: world.create("trains", 4))
            assert not wait([created], timeout=0.2).done
        # PostgreSQL's reader had seen them still.
        assert created.result() in ("UnitsNotAlive", "NotEnoughUnits")


def test_of_many_that_remove_register_and_drain_a_worker_at_once_none_is_left_half_done(world: World) -> None:
    def register_it() -> None:
        world.workers.register("w9", parallelism=3, heartbeat_timeout_ms=None, by=OPERATOR)

    def remove_it() -> None:
        world.workers.remove("w9", by=OPERATOR)

    def drain_it() -> None:
        assert world.workers.drain("w9", draining=True, by=OPERATOR).worker.draining

    actions = [lambda action=action: said(action) for action in (register_it, remove_it, drain_it)] * 6
    assert set(at_once(*actions)) <= {"done", "WorkerNotFound"}
    register_it()
    assert len(world.workers.get("w9").worker.unit_ids) == 3


def test_a_worker_too_many_is_refused_with_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "WORKERS_MAX", 2)
    with pytest.raises(TooMany, match=r"at most 2 workers .* `vnodectl worker remove`"):
        world.workers.register("w3", parallelism=1, heartbeat_timeout_ms=None, by=OPERATOR)
    with pytest.raises(WorkerNotFound):
        world.workers.get("w3")
    world.workers.register("w2", parallelism=2, heartbeat_timeout_ms=None, by=OPERATOR)


def test_a_unit_too_many_is_refused_with_what_to_do(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "UNITS_MAX", 6)
    with pytest.raises(TooMany, match=r"at most 6 units and this would make 7; .* fewer units") as refusal:
        world.workers.register("w3", parallelism=3, heartbeat_timeout_ms=None, by=OPERATOR)
    assert (refusal.value.limit, refusal.value.asked) == (6, 7)
    world.workers.register("w3", parallelism=2, heartbeat_timeout_ms=None, by=OPERATOR)


def test_a_fragment_begins_beside_a_draining_worker(world: World) -> None:
    world.workers.drain("w1", draining=True, by=OPERATOR)
    world.create("trains", 2)
    assert world.fragments.state("trains").units == (3, 4)


def test_a_plan_of_a_size_leaves_a_draining_worker(world: World) -> None:
    world.workers.drain("w1", draining=True, by=OPERATOR)
    planned = world.rescales.plan("flights", Goal(ToParallelism(2)), by=OPERATOR)
    world.apply_token(planned.stored.token)
    assert world.fragments.state("flights").units == (3, 4)
    world.workers.remove("w1", by=OPERATOR)
    assert [use.worker.name for use in world.workers.page(after=None, limit=9)] == ["w2"]


def register(http: httpx.Client, name: str, **more: Any) -> httpx.Response:
    return http.put(f"/v1/workers/{name}", json={"parallelism": 2, **more})


def remove(world: World, worker: str) -> str:
    return said(lambda: world.workers.remove(worker, by=OPERATOR))


def said(action: Callable[[], object]) -> str:
    """`done`, or the name of what it was refused with."""
    try:
        action()
    except (MetaError, MappingError) as refusal:
        return type(refusal).__name__
    return "done"
