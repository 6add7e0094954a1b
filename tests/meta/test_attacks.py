"""What an attacker or a careless operator sends, each found once by trying."""

import time

import httpx
import pytest

from meta.api.paging import cursor_of
from meta.api.plans import PLANS_AT_ONCE
from meta.api.problems import FINDINGS_SHOWN
from meta.hearing import GAP_MS, Hearing
from meta.lifecycle import Moment, Worker
from meta.mapping.plan import first_mapping
from meta.mapping.publication import MappingVersion, Phase
from meta.rescaling.proposal import Fleet, rolled_back
from meta.store.database import Database
from tests.meta.story import Story, problem, told_on_sqlite
from tests.meta.world import World

MANY = b",".join(b'"a%d":1' % number for number in range(200_000))
MANY_BODIES = {
    "fields": b"{" + MANY + b"}",
    "labels": b'{"parallelism":1,"labels":{' + MANY + b"}}",
    "weights": b'{"parallelism":1,"weights":{' + MANY + b"}}",
}


@told_on_sqlite
@pytest.mark.parametrize("body", MANY_BODIES.values(), ids=list(MANY_BODIES))
def test_a_body_with_everything_wrong_has_a_short_answer_soon(
    body: bytes, http: httpx.Client, story: Story
) -> None:
    began_s = time.monotonic()
    answer = http.post(f"/v1/fragments/{story.name}/plans", content=body)
    assert answer.status_code == 422
    assert answer.json()["type"] == "/problems/invalid-request"
    assert len(answer.content) < 10_000
    # It took half a minute, in which nobody else was answered.
    assert time.monotonic() - began_s < 5


@told_on_sqlite
def test_of_many_findings_the_first_are_told(http: httpx.Client) -> None:
    columns = [{"name": "k"}] * (FINDINGS_SHOWN + 10)
    answer = http.post("/v1/fragments", json={"name": "f", "distribution_key": columns, "parallelism": 1})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == FINDINGS_SHOWN


@told_on_sqlite
def test_of_a_report_of_handed_over_vnodes_the_first_wrong_one_is_told(
    http: httpx.Client, story: Story
) -> None:
    body = {"name": "n", "role": "reader", "handed_over": {"version": 1, "vnodes": [[-1, -1]] * 65_536}}
    answer = http.put(f"/v1/fragments/{story.name}/subscribers/s", json=body)
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) <= 2


@pytest.mark.parametrize("number", [2**31 - 1, 2**31, 2**63 - 1])
def test_a_cursor_beyond_all_versions_is_no_fault_of_ours(
    number: int, http: httpx.Client, story: Story
) -> None:
    answer = http.get(f"/v1/fragments/{story.name}/versions", params={"cursor": cursor_of(number)})
    if number < 2**31:
        assert answer.json() == {"items": [], "next_cursor": None}
    else:
        assert answer.json()["type"] == "/problems/bad-cursor"


@told_on_sqlite
def test_nobody_is_redirected_to_what_the_host_header_says(http: httpx.Client) -> None:
    assert http.get("/v1/workers/").status_code == 404


@told_on_sqlite
@pytest.mark.parametrize(
    "host", ["elsewhere.example", "elsewhere.example:7070", "10.0.0.1", "[::2]:1", "localhost.example"]
)
def test_a_page_under_a_name_that_was_bent_to_this_machine_is_refused(host: str, http: httpx.Client) -> None:
    answer = http.get("/v1/workers", headers={"Host": host})
    assert (answer.status_code, answer.json()["type"]) == (403, "/problems/page-without-token")


@told_on_sqlite
@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST:80", "127.0.0.1:1", "127.1.2.3", "[::1]", "[::1]:7070"]
)
def test_this_machine_has_several_names(host: str, http: httpx.Client) -> None:
    assert http.get("/v1/workers", headers={"Host": host}).status_code == 200


def test_a_list_of_plans_is_never_of_a_thousand_mappings(http: httpx.Client, story: Story) -> None:
    where = f"/v1/fragments/{story.name}/plans"
    made = [http.post(where, json={"parallelism": 1}).json()["id"] for _ in range(PLANS_AT_ONCE + 2)]
    first = http.get(where, params={"limit": 1000}).json()
    second = http.get(where, params={"limit": 1000, "cursor": first["next_cursor"]}).json()
    assert len(first["items"]) == PLANS_AT_ONCE
    assert {plan["id"] for plan in first["items"] + second["items"]} >= set(made)


def test_a_rollback_of_thousands_of_units_takes_no_longer_than_other_plans() -> None:
    worker = Worker("w", tuple(range(1, 4_097)), None, 0, 0)
    mapping = first_mapping(65_536, worker.units)
    version = MappingVersion("f", 1, "xxh64-1:utf8", worker.units, mapping, None)
    began_s = time.process_time()
    assert rolled_back(version, version, Fleet([worker], Moment(1, 0))).certificate.moves == 0
    # It took ten.
    assert time.process_time() - began_s < 3


def test_a_clock_set_back_makes_nobody_immortal() -> None:
    now_ms = 10**12
    hearing = Hearing(lambda: now_ms)
    hearing.now()
    now_ms -= 24 * 3600 * 1000
    hearing.now()
    worker = Worker("w", (1,), heartbeat_timeout_ms=30_000, registered_at_ms=now_ms, seen_at_ms=now_ms)
    for _ in range(30_000 // GAP_MS):
        assert worker.alive(hearing.now())
        now_ms += GAP_MS
    assert not worker.alive(hearing.now())


def test_phases_are_in_order_though_who_waited_read_the_clock_before(
    world: World, database: Database
) -> None:
    world.now_ms += 100
    world.hear("job", 1)
    version = world.apply(1, 2, 3, 4).applied_version
    began_ms = world.now_ms
    with database.transaction() as tx:
        accepted = began_ms + 50, Phase.RESCALING, Phase.ACCEPTED
        settled = began_ms + 20, Phase.ACCEPTED, Phase.SETTLED
        for at_ms, source, target in (accepted, settled):
            assert tx.fragments.change_phase("flights", version, source, target, now_ms=at_ms)
    phases = world.history.versions("flights")[version - 1].phases
    assert [change.at_ms - began_ms for change in phases] == [0, 50, 50]


@told_on_sqlite
@pytest.mark.parametrize(
    "text", ["\x1b]0;owned\x07", "over\rwritten", "\x9b2J"], ids=["osc", "return", "csi"]
)
def test_no_name_controls_the_terminal_of_who_lists_it(text: str, http: httpx.Client, story: Story) -> None:
    heard = http.put(f"{story.path}/subscribers/s", json={"name": text, "role": "reader"})
    problem(heard, 422, "invalid-request", "name")
    created = story.create(name="other", distribution_key=[{"name": text, "type": "string"}])
    problem(created, 422, "invalid-request", "distribution_key.0.name")
