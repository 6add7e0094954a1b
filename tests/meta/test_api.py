"""Stories over HTTP, on the run's common service."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import httpx
import pytest
import stamina

from deploy.process import ServiceProcess
from meta.api.problems import STATUS
from meta.errors import MetaError
from meta.etcd.client import EtcdClient
from meta.mapping.publication import Current, Phase, current_key, decode_body, digest, version_key

JSON = {"content-type": "application/json"}


@dataclass
class Story:
    """One worker with four units and one fragment that nobody else uses, both called `name`."""

    http: httpx.Client
    name: str
    units: list[int] = field(default_factory=list)

    @property
    def path(self) -> str:
        return f"/v1/fragments/{self.name}"

    def begin(self, **more: Any) -> None:
        self.units = self.http.put(f"/v1/workers/{self.name}", json={"parallelism": 4}).json()["units"]
        assert self.create(**more).status_code == 201
        self.settle_on(*self.units[:3])

    def create(self, **more: Any) -> httpx.Response:
        key = [{"name": "tailnum", "type": "string"}]
        request = {"name": self.name, "distribution_key": key, "parallelism": 3, **more}
        return self.http.post("/v1/fragments", json=request)

    def plan(self, *units: int) -> httpx.Response:
        return self.http.post(f"{self.path}/plans", json={"units": list(units)})

    def token(self, *units: int) -> str:
        return str(self.plan(*units).raise_for_status().json()["token"])

    def apply(self, token: str) -> httpx.Response:
        return self.http.post("/v1/rescales", json={"token": token})

    def settle_on(self, *units: int) -> None:
        assert self.apply(self.token(*units)).status_code == 202

    def hear(self, subscriber: str, version: int | None, **more: Any) -> httpx.Response:
        body = {"name": subscriber, "role": "applier", "acknowledged_version": version, **more}
        return self.http.put(f"{self.path}/subscribers/{subscriber}", json=body)

    def accept(self, version: int) -> httpx.Response:
        return self.http.post(f"{self.path}/versions/{version}/acceptance")

    @property
    def state(self) -> tuple[int, str]:
        found = self.http.get(self.path).json()
        return found["version"], found["phase"]

    @property
    def progress(self) -> Any:
        return self.http.get(f"{self.path}/progress").json()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[ServiceProcess]:
    """The service that the stories are told to, on either database."""
    if request.param == "sqlite":
        yield request.getfixturevalue("shared_service")
        return
    postgres, template = request.getfixturevalue("postgres"), request.getfixturevalue("upgraded")
    with (
        postgres.database("stories", template) as url,
        ServiceProcess(tmp_path_factory.mktemp("stories"), database=url) as running,
    ):
        yield running


@pytest.fixture(scope="module")
def http(told: ServiceProcess) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=told.url) as client:
        # A new fragment begins on these (the smallest names), so a story's own units always make a version 2.
        for first in ("a1", "a2", "a3"):
            client.put(f"/v1/workers/{first}", json={"parallelism": 1})
        yield client


@pytest.fixture
def story(http: httpx.Client, name: str) -> Story:
    told = Story(http, name)
    told.begin()
    return told


def problem(response: httpx.Response, status: int, kind: str, *words: str) -> Any:
    """Asserts an RFC 9457 problem whose detail has these words in it."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    found = response.json()
    assert (response.status_code, found["status"]) == (status, status), found
    assert found["type"] == f"/problems/{kind}"
    assert found["title"] == kind.replace("-", " ")
    for word in words:
        assert word in found["detail"]
    return found


def test_a_worker_registers_again_and_again_and_keeps_its_units(http: httpx.Client, name: str) -> None:
    first = http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    again = http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    assert (first.status_code, again.status_code) == (201, 200)
    assert len(set(first.json()["units"])) == 3
    assert again.json()["units"] == first.json()["units"]
    assert again.json()["alive"]
    assert http.post(f"/v1/workers/{name}/heartbeat").status_code == 204
    assert [worker["units"] for worker in http.get("/v1/workers").json() if worker["name"] == name] == [
        first.json()["units"]
    ]


def test_a_worker_cannot_change_its_number_of_units(http: httpx.Client, name: str) -> None:
    http.put(f"/v1/workers/{name}", json={"parallelism": 3})
    found = problem(
        http.put(f"/v1/workers/{name}", json={"parallelism": 4}),
        409,
        "worker-differs",
        name,
        "another worker",
    )
    assert (found["worker"], found["parallelism"]) == (name, 3)


def test_an_unknown_worker_cannot_beat(http: httpx.Client) -> None:
    problem(http.post("/v1/workers/nobody/heartbeat"), 404, "worker-not-found", "vnodectl worker add nobody")


@pytest.mark.parametrize("name", ["", "UPPER", "a b", "-a", "a/b", "a" * 64, "ä", "a\n", "..", "%00"])
def test_names_that_are_no_step_of_a_key(http: httpx.Client, name: str) -> None:
    request = {"name": name, "distribution_key": [{"name": "k", "type": "bigint"}], "parallelism": 1}
    problem(http.post("/v1/fragments", json=request), 422, "invalid-request", "name: ")


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
        ({"applier_timeout_ms": 99}, "applier_timeout_ms"),
        ({"vnodes": 256}, "vnodes"),
    ],
    ids=str,
)
def test_requests_that_are_malformed_are_told_by_field(
    http: httpx.Client, name: str, change: dict[str, Any], field_name: str
) -> None:
    found = problem(Story(http, name).create(**change), 422, "invalid-request", f"{field_name}: ")
    assert [error["field"] for error in found["errors"]] == [field_name]
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
    assert created.json() in http.get("/v1/fragments").json()
    (first,) = http.get(f"/v1/fragments/{name}/versions").json()
    assert sorted(unit["vnodes"] for unit in first["units"]) == [85, 85, 86]
    assert len([v for v in range(255) if first["owners"][v] != first["owners"][v + 1]]) == 2
    problem(Story(http, name).create(), 409, "fragment-exists", name)


def test_with_no_appliers_an_applied_plan_settles_at_once(story: Story) -> None:
    plan = story.plan(*story.units).json()
    assert plan["certificate"]["moves"] == plan["certificate"]["lower_bound"] == len(plan["moves"]) == 64
    assert plan["certificate"]["gap"] == 0
    applied = story.apply(plan["token"])
    assert applied.status_code == 202
    assert applied.json() == {
        "token": plan["token"],
        "fragment": story.name,
        "base_version": 2,
        "version": 3,
        "changed": True,
        "certificate": plan["certificate"],
    }
    assert story.state == (3, "settled")
    newest = story.http.get(f"{story.path}/versions").json()[-1]
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
    newest = story.http.get(f"{story.path}/versions").json()[-1]
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
    listed = {found["name"]: found for found in story.http.get(f"{story.path}/subscribers").json()}
    assert listed.keys() == {"job", "scan"}
    assert listed["job"].keys() == {"id", "name", "role", "acknowledged_version", "seen_at_ms"}
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
    assert story.progress == {
        "fragment": story.name,
        "version": 3,
        "phase": "settled",
        "acknowledged": 1,
        "waiting_for": [],
    }
    assert story.accept(3).json() == {"version": 3, "phase": "settled"}
    newest = story.http.get(f"{story.path}/versions").json()[-1]
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
    assert [found["id"] for found in story.http.get(f"{story.path}/subscribers").json()] == ["other"]


def test_a_silent_applier_counts_as_stopped_after_its_timeout(http: httpx.Client, name: str) -> None:
    story = Story(http, name)
    story.begin(applier_timeout_ms=300)
    story.hear("killed", 2)
    story.apply(story.token(*story.units))
    assert story.state == (3, "rescaling")
    wait_for(lambda: story.state == (3, "settled"))


def test_a_subscriber_ahead_of_the_database_is_registered_and_told_what_is_current(story: Story) -> None:
    heard = story.hear("job", 3).raise_for_status().json()
    assert (heard["acknowledged_version"], heard["current_version"]) == (None, 2)
    assert [found["id"] for found in story.http.get(f"{story.path}/subscribers").json()] == ["job"]


def test_one_version_is_the_same_alone_as_among_all(story: Story) -> None:
    story.settle_on(*story.units)
    for version in story.http.get(f"{story.path}/versions").json():
        assert story.http.get(f"{story.path}/versions/{version['version']}").json() == version
    problem(story.http.get(f"{story.path}/versions/4"), 404, "version-not-found", "1 to 3")


def test_a_fragment_that_etcd_has_of_somebody_else_is_refused_with_what_to_do(
    http: httpx.Client, name: str
) -> None:
    coordination = http.get("/v1/coordination").json()["etcd"]
    foreign = Current(1, Phase.SETTLED, digest(b"of another database"))
    with EtcdClient(coordination["endpoints"]) as etcd:
        etcd.put(current_key(name, coordination["root"]), foreign.encode())
    refused = Story(http, name).create()
    problem(refused, 409, "fragment-published-elsewhere", "Restore the database", "choose another name")
    problem(http.get(f"/v1/fragments/{name}"), 404, "fragment-not-found")


def test_every_error_has_a_status() -> None:
    assert set(MetaError.__subclasses__()) == set(STATUS)


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


def test_a_plan_whose_worker_died_meanwhile_is_refused(story: Story) -> None:
    mortal = f"{story.name}-mortal"
    registered = story.http.put(
        f"/v1/workers/{mortal}", json={"parallelism": 2, "heartbeat_timeout_ms": 400}
    ).json()
    token = story.token(*story.units[:3], *registered["units"])

    def dead() -> bool:
        workers = story.http.get("/v1/workers").json()
        return not next(worker["alive"] for worker in workers if worker["name"] == mortal)

    wait_for(dead)
    for refused in (story.apply(token), story.plan(*registered["units"])):
        found = problem(refused, 409, "units-not-alive", "vnodectl worker list")
        assert found["units"] == registered["units"]
    assert story.state == (2, "settled")
    revived = story.http.put(f"/v1/workers/{mortal}", json={"parallelism": 2, "heartbeat_timeout_ms": 60_000})
    assert (revived.json()["alive"], revived.json()["heartbeat_timeout_ms"]) == (True, 60_000)
    assert story.apply(token).json()["version"] == 3


@pytest.mark.parametrize(
    "goal",
    [
        {},
        {"parallelism": 2, "units": [1]},
        {"units": []},
        {"units": [-1]},
        {"units": ["1"]},
        {"parallelism": 1.0},
    ],
)
def test_goals_that_are_none(story: Story, goal: dict[str, Any]) -> None:
    problem(story.http.post(f"{story.path}/plans", json=goal), 422, "invalid-request")


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


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", ""),
        ("GET", "/progress"),
        ("GET", "/current"),
        ("GET", "/versions"),
        ("GET", "/versions/1"),
        ("GET", "/versions/1/body"),
        ("GET", "/subscribers"),
        ("DELETE", "/subscribers/s"),
        ("POST", "/versions/1/acceptance"),
    ],
)
def test_an_unknown_fragment(http: httpx.Client, method: str, path: str) -> None:
    found = problem(
        http.request(method, f"/v1/fragments/nowhere{path}"),
        404,
        "fragment-not-found",
        "vnodectl fragment list",
    )
    assert found["fragment"] == "nowhere"


def test_an_unknown_fragment_cannot_be_planned_or_subscribed_to(http: httpx.Client) -> None:
    nowhere = Story(http, "nowhere")
    problem(nowhere.plan(1), 404, "fragment-not-found")
    problem(nowhere.hear("job", None), 404, "fragment-not-found")


def test_paths_and_methods_that_do_not_exist(http: httpx.Client) -> None:
    problem(http.get("/v1/nothing"), 404, "not-found", "/v1/nothing", "/openapi.json")
    refused = http.delete("/v1/fragments")
    problem(refused, 405, "method-not-allowed", "DELETE")
    assert refused.headers["allow"]


@pytest.mark.parametrize(
    ("body", "status", "kind"),
    [
        (b'{"name": ', 422, "invalid-request"),
        (b"", 422, "invalid-request"),
        (b"[]", 422, "invalid-request"),
        (b"\xff\xfe{", 400, "bad-request"),
        (b"[" * 100_000, 400, "bad-request"),
        (b'{"name": "\\ud800"}', 422, "invalid-request"),
    ],
    ids=["cut", "empty", "no-object", "no-utf8", "deep", "surrogate"],
)
def test_bytes_that_are_no_request(http: httpx.Client, body: bytes, status: int, kind: str) -> None:
    problem(http.post("/v1/fragments", content=body, headers=JSON), status, kind)


def test_a_cut_document_is_told_where(http: httpx.Client) -> None:
    refused = http.post("/v1/fragments", content=b'{"name": oops', headers=JSON)
    problem(refused, 422, "invalid-request", "the request: it is no JSON, from character 9 on")


def test_a_text_has_no_nul_whatever_the_database_thinks_of_it(story: Story) -> None:
    problem(story.apply("\0" * 8), 422, "invalid-request", "token: ")
    problem(story.hear("job", None, name="a\0b"), 422, "invalid-request", "name: ")
    column = [{"name": "tail\0num", "type": "string"}]
    problem(story.create(name=f"{story.name}-b", distribution_key=column), 422, "invalid-request", "name: ")
    assert story.hear("job", None, name="a\nb \N{PILE OF POO}").json()["name"] == "a\nb \N{PILE OF POO}"


def test_a_key_whose_hash_id_the_database_cannot_hold_is_refused(story: Story) -> None:
    def key(columns: int) -> list[dict[str, str]]:
        return [{"name": f"c{column}", "type": "decimal(38,18)"} for column in range(columns)]

    assert story.create(name=f"{story.name}-24", distribution_key=key(24)).status_code == 201
    refused = story.create(name=f"{story.name}-25", distribution_key=key(25))
    problem(refused, 422, "bad-fragment", "distribution_key", "name fewer")


def test_the_api_describes_itself(http: httpx.Client) -> None:
    described = http.get("/openapi.json").json()
    assert "/v1/rescales" in described["paths"]
    assert http.get("/v1/health").json() == {"status": "ok"}


class NotYet(Exception):
    pass


def wait_for(condition: Any) -> None:
    for attempt in stamina.retry_context(
        on=NotYet, attempts=None, timeout=15, wait_initial=0.05, wait_max=0.1
    ):
        with attempt:
            if not condition():
                raise NotYet
