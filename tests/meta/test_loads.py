"""Loads: what dispatchers report is smoothed, summed, judged and levelled."""

from typing import Any

import httpx
import numpy as np
import pytest

from meta.errors import BadLoads, TooMany
from meta.rescaling.loading import REPORTERS_MAX, Loaded, Loading
from meta.rescaling.loads import FRESH_MS, HALF_LIFE_S
from meta.store.loads import ReportedLoads
from tests.meta.story import Story, problem, told_on_sqlite
from tests.meta.world import World

MINUTE_MS = 60_000


@pytest.fixture
def loading(world: World) -> Loading:
    return Loading(world.database, world.hearing)


def report(loading: Loading, loads: Any, reporter: str = "job", observed_for_ms: int = 1_000) -> None:
    loading.report("flights", reporter, np.asarray(loads, np.float64), observed_for_ms)


def known(loading: Loading) -> list[float]:
    loads = loading.loaded("flights").known.loads
    assert loads is not None
    return [round(load, 6) for load in loads.tolist()]


def test_counts_become_loads_a_second(loading: Loading) -> None:
    report(loading, [300.0] * 256, observed_for_ms=60_000)
    assert known(loading) == [5.0] * 256


def test_what_was_known_a_half_life_ago_counts_half(world: World, loading: Loading) -> None:
    report(loading, [10.0] * 256)
    world.now_ms += int(HALF_LIFE_S * 1_000)
    report(loading, [30.0] * 256)
    assert known(loading) == [20.0] * 256


def test_one_report_sent_twice_counts_once(loading: Loading) -> None:
    report(loading, [10.0] * 256)
    report(loading, [50.0] * 256)
    assert known(loading) == [10.0] * 256


def test_reporters_are_summed_until_they_are_silent_for_ten_minutes(world: World, loading: Loading) -> None:
    report(loading, [1.0] * 256, "a")
    world.now_ms += FRESH_MS - 1
    report(loading, [2.0] * 256, "b")
    assert known(loading) == [3.0] * 256
    world.now_ms += 1
    assert known(loading) == [2.0] * 256
    reporters = loading.loaded("flights").known.reporters
    assert [(one.reporter, one.counts) for one in reporters] == [("a", False), ("b", True)]


def test_a_clock_that_went_back_does_no_harm(world: World, loading: Loading) -> None:
    report(loading, [1.0] * 256)
    world.now_ms -= MINUTE_MS
    report(loading, [5.0] * 256)
    assert known(loading) == [1.0] * 256


def test_there_is_one_load_for_each_vnode(loading: Loading) -> None:
    with pytest.raises(BadLoads, match="these are of 255 vnodes and flights has 256"):
        report(loading, [1.0] * 255)


def test_reporters_are_bounded(loading: Loading) -> None:
    with loading.database.transaction() as tx:
        for number in range(1, REPORTERS_MAX):
            tx.loads.save("flights", ReportedLoads(f"r{number}", np.ones(1), 0))
    report(loading, [1.0] * 256, "one-more")
    with pytest.raises(TooMany, match="at most 256 reporters"):
        report(loading, [1.0] * 256, "too-many")
    report(loading, [1.0] * 256, "r7")


def uneven() -> Any:
    """Unit 1 has the hot vnodes: it bears far more than 1.25 times the mean."""
    loads = np.ones(256)
    loads[:20] = 100.0
    return loads


def keep_reporting(world: World, loading: Loading, loads: Any, minutes: int) -> Loaded:
    for _ in range(minutes):
        world.now_ms += MINUTE_MS
        report(loading, loads)
    return loading.loaded("flights")


def test_a_verdict_waits_for_the_hold_and_the_cool_down_and_then_says_rescale(
    world: World, loading: Loading
) -> None:
    first = keep_reporting(world, loading, uneven(), 1)
    since_ms = world.now_ms
    assert first.verdict is not None
    assert not first.verdict.act
    assert "above the threshold for 0 s" in first.verdict.reason
    held = keep_reporting(world, loading, uneven(), 30)
    assert held.exceeded_since_ms == since_ms
    assert held.verdict is not None
    assert "the cool-down ends in" in held.verdict.reason
    cooled = keep_reporting(world, loading, uneven(), 40)
    assert cooled.verdict is not None
    assert cooled.verdict.act, cooled.verdict.reason
    assert cooled.unevenness is not None
    assert cooled.unevenness.max_over_mean == pytest.approx(max(cooled.unit_loads.values()) * 3 / 2236)


def test_as_soon_as_loads_are_even_again_the_time_begins_anew(world: World, loading: Loading) -> None:
    assert keep_reporting(world, loading, uneven(), 2).exceeded_since_ms is not None
    world.now_ms += 100 * int(HALF_LIFE_S * 1_000)
    assert keep_reporting(world, loading, np.ones(256), 1).exceeded_since_ms is None


def test_loads_of_nothing_are_even(loading: Loading) -> None:
    report(loading, np.zeros(256))
    found = loading.loaded("flights")
    assert found.unevenness is not None
    assert found.unevenness.max_over_mean is None
    assert found.verdict is not None
    assert not found.verdict.act


def put(story: Story, document: dict[str, Any], reporter: str = "job-1") -> httpx.Response:
    return story.http.put(f"{story.path}/loads/{reporter}", json=document)


def test_loads_over_http_in_both_forms(story: Story) -> None:
    nothing = story.http.get(f"{story.path}/loads").json()
    assert (nothing["loads"], nothing["verdict"], nothing["max_over_mean"]) == ([], "unknown", None)
    runs = [[0, 9, 6000.0], [255, 255, 60.0]]
    assert put(story, {"runs": runs, "observed_for_ms": 60_000}).status_code == 204
    whole = put(story, {"loads": [1.0] * 256, "observed_for_ms": 1_000}, "job-2")
    assert whole.status_code == 204
    found = story.http.get(f"{story.path}/loads").json()
    assert found["loads"] == [[0, 9, 101.0], [10, 254, 1.0], [255, 255, 2.0]]
    assert [(one["id"], one["counts"]) for one in found["reporters"]] == [("job-1", True), ("job-2", True)]
    assert [unit["id"] for unit in found["units"]] == story.units[:3]
    assert sum(unit["load"] for unit in found["units"]) == pytest.approx(1010 + 245 + 2)
    assert (found["verdict"], found["version"]) == ("not-now", 2)
    assert found["exceeded_since_ms"] is not None
    planned = story.http.post(f"{story.path}/plans", json={"by_load": True}).raise_for_status().json()
    certificate = planned["certificate"]
    assert certificate["max_load_lower_bound"] <= certificate["max_load"] < certificate["max_load_before"]
    applied = story.apply(planned["token"]).raise_for_status().json()
    assert applied["certificate"] == certificate


def test_a_plan_by_load_without_loads(story: Story) -> None:
    answer = story.http.post(f"{story.path}/plans", json={"by_load": True})
    problem(answer, 409, "no-loads", "let its dispatchers report some")


@told_on_sqlite
@pytest.mark.parametrize(
    ("document", "kind"),
    [
        ({"loads": [1.0] * 255}, "bad-loads"),
        ({"runs": [[0, 256, 1]]}, "bad-loads"),
        ({"runs": [[5, 4, 1]]}, "bad-loads"),
        ({"runs": [[0, 5, 1], [5, 6, 1]]}, "bad-loads"),
        ({"loads": [-1.0] * 256}, "invalid-request"),
        ({"loads": ["x"] * 256}, "invalid-request"),
        ({"loads": [1e19] * 256}, "invalid-request"),
        ({"runs": [[0, 70_000, 1]]}, "invalid-request"),
        ({"runs": [[0, 1]]}, "invalid-request"),
        ({"loads": [1.0] * 256, "runs": []}, "invalid-request"),
        ({}, "invalid-request"),
        ({"loads": [1.0] * 256, "observed_for_ms": 0}, "invalid-request"),
        ({"loads": [1.0] * 65_537}, "invalid-request"),
    ],
)
def test_loads_that_are_refused_in_a_few_words(story: Story, document: dict[str, Any], kind: str) -> None:
    answer = put(story, {"observed_for_ms": 1_000, **document})
    problem(answer, 422, kind)
    assert len(answer.content) < 1_000, "not one line for each vnode"


@told_on_sqlite
def test_loads_that_are_no_numbers_of_json(story: Story) -> None:
    for word in ("NaN", "Infinity", "1e400"):
        body = f'{{"observed_for_ms": 1000, "loads": [{", ".join([word] * 256)}]}}'
        headers = {"content-type": "application/json"}
        answer = story.http.put(f"{story.path}/loads/job", content=body, headers=headers)
        problem(answer, 422, "invalid-request")


def test_reports_are_no_changes_and_leave_nothing_in_the_audit_log(world: World, loading: Loading) -> None:
    before = world.audit()
    report(loading, np.ones(256))
    assert world.audit() == before
