"""Rescales over HTTP, on the run's common service: told as stories."""

from collections.abc import Callable

import httpx

from meta.etcd.client import EtcdClient
from meta.mapping.publication import Current, current_key, decode_body, digest, version_key
from tests.meta.story import Story, problem


def test_with_no_appliers_an_applied_plan_settles_at_once(story: Story) -> None:
    plan = story.plan(*story.units).json()
    assert plan["certificate"]["moves"] == plan["certificate"]["lower_bound"] == len(plan["moves"]) == 64
    assert plan["certificate"]["gap"] == 0
    applied = story.apply(plan["token"])
    assert applied.status_code == 202
    answer = applied.json()
    assert answer == {
        "id": plan["token"].partition(".")[0],
        "phase": "settled",
        "handover": None,
        "applied_at_ms": answer["applied_at_ms"],
        "token": plan["token"],
        "fragment": story.name,
        "base_version": 2,
        "version": 3,
        "changed": True,
        "certificate": plan["certificate"],
    }
    assert story.state == (3, "settled")
    newest = story.version(3)
    assert (newest["version"], newest["moves"], newest["previous_version"]) == (3, 64, 2)
    assert newest["owners"] == plan["owners"]
    assert newest["previous_owners"] == plan["previous_owners"]
    moved = {move["vnode"]: (move["from"], move["to"]) for move in plan["moves"]}
    assert moved == {
        vnode: change
        for vnode, change in enumerate(zip(plan["previous_owners"], plan["owners"], strict=True))
        if change[0] != change[1]
    }
    assert list(newest["phases"]) == ["rescaling", "settled"]


def test_the_same_token_has_the_same_answer_even_later(story: Story) -> None:
    token = story.token(*story.units)
    first = story.apply(token)
    assert story.apply(token).json() == first.json()
    story.settle_on(*story.units[:2])
    assert (story.apply(token).status_code, story.apply(token).json()) == (202, first.json())
    assert story.state == (4, "settled")


def test_units_may_have_gaps_and_a_plan_with_nothing_to_do_makes_no_version(story: Story) -> None:
    first, _, third, fourth = story.units
    story.settle_on(first, third, fourth)
    newest = story.version(3)
    assert [unit["id"] for unit in newest["units"]] == [first, third, fourth]
    assert set(newest["owners"]) == {first, third, fourth}
    nothing = story.apply(story.token(fourth, third, first)).json()
    assert (nothing["changed"], nothing["version"], nothing["certificate"]["moves"]) == (False, 3, 0)
    assert story.state == (3, "settled")


def test_an_applier_leads_a_version_through_all_its_phases(story: Story) -> None:
    heard = story.hear("job", None)
    assert heard.json() == {
        "id": "job",
        "name": "job",
        "role": "applier",
        "acknowledged_version": None,
        "expires_in_ms": 10_000,
        "current_version": 2,
    }
    story.hear("scan", None, role="reader")
    assert story.subscribers == ["job", "scan"]
    story.apply(story.token(*story.units))
    assert story.state == (3, "rescaling")
    assert [applier["name"] for applier in story.progress["waiting_for"]] == ["job"]
    assert story.hear("job", 2).json()["acknowledged_version"] == 2
    assert story.state == (3, "rescaling")
    assert story.accept(3).json() == {"version": 3, "phase": "accepted"}
    assert story.accept(3).json() == {"version": 3, "phase": "accepted"}
    assert story.state == (3, "accepted")
    assert story.hear("job", 3).json()["acknowledged_version"] == 3
    assert story.state == (3, "settled")
    assert story.hear("job", 2).json()["acknowledged_version"] == 3, "never goes back"
    progress = story.progress
    assert (progress["version"], progress["phase"]) == (3, "settled")
    assert (progress["acknowledged"], progress["waiting_for"]) == (1, [])
    assert story.accept(3).json() == {"version": 3, "phase": "settled"}
    newest = story.version(3)
    assert list(newest["phases"]) == ["rescaling", "accepted", "settled"]


def test_an_applier_that_leaves_is_waited_for_no_more(story: Story) -> None:
    story.hear("job", 2)
    story.hear("other", 2)
    story.apply(story.token(*story.units))
    story.hear("other", 3)
    assert story.state == (3, "rescaling")
    assert story.http.delete(f"{story.path}/subscribers/job").status_code == 204
    assert story.state == (3, "settled")
    assert story.http.delete(f"{story.path}/subscribers/job").status_code == 204
    assert story.subscribers == ["other"]


def test_a_silent_applier_counts_as_stopped_after_its_timeout(
    http: httpx.Client, name: str, eventually: Callable[..., None]
) -> None:
    story = Story(http, name)
    story.begin(applier_timeout_ms=300)
    story.hear("killed", 2)
    story.apply(story.token(*story.units))
    assert story.state == (3, "rescaling")

    def settled() -> None:
        assert story.state == (3, "settled")

    eventually(settled)


def test_a_subscriber_ahead_of_the_database_is_registered_and_told_what_is_current(story: Story) -> None:
    heard = story.hear("job", 3).raise_for_status().json()
    assert (heard["acknowledged_version"], heard["current_version"]) == (None, 2)
    assert story.subscribers == ["job"]


def test_one_version_is_the_same_alone_as_among_all(story: Story) -> None:
    story.settle_on(*story.units)
    listed = story.http.get(f"{story.path}/versions").json()["items"]
    assert [version["version"] for version in listed] == [1, 2, 3]
    for version in listed:
        alone = story.version(version["version"])
        alone["units"] = [unit["id"] for unit in alone["units"]]
        alone["phase"] = list(alone["phases"])[-1]
        assert {name: alone[name] for name in version} == version
    problem(story.http.get(f"{story.path}/versions/4"), 404, "version-not-found", "1 to 3")


def test_a_version_that_is_not_current_may_not_be_accepted(story: Story) -> None:
    found = problem(
        story.accept(1), 409, "version-not-current", "version 2 is current", "read the mapping again"
    )
    assert (found["version"], found["current_version"]) == (1, 2)
    problem(story.accept(3), 404, "version-not-found", "1 to 2")
    problem(story.accept(0), 422, "invalid-request", "version: ")


def test_a_plan_on_a_stale_base_is_refused(story: Story) -> None:
    stale = story.token(*story.units[:2])
    story.settle_on(*story.units)
    found = problem(story.apply(stale), 409, "stale-base", "version 2", "version 3", "plan again")
    assert (found["base_version"], found["current_version"]) == (2, 3)
    assert story.state == (3, "settled")


def test_a_second_rescale_is_told_what_is_under_way(story: Story) -> None:
    second = story.token(*story.units[:2])
    story.hear("job", 2)
    story.apply(story.token(*story.units))
    found = problem(story.apply(second), 409, "rescale-in-flight", "version 3", "rescaling", "fragment show")
    assert (found["fragment"], found["version"], found["phase"]) == (story.name, 3, "rescaling")
    story.accept(3)
    assert problem(story.apply(second), 409, "rescale-in-flight", "accepted")["phase"] == "accepted"
    assert story.state == (3, "accepted")


def test_a_plan_whose_worker_died_meanwhile_is_refused(story: Story, eventually: Callable[..., None]) -> None:
    mortal = f"{story.name}-mortal"
    registered = story.http.put(
        f"/v1/workers/{mortal}", json={"parallelism": 2, "heartbeat_timeout_ms": 400}
    ).json()
    token = story.token(*story.units[:3], *registered["units"])

    def dead() -> None:
        assert not story.http.get(f"/v1/workers/{mortal}").json()["alive"]

    eventually(dead)
    for refused in (story.apply(token), story.plan(*registered["units"])):
        found = problem(refused, 409, "units-not-alive", "vnodectl worker list")
        assert found["units"] == registered["units"]
    assert story.state == (2, "settled")
    revived = story.http.put(f"/v1/workers/{mortal}", json={"parallelism": 2, "heartbeat_timeout_ms": 60_000})
    assert (revived.json()["alive"], revived.json()["heartbeat_timeout_ms"]) == (True, 60_000)
    assert story.apply(token).json()["version"] == 3


def test_tokens_that_are_none(story: Story) -> None:
    token = story.token(*story.units)
    for wrong in ("", "x" * 65):
        problem(story.apply(wrong), 422, "invalid-request", "token: ")
    for wrong in ("nobody.knows", token.partition(".")[0], token[:-1], f"{token}0"):
        problem(story.apply(wrong), 404, "plan-not-found", wrong, "plan again")
    assert story.state == (2, "settled")


def test_etcd_and_http_have_the_very_same_bytes(story: Story) -> None:
    story.hear("job", 2)
    story.apply(story.token(*story.units))
    coordination = story.http.get("/v1/coordination").json()["etcd"]
    current = story.http.get(f"{story.path}/current").content
    body = story.http.get(f"{story.path}/versions/3/body").content
    with EtcdClient(coordination["endpoints"]) as etcd:
        published = etcd.get(current_key(story.name, coordination["root"]))
        version = etcd.get(version_key(story.name, 3, coordination["root"]))
    assert published is not None
    assert version is not None
    assert (published.value, version.value) == (current, body)
    assert Current.decode(current).digest == digest(body)
    assert [unit.id for unit in decode_body(body).units] == story.units
    problem(story.http.get(f"{story.path}/versions/4/body"), 404, "version-not-found", "1 to 3")
