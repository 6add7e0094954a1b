"""Rescales over HTTP as records: what became of each, and the ways back."""

from typing import Any

import pytest

from tests.meta.story import Story, problem, told_on_sqlite


def begin(story: Story, *units: int) -> Any:
    """A rescale that an applier holds up: the answer to its token."""
    story.hear("job", story.state[0])
    applied = story.apply(story.token(*units))
    assert applied.status_code == 202
    return applied.json()


def rescale(story: Story, rescale_id: str) -> Any:
    return story.http.get(f"/v1/rescales/{rescale_id}").raise_for_status().json()


def test_a_rescale_is_shown_with_its_phases_and_its_progress(story: Story) -> None:
    applied = begin(story, *story.units)
    assert (applied["phase"], applied["handover"], applied["version"]) == ("rescaling", None, 3)
    shown = rescale(story, applied["id"])
    assert {**applied, "version": 3} == {key: shown[key] for key in applied}
    assert shown["phases"] == {"rescaling": applied["applied_at_ms"]}
    assert shown["versions"] == [{"version": 3, "cause": "rescale", "phases": shown["phases"]}]
    progress = shown["progress"]
    assert progress == {
        **story.progress,
        "subscribers": progress["subscribers"],
        "waiting_for": progress["waiting_for"],
    }
    assert progress["vnodes"] == {"moving": 64, "handed_over": 0}
    (job,) = progress["waiting_for"]
    assert (job["id"], job["lag"], job["waited_for"], job["handed_over"]) == ("job", 1, True, 0)
    story.accept(3)
    story.hear("job", 3)
    shown = rescale(story, applied["id"])
    assert shown["phase"] == "settled"
    assert list(shown["phases"]) == ["rescaling", "accepted", "settled"]
    begin(story, *story.units[:2])
    assert rescale(story, applied["id"])["progress"] is None, "the fragment has gone on"


def test_rescales_come_in_pages_the_last_applied_first(story: Story) -> None:
    story.settle_on(*story.units)
    story.settle_on(*story.units[:2])
    parameters: dict[str, Any] = {"fragment": story.name, "limit": 2}
    first = story.http.get("/v1/rescales", params=parameters).json()
    assert [item["version"] for item in first["items"]] == [4, 3]
    second = story.http.get("/v1/rescales", params={**parameters, "cursor": first["next_cursor"]}).json()
    assert ([item["base_version"] for item in second["items"]], second["next_cursor"]) == ([1], None)
    problem(story.http.get("/v1/rescales", params={"cursor": "abc"}), 422, "bad-cursor")
    problem(story.http.get("/v1/rescales", params={"fragment": "nobodys"}), 404, "fragment-not-found")


def test_a_rescale_that_is_none(story: Story) -> None:
    problem(story.http.get("/v1/rescales/abc"), 404, "rescale-not-found")
    problem(story.http.post("/v1/rescales/abc/abort"), 404, "rescale-not-found")
    unapplied = story.token(*story.units).partition(".")[0]
    problem(story.http.get(f"/v1/rescales/{unapplied}"), 404, "rescale-not-found")


@pytest.mark.parametrize("of_the_fragment", [False, True])
def test_an_abort(story: Story, *, of_the_fragment: bool) -> None:
    applied = begin(story, *story.units)
    path = f"{story.path}/abort" if of_the_fragment else f"/v1/rescales/{applied['id']}/abort"
    aborted = story.http.post(path)
    assert aborted.status_code == 200
    assert (aborted.json()["version"], aborted.json()["phase"]) == (4, "aborted")
    assert [version["cause"] for version in aborted.json()["versions"]] == ["rescale", "abort"]
    assert list(aborted.json()["versions"][0]["phases"]) == ["rescaling", "aborted"]
    assert story.http.post(path).json() == aborted.json()
    assert story.state == (4, "settled")


def test_an_abort_that_comes_too_late_says_what_to_do(story: Story) -> None:
    applied = begin(story, *story.units)
    story.accept(3)
    late = story.http.post(f"/v1/rescales/{applied['id']}/abort")
    problem(late, 409, "already-accepted", f"vnodectl rollback {story.name}")
    story.hear("job", 3)
    problem(story.http.post(f"{story.path}/abort"), 409, "not-in-flight", f"vnodectl rollback {story.name}")


def test_a_rollback_is_a_rescale_like_any_other(story: Story) -> None:
    back = story.http.post(
        f"{story.path}/rollback", json={"to_version": 1, "handover": {"protocol": "ordered"}}
    )
    assert back.status_code == 202
    answer = back.json()
    assert (answer["base_version"], answer["version"], answer["phase"]) == (2, 3, "settled")
    assert answer["handover"] == {"protocol": "ordered", "pacing": None}
    (version,) = rescale(story, answer["id"])["versions"]
    assert version["cause"] == "rollback"
    assert story.http.post(f"{story.path}/rollback", json={}).json()["version"] == 4


def test_a_token_goes_with_one_handover(story: Story) -> None:
    token = story.token(*story.units)
    pacing = {"rounds": "parallel", "parallel": 4, "order": "hottest-first"}
    request = {"token": token, "handover": {"protocol": "icadd", "pacing": pacing}}
    first = story.http.post("/v1/rescales", json=request)
    assert (first.status_code, first.json()["handover"]) == (202, request["handover"])
    assert story.http.post("/v1/rescales", json=request).json() == first.json()
    problem(story.apply(token), 409, "already-applied-otherwise", "plan again")


@told_on_sqlite
@pytest.mark.parametrize(
    "pacing",
    [{"rounds": "parallel"}, {"rounds": "all", "parallel": 3}, {"order": "hottest-last"}, {"rounds": "some"}],
)
def test_pacings_that_are_none(story: Story, pacing: dict[str, Any]) -> None:
    handover = {"protocol": "ordered", "pacing": pacing}
    request = {"token": story.token(*story.units), "handover": handover}
    problem(story.http.post("/v1/rescales", json=request), 422, "invalid-request")


def test_a_token_is_applied_only_on_the_state_that_if_match_names(story: Story) -> None:
    token = story.token(*story.units)

    def apply(version: int) -> Any:
        current = story.http.get(f"{story.path}/current").json()
        tag = f'"{version}-{current["phase"]}-{current["digest"][:16]}"'
        return story.http.post("/v1/rescales", json={"token": token}, headers={"If-Match": tag})

    problem(apply(1), 412, "precondition-failed")
    assert story.state == (2, "settled")
    first = apply(2)
    assert first.status_code == 202
    assert apply(2).json() == first.json(), "the same answer, though the mapping has gone on"


def test_an_applier_tells_which_vnodes_it_has_handed_over(story: Story) -> None:
    begin(story, *story.units)
    version = story.http.get(f"{story.path}/versions/3").json()
    owners = zip(version["previous_owners"], version["owners"], strict=True)
    moving = [vnode for vnode, (before, after) in enumerate(owners) if before != after]
    runs = [[vnode, vnode] for vnode in moving[:10]]
    heard = story.hear("job", 2, handed_over={"version": 3, "vnodes": runs})
    assert heard.status_code == 200
    assert story.progress["vnodes"] == {"moving": 64, "handed_over": 10}
    staying = next(vnode for vnode in range(256) if vnode not in moving)
    for wrong, kind in (
        ([[staying, staying]], "not-moving"),
        ([[9, 8]], "invalid-request"),
        ([[0, 65536]], "invalid-request"),
    ):
        problem(story.hear("job", 2, handed_over={"version": 3, "vnodes": wrong}), 422, kind)
    assert story.progress["vnodes"]["handed_over"] == 10


def test_subscribers_come_in_pages_by_id(story: Story) -> None:
    for name in ("b", "A", "c"):
        story.hear(name, 2)
    path = f"{story.path}/subscribers"
    first = story.http.get(path, params={"limit": 2}).json()
    second = story.http.get(path, params={"limit": 2, "cursor": first["next_cursor"]}).json()
    assert [item["id"] for item in first["items"] + second["items"]] == ["A", "b", "c"]
    assert second["next_cursor"] is None
    assert {(item["lag"], item["waited_for"]) for item in first["items"]} == {(0, False)}
