"""Mappings, versions, differences, groups and plans over HTTP, with entity tags and pages."""

import json
from functools import partial

import httpx
import pytest

from meta.api.documents import MappingDocuments
from meta.api.wire.plans import PlanHeadOut, PlanOut
from meta.api.wire.summaries import FLOWS_MAX, SummaryOut
from meta.mapping.mapping import VnodeMapping
from meta.mapping.publication import decode_body
from meta.mapping.summary import summary
from meta.mapping.unit import Unit
from tests.meta.story import Story, problem, told_on_sqlite


def settled(story: Story, goal: dict[str, object]) -> httpx.Response:
    planned = story.http.post(f"{story.path}/plans", json=goal).raise_for_status().json()
    return story.apply(planned["token"]).raise_for_status()


def test_the_mapping_in_both_forms_is_the_published_one(story: Story) -> None:
    body = decode_body(story.http.get(f"{story.path}/versions/2/body").content)
    owners = story.http.get(f"{story.path}/mapping").json()
    runs = story.http.get(f"{story.path}/mapping", params={"form": "runs"}).json()
    assert tuple(owners.pop("owners")) == body.mapping.owners
    assert [tuple(run) for run in runs.pop("runs")] == [
        (run.first, run.last, run.owner) for run in body.mapping.runs()
    ]
    assert owners == runs
    assert (owners["fragment"], owners["version"], owners["phase"]) == (story.name, 2, "settled")
    assert (owners["vnode_count"], owners["previous_version"]) == (256, 1)
    assert [unit["id"] for unit in owners["units"]] == story.units[:3]
    assert sum(unit["vnodes"] for unit in owners["units"]) == 256


def test_an_older_version_is_read_too_and_one_that_is_not_there_is_refused(story: Story) -> None:
    first = story.http.get(f"{story.path}/mapping", params={"version": 1}).json()
    assert (first["version"], first["phase"], first["previous_version"]) == (1, "settled", None)
    problem(story.http.get(f"{story.path}/mapping", params={"version": 3}), 404, "version-not-found")
    problem(story.http.get("/v1/fragments/nothing/mapping"), 404, "fragment-not-found")


@told_on_sqlite
@pytest.mark.parametrize(
    "path", ["/mapping", "/mapping?form=runs", "/mapping?version=1", "/current", "/versions/1/body"]
)
def test_what_the_client_has_already_is_not_sent_again(story: Story, path: str) -> None:
    first = story.http.get(story.path + path)
    tag = first.headers["etag"]
    again = story.http.get(story.path + path, headers={"If-None-Match": f'"other", {tag}'})
    assert (again.status_code, again.content, again.headers["etag"]) == (304, b"", tag)
    other = story.http.get(story.path + path, headers={"If-None-Match": 'W/"1-settled-00-owners"'})
    assert (other.status_code, other.content) == (200, first.content)


def test_the_tag_changes_with_every_phase_and_differs_by_form(story: Story) -> None:
    def tag(form: str) -> str:
        return str(story.http.get(f"{story.path}/mapping", params={"form": form}).headers["etag"])

    tags = [tag("owners"), tag("runs")]
    story.hear("job", 2)
    story.settle_on(*story.units)
    for go_on in (lambda: None, lambda: story.accept(3), lambda: story.hear("job", 3)):
        go_on()
        answer = story.http.get(f"{story.path}/mapping")
        assert answer.json()["phase"] == story.state[1]
        tags.append(answer.headers["etag"])
    assert len(set(tags)) == 5
    assert [one.split("-")[1] for one in tags] == ["settled", "settled", "rescaling", "accepted", "settled"]


def test_versions_come_in_pages_from_either_end(story: Story) -> None:
    for count in (4, 3, 4):
        story.settle_on(*story.units[:count])

    def pages(order: str) -> list[int]:
        found, cursor = [], {}
        while True:
            params = {"limit": "2", "order": order, **cursor}
            page = story.http.get(f"{story.path}/versions", params=params).raise_for_status().json()
            found += [item["version"] for item in page["items"]]
            if page["next_cursor"] is None:
                return found
            cursor = {"cursor": page["next_cursor"]}

    assert pages("oldest") == [1, 2, 3, 4, 5]
    assert pages("newest") == [5, 4, 3, 2, 1]
    last = story.http.get(f"{story.path}/versions", params={"order": "newest", "limit": 1}).json()["items"][0]
    assert (last["cause"], last["phase"], last["previous_version"]) == ("rescale", "settled", 4)
    assert last["units"] == story.units
    assert list(last["phases"]) == ["rescaling", "settled"]
    assert "owners" not in last
    assert story.http.get(f"/v1/plans/{last['plan']}").json()["applied_version"] == 5
    problem(story.http.get(f"{story.path}/versions", params={"cursor": "x"}), 422, "bad-cursor")


def test_what_lies_between_two_versions(story: Story) -> None:
    story.settle_on(*story.units)
    diff = story.http.get(f"{story.path}/diff").json()
    assert (diff["from"], diff["to"], diff["vnode_count"]) == (2, 3, 256)
    assert (diff["moves"], diff["assigned"], diff["released"]) == (64, 0, 0)
    assert sum(run["last"] - run["first"] + 1 for run in diff["runs"]) == 64
    assert {run["to"] for run in diff["runs"]} == {story.units[3]}
    assert diff["summary"]["after"]["spread"] == 0
    back = story.http.get(f"{story.path}/diff", params={"from": 3, "to": 2}).json()
    assert {run["from"] for run in back["runs"]} == {story.units[3]}
    assert back["summary"]["gone"] == []
    assert story.http.get(f"{story.path}/diff", params={"from": 3, "to": 3}).json()["runs"] == []
    problem(story.http.get(f"{story.path}/diff", params={"to": 9}), 404, "version-not-found")


@told_on_sqlite
def test_groups_for_tasks(story: Story) -> None:
    found = story.http.get(f"{story.path}/groups").json()
    assert (found["version"], [group["unit"] for group in found["tasks"]]) == (2, story.units[:3])
    halves = story.http.get(f"{story.path}/groups", params={"tasks": 6}).json()["tasks"]
    assert [group["unit"] for group in halves] == [unit for unit in story.units[:3] for _ in range(2)]
    (alone,) = story.http.get(f"{story.path}/groups", params={"tasks": 1}).json()["tasks"]
    assert (alone["unit"], alone["units"], alone["count"]) == (None, story.units[:3], 256)
    assert alone["vnodes"] == [[0, 255]]
    problem(story.http.get(f"{story.path}/groups", params={"tasks": 0}), 422, "invalid-request")


def test_a_plan_is_answered_in_whole_and_again_later(story: Story) -> None:
    made = story.http.post(f"{story.path}/plans", json={"units": story.units, "budget": 20})
    assert made.status_code == 201
    plan = made.json()
    PlanOut.model_validate(json.loads(made.content), by_name=True, strict=False)
    assert plan["goal"] == {"units": story.units, "level": "units", "budget": 20}
    assert (plan["cause"], plan["remaining_moves"], plan["applied_version"]) == ("rescale", 44, None)
    assert (len(plan["moves"]), plan["certificate"]["moves"], plan["summary"]["moves"]) == (20, 20, 20)
    assert len(plan["warnings"]) == 1
    for move in plan["moves"]:
        assert plan["previous_owners"][move["vnode"]] == move["from"]
        assert plan["owners"][move["vnode"]] == move["to"]
        assert move["reason"]
    assert story.http.get(f"/v1/plans/{plan['id']}").json() == plan
    short = story.http.get(f"/v1/plans/{plan['id']}", params={"moves": "false"}).json()
    assert short == {name: plan[name] for name in PlanHeadOut.model_fields}
    story.apply(plan["token"])
    assert story.http.get(f"/v1/plans/{plan['id']}").json() == {**plan, "applied_version": 3}
    (newest, *_) = story.http.get(f"{story.path}/plans").json()["items"]
    assert newest == {name: value for name, value in short.items() if name != "summary"} | {
        "applied_version": 3
    }
    assert story.http.post(f"{story.path}/plans", json=plan["goal"]).status_code == 201
    problem(story.http.get("/v1/plans/0"), 404, "plan-not-found")


@told_on_sqlite
@pytest.mark.parametrize(
    ("goal", "words"),
    [
        ({}, "there is none"),
        ({"parallelism": 2, "units": [1]}, "parallelism and units are 2 goals"),
        ({"to_version": 1, "vnode_count": 512}, "to_version and vnode_count are 2 goals"),
        ({"units": []}, "units: it names none"),
        ({"add_units": [], "remove_units": []}, "it names none"),
        ({"add_units": [1], "remove_units": [1]}, "unit 1 is in add_units too"),
        ({"parallelism": 2, "count_slack": 0.5}, "count_slack: it is for plans by load"),
        ({"by_load": True, "level": "workers"}, "a plan by load knows no level"),
        ({"by_load": True, "defragment": 0}, "a plan by load knows no defragment"),
        ({"to_version": 1, "budget": 4}, "nothing is left to choose"),
        ({"vnode_count": 512, "by_load": True}, "nothing is left to choose"),
    ],
)
def test_a_goal_that_makes_no_sense(story: Story, goal: dict[str, object], words: str) -> None:
    problem(story.http.post(f"{story.path}/plans", json=goal), 422, "bad-goal", words)


@told_on_sqlite
@pytest.mark.parametrize(
    "goal",
    [
        {"parallelism": 0},
        {"parallelism": 1.0},
        {"parallelism": 2, "budget": 0},
        {"parallelism": 2, "budget": True},
        {"parallelism": 2, "weights": {"x": 1}},
        {"parallelism": 2, "weights": {"1": -1}},
        {"parallelism": 2, "weights": {"1": 1e300}},
        {"parallelism": 2, "level": "racks"},
        {"parallelism": 2, "defragment": -1},
        {"units": [-1]},
        {"units": ["1"]},
        {"to_version": 0},
        {"vnode_count": 65537},
        {"by_load": 1},
        {"by_load": True, "count_slack": -0.1},
        {"parallelism": 2, "labels": {"zone": 1}},
        {"parallelism": 2, "labels": {"zone": "\ud800"}},
        {"parallelism": 2, "more": 1},
    ],
)
def test_a_goal_that_is_malformed(story: Story, goal: dict[str, object]) -> None:
    # httpx would not send half a surrogate.
    sent = story.http.post(
        f"{story.path}/plans", content=json.dumps(goal), headers={"Content-Type": "application/json"}
    )
    problem(sent, 422, "invalid-request")


def test_who_decided_on_an_older_mapping_is_told_so(story: Story) -> None:
    tag = story.http.get(f"{story.path}/mapping", params={"form": "runs"}).headers["etag"]
    goal = {"units": story.units}

    def plan(if_match: str) -> httpx.Response:
        return story.http.post(f"{story.path}/plans", json=goal, headers={"If-Match": if_match})

    assert plan(tag).status_code == plan("*").status_code == plan(f'"9-x", {tag}').status_code == 201
    story.settle_on(*story.units)
    found = problem(plan(tag), 412, "precondition-failed", "read it again")
    assert plan(found["etag"]).status_code == 201


def test_a_rescale_to_another_vnode_count_over_http(story: Story) -> None:
    answer = settled(story, {"vnode_count": 1024}).json()
    assert (answer["version"], answer["certificate"]["moves"]) == (3, 0)
    assert story.http.get(story.path).json()["vnode_count"] == 1024
    assert story.http.get(f"{story.path}/diff").json()["moves"] == 0
    settled(story, {"to_version": 2})
    assert (
        story.http.get(f"{story.path}/mapping").json()["owners"]
        == (story.http.get(f"{story.path}/mapping", params={"version": 2}).json()["owners"])
    )


def test_of_many_flows_the_largest_are_shown() -> None:
    """100 units give one vnode or two to each of 100 others."""
    before = VnodeMapping(tuple(unit for unit in range(100) for _ in range(101)))
    after = VnodeMapping(tuple(100 + vnode % 101 % 100 for vnode in range(10_100)))
    found = SummaryOut.of(summary(before, after, [Unit(unit, "w") for unit in range(200)]))
    assert (len(found.unit_flows), found.flows_left_out) == (FLOWS_MAX, 9_000)
    assert [flow.vnodes for flow in found.unit_flows[:100]].count(2) <= 100
    assert sum(flow.vnodes == 2 for flow in found.unit_flows) == 100
    assert list(found.unit_flows) == sorted(found.unit_flows, key=lambda flow: (flow.source, flow.target))


def test_documents_are_made_once_and_the_oldest_go() -> None:
    documents, made = MappingDocuments(entries_max=2), []

    def make(name: bytes) -> bytes:
        made.append(name)
        return name

    for digest in ("a", "b", "a", "c", "a", "b"):
        assert documents.tail(digest, "owners", partial(make, digest.encode())) == digest.encode()
    assert made == [b"a", b"b", b"c", b"b"]
