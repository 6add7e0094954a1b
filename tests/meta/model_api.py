"""The API of a history, asked over HTTP and held against the model after each step."""

import asyncio
import hashlib
import json
import shutil
import tempfile
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
)

from meta.api.app import create_app
from meta.api.control import Control
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.reconciliation.retention import Kept
from meta.store.database import Database
from tests.meta.model import (
    KEEP_VERSIONS,
    PLAN_LIFETIME_MS,
    RESCALING,
    FragmentModel,
    Goal,
    Model,
    PlanModel,
    Refused,
    VersionModel,
)
from tests.meta.model_counts import Weights, fewest_moves, is_level, moved, workers_level

if TYPE_CHECKING:
    from tests.meta.conftest import Emptied

BEGAN_MS = 1_700_000_000_000


@dataclass
class Stores:
    """Gives each history a database and an etcd root of its own."""

    etcd: EtcdClient
    template: Path
    emptied: "Emptied | None" = None

    def __post_init__(self) -> None:
        self.numbers = count(1)

    def open(self, open_in: ExitStack) -> tuple[Database, Publisher]:
        number = next(self.numbers)
        if self.emptied:
            self.emptied.empty()
            url = self.emptied.url
        else:
            folder = open_in.enter_context(tempfile.TemporaryDirectory(prefix="model-"))
            url = f"sqlite:///{shutil.copy(self.template, folder)}"
        database = Database(url)
        open_in.callback(database.close)
        return database, Publisher(self.etcd, f"/model-{'p' if self.emptied else 's'}{number}")


class Watched(RuleBasedStateMachine):
    stores: Stores

    def __init__(self) -> None:
        super().__init__()
        self.open_in = ExitStack()
        self.runner = self.open_in.enter_context(asyncio.Runner())
        database, self.publisher = self.stores.open(self.open_in)
        self.model = Model(BEGAN_MS, BEGAN_MS)
        hearing = Hearing(lambda: self.model.now_ms)
        kept = Kept(versions=KEEP_VERSIONS)
        self.control = Control.over(database, self.publisher, hearing, (), kept=kept)
        transport = httpx.ASGITransport(create_app(self.control))
        self.http = httpx.AsyncClient(transport=transport, base_url="http://localhost")
        self.ever_units: set[int] = set()
        self.etags: dict[str, tuple[str, tuple[Any, ...]]] = {}
        self.answers: list[tuple[str, str, str, Any, httpx.Response]] = []
        self.tokens: dict[str, str] = {}
        self.calls = count(1)
        self.steps = 0

    def teardown(self) -> None:
        try:
            if self.model.fragments:
                self.look_at_everything()
        finally:
            self.runner.run(self.http.aclose())
            self.open_in.close()

    # Requests

    def ask(
        self, method: str, path: str, body: Any = None, role: str = "operator", **headers: str
    ) -> httpx.Response:
        if role in self.tokens:
            headers["Authorization"] = f"Bearer {self.tokens[role]}"
        sent = {key.replace("_", "-"): value for key, value in headers.items()}
        return self.runner.run(self.http.request(method, f"/v1{path}", json=body, headers=sent))

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    def change(self, method: str, path: str, body: Any = None, **headers: str) -> httpx.Response:
        """Every third one under an Idempotency-Key, so that it can be sent again."""
        number = next(self.calls)
        if number % 3:
            return self.ask(method, path, body, **headers)
        key = f"key-{number}"
        answer = self.ask(method, path, body, Idempotency_Key=key, **headers)
        self.answers.append((key, method, path, body, answer))
        return answer

    def expect(self, answer: httpx.Response, status: int, kind: str | None = None) -> Any:
        assert answer.status_code == status, (kind, answer.status_code, answer.text)
        if status >= 400 and kind is not None:
            assert answer.json()["type"] == f"/problems/{kind}", answer.text
        return answer.json() if answer.content else None

    def refused(self, answer: httpx.Response, refusal: Refused) -> None:
        self.expect(answer, refusal.status, refusal.kind)

    # What always holds

    @invariant()
    def every_fragment_is_as_predicted(self) -> None:
        self.steps += 1
        self.learn()
        listed = {found["name"]: found for found in self.get("/fragments")["items"]}
        assert listed.keys() == self.model.fragments.keys()
        living = self.model.living()
        for name, fragment in self.model.fragments.items():
            found, current = listed[name], fragment.current
            assert (found["version"], found["phase"]) == (current.number, current.phase)
            assert (found["digest"], found["vnode_count"]) == (current.digest, len(fragment.owners))
            assert found["units"] == sorted(fragment.weights)
            assert found["lost_units"] == sorted(fragment.weights.keys() - living.keys())
            assert found["oldest_version"] == fragment.oldest
            assert (found["table_ids"], found["applier_timeout_ms"]) == (
                fragment.table_ids,
                fragment.applier_timeout_ms,
            )
            fixed = {"fixed": len(fragment.weights)}
            assert found["parallelism"] == ({"adaptive": fragment.adaptive} if fragment.adaptive else fixed)
            wished = self.model.wish(fragment)
            hindered = wished is not None and self.model.hindered(fragment, wished)
            assert (found["not_now"] is not None) == hindered, found["not_now"]
            known = self.etags.get(name)
            if known is None or known[1] != _state(fragment) or self.steps % 5 == 0:
                self.the_etag_is_of_this_state(fragment)

    def the_etag_is_of_this_state(self, fragment: FragmentModel) -> None:
        current, state = fragment.current, _state(fragment)
        before, path = self.etags.get(fragment.name), f"/fragments/{fragment.name}/mapping"
        answer = self.ask("GET", path, None, "operator", **({"If_None_Match": before[0]} if before else {}))
        same = before is not None and before[1] == state
        assert answer.status_code == (304 if same else 200)
        if before is not None:
            assert (answer.headers["etag"] == before[0]) == same
            assert before[1][0] <= current.number, "a version went back"
        if not same:
            assert answer.json()["owners"] == fragment.owners
        self.etags[fragment.name] = (answer.headers["etag"], state)

    @invariant()
    def every_worker_is_as_predicted(self) -> None:
        if self.steps % 4:
            return
        listed = {found["name"]: found for found in self.get("/workers")["items"]}
        assert listed.keys() == self.model.workers.keys()
        for name, worker in self.model.workers.items():
            found = listed[name]
            assert (found["units"], found["draining"]) == (worker.units, worker.draining)
            assert found["alive"] is self.model.alive(worker)
            assert found["fragments"] == self.model.users(worker)
            assert (found["labels"], found["seen_at_ms"]) == (worker.labels, worker.seen_ms)

    def learn(self) -> None:
        """Reads versions that are new, and holds them against what was predicted of them."""
        for fragment in self.model.fragments.values():
            for version in fragment.kept:
                if version.body is None:
                    self._learn(fragment, version)

    def _learn(self, fragment: FragmentModel, version: VersionModel) -> None:
        path = f"/fragments/{fragment.name}/versions/{version.number}"
        found = self.get(path)
        version.body = self.ask("GET", f"{path}/body").content
        version.digest = hashlib.sha256(version.body).hexdigest()
        weights = weights_in(version.body)
        if version.weights is None:
            version.weights = weights
        assert weights == version.weights
        if version.owners is None:
            self._check_choice(fragment, version, found["owners"])
            version.owners = found["owners"]
        assert found["owners"] == version.owners
        if version.cause == "adaptive" and version.plan is None:
            version.plan = found["plan"]
            self._keep_plan(self._own_plan(fragment, version))
        assert (found["cause"], found["plan"], found["moves"]) == (version.cause, version.plan, version.moves)
        assert found["previous_version"] == (version.base.number if version.base else None)
        assert found["previous_owners"] == (version.base.owners if version.base else None)

    def _check_choice(self, fragment: FragmentModel, version: VersionModel, owners: list[int]) -> None:
        assert version.weights is not None
        bearing = {unit: weight for unit, weight in version.weights.items() if weight}
        if version.cause == "superseding":
            before = fragment.versions[version.number - 1].owners
            assert before is not None
            for source, target in zip(before, owners, strict=True):
                assert target == source if source in version.weights else target in bearing
            return
        assert is_level(owners, bearing)
        if version.cause == "created":
            assert len(set(owners)) == 1 + sum(one != other for one, other in pairwise(owners))
        elif version.base and version.base.owners:
            assert moved(version.base.owners, owners) == fewest_moves(version.base.owners, bearing)

    def _own_plan(self, fragment: FragmentModel, version: VersionModel) -> PlanModel:
        made = self.get(f"/plans/{version.plan}")
        assert version.owners is not None
        assert version.weights is not None
        parts = (
            made["id"],
            made["token"],
            fragment.name,
            version.number - 1,
            version.owners,
            version.weights,
        )
        return PlanModel(*parts, "adaptive", made["expires_at_ms"], applied=version.number)

    def etcd_has_what_sql_has(self) -> None:
        root = f"{self.publisher.root}/fragments/"
        found = {each.key.removeprefix(root): each.value for each in self.publisher.etcd.range(root).values}
        for name, fragment in self.model.fragments.items():
            current = json.loads(found.pop(f"{name}/current"))
            assert (current["version"], current["phase"]) == (fragment.current.number, fragment.phase)
            assert current["digest"] == fragment.current.digest
            for key in [key for key in found if key.startswith(f"{name}/")]:
                version = fragment.versions[int(key.rpartition("/")[2])]
                assert found.pop(key) == version.body
                assert version.number >= fragment.oldest
        assert not found

    def look_at_everything(self) -> None:
        """What is too much for each step: all that is kept of every version and every rescale."""
        for name, fragment in self.model.fragments.items():
            for version in fragment.kept:
                assert (
                    self.ask("GET", f"/fragments/{name}/versions/{version.number}/body").content
                    == version.body
                )
            listed = self.get(f"/fragments/{name}/versions?limit=1000")["items"]
            assert [found["version"] for found in listed] == [version.number for version in fragment.kept]
            assert [found["phases"] for found in listed] == [version.phases for version in fragment.kept]
            flying = [found["version"] for found in listed if found["phase"] in (RESCALING, "accepted")]
            assert flying in ([], [fragment.current.number]), "two rescales at once"
            progress = self.get(f"/fragments/{name}/progress")
            assert sorted(each["id"] for each in progress["waiting_for"]) == self.model.waiting_for(fragment)
            assert progress["vnodes"]["moving"] == fragment.current.moves
            self._groups(name, fragment)
            gone = self.ask("GET", f"/fragments/{name}/versions/{fragment.oldest - 1 or 2**31 - 1}")
            assert gone.status_code == 404
        for plan in self.model.plans.values():
            if plan.applied is not None:
                found = self.get(f"/rescales/{plan.id}")
                steps = self.model.steps(plan)
                assert found["phase"] == self.model.rescale_phase(plan)
                assert [step["version"] for step in found["versions"]] == [step.number for step in steps]

    def _groups(self, name: str, fragment: FragmentModel) -> None:
        tasks = self.get(f"/fragments/{name}/groups")["tasks"]
        vnodes = Counter(
            v for task in tasks for first, last in task["vnodes"] for v in range(first, last + 1)
        )
        assert vnodes == Counter(range(len(fragment.owners)))
        located = self.expect(self.ask("POST", f"/fragments/{name}/locate", {"key": ["N14228"]}), 200)
        assert located["unit"] == fragment.owners[located["vnode"]]

    # Plans

    def if_match(self, name: str, data: st.DataObject) -> tuple[bool, dict[str, str]]:
        """Whether it matches, and the header."""
        fragment = self.model.fragments.get(name)
        which = data.draw(
            st.sampled_from(["none", "none", "none", "right", "any", "wrong"]), label="If-Match"
        )
        if which == "none" or fragment is None:
            return True, {}
        # What came before in the same step may have changed it.
        self.learn()
        self.the_etag_is_of_this_state(fragment)
        tag, _ = self.etags[name]
        return which != "wrong", {
            "If_Match": {"right": tag, "any": "*", "wrong": tag.replace('"', '"9')}[which]
        }

    def _planned(self, fragment: FragmentModel, goal: Goal, answer: httpx.Response) -> PlanModel:
        if "to_version" in goal:
            owners, weights = self.model.rolled_back(fragment, goal["to_version"])
            made = self._made(answer, weights)
            self._check_rollback(owners, weights, made["owners"])
        elif "vnode_count" in goal:
            owners, weights = self.model.recounted(fragment, goal["vnode_count"]), fragment.weights
            made = self._made(answer, weights)
            assert made["owners"] == owners
        else:
            bearing, leaving = self.model.levelled(fragment, goal)
            made = self.expect(answer, 201)
            owning = set(made["owners"])
            weights = bearing | {unit: 0.0 for unit in leaving if unit in owning}
            assert made["units"] == sorted(weights)
            self._check_levelled(fragment, goal, made, bearing, leaving)
        certificate = made["certificate"]
        assert certificate["moves"] == moved(fragment.owners, made["owners"])
        assert made["base_version"] == fragment.current.number
        assert made["previous_owners"] == fragment.owners
        recounts = "vnode_count" in goal
        expires_ms = self.model.now_ms + PLAN_LIFETIME_MS
        assert made["expires_at_ms"] == expires_ms
        return PlanModel(
            made["id"],
            made["token"],
            fragment.name,
            made["base_version"],
            made["owners"],
            weights,
            "rollback" if "to_version" in goal else "rescale",
            expires_ms,
            recounts,
        )

    def _made(self, answer: httpx.Response, weights: Weights) -> Any:
        made = self.expect(answer, 201)
        assert made["units"] == sorted(weights)
        return made

    def _check_rollback(self, predicted: list[int] | None, weights: Weights, owners: list[int]) -> None:
        if predicted is None:
            assert is_level(owners, {unit: weight for unit, weight in weights.items() if weight})
        else:
            assert owners == predicted

    def _check_levelled(
        self, fragment: FragmentModel, goal: Goal, made: Any, bearing: Weights, leaving: set[int]
    ) -> None:
        owners, certificate, budget = made["owners"], made["certificate"], goal.get("budget")
        before = fragment.owners
        gone = sum(owner not in bearing and owner not in leaving for owner in before)
        assert certificate["assigned"] == 0
        if budget is None:
            assert set(owners) <= set(bearing)
            assert made["remaining_moves"] == 0
        else:
            assert set(owners) <= {*bearing, *leaving}
            assert certificate["moves"] - gone <= budget
        if goal.get("by_load"):
            return
        spare, level = goal.get("defragment") or 0, goal.get("level", "units")
        assert certificate["gap"] == certificate["moves"] - certificate["lower_bound"]
        assert 0 <= certificate["gap"] <= spare
        fewest = fewest_moves(before, bearing)
        if budget is None:
            assert is_level(owners, bearing)
            if level == "units":
                assert certificate["lower_bound"] == fewest
            else:
                assert certificate["lower_bound"] >= fewest
                living = self.model.living()
                assert workers_level(owners, bearing, {unit: living[unit].name for unit in bearing})
        elif level == "units" and not spare:
            voluntary = fewest - gone
            assert certificate["moves"] == certificate["lower_bound"] == gone + min(budget, voluntary)
            assert made["remaining_moves"] == voluntary - min(budget, voluntary)

    def _keep_plan(self, plan: PlanModel) -> None:
        self.model.plans[plan.token] = plan


def _state(fragment: FragmentModel) -> tuple[Any, ...]:
    return fragment.current.number, fragment.phase, fragment.current.digest


def weights_in(body: bytes) -> Weights:
    units: dict[str, list[tuple[int, float]]] = json.loads(body)["units"]
    return {unit: weight for members in units.values() for unit, weight in members}
