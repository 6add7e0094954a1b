"""Random histories of the API beside a model of it, `tests.meta.model`, over real databases and a real etcd.

The model says beforehand what each request is answered (status, and the kind of a problem), which version and phase
each fragment has then, who is waited for, what is alive, in use, too young or in doubt, and counts a plan's fewest
moves anew. It does not say: which vnodes a plan moves, the owners of a plan by load or of a superseding version beyond
who may have them, the fewest moves of level "workers" and the exchanges of `defragment` (bounds only), texts, the
figures of summaries and of loads, the order of pages; nor what happens with etcd or the database away.
"""

from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    initialize,
    rule,
    run_state_machine_as_test,
)

from meta.etcd.client import EtcdClient
from tests.meta.model import (
    ABORTED,
    DAY_MS,
    PLAN_LIFETIME_MS,
    SETTLED,
    FragmentModel,
    PlanModel,
    Refused,
    SubscriberModel,
    VersionModel,
    WorkerModel,
)
from tests.meta.model_api import Stores, Watched
from tests.meta.model_goals import (
    FRAGMENTS,
    HANDOVERS,
    LABELS,
    OTHERS_STEPS,
    POLICIES,
    RESCALING_STEPS,
    SUBSCRIBERS,
    WORKER_TIMEOUTS,
    WORKERS,
    WORLDS_STEPS,
    drawn,
    goals,
)


class Api(Watched):
    # Beginning

    @initialize(data=st.data(), guarded=st.booleans())
    def begin(self, data: st.DataObject, guarded: bool) -> None:
        if guarded:
            for role in ("admin", "operator", "reader"):
                answer = self.ask("POST", "/tokens", {"name": role, "role": role}, "admin")
                self.tokens[role] = self.expect(answer, 201)["token"]
        self._register("w1", 2, {}, None)
        self._register("w2", 2, {"zone": "a"}, data.draw(WORKER_TIMEOUTS))
        if data.draw(st.booleans()):
            self._create("f2", 12, data.draw(POLICIES))
        self._create(
            "f1", data.draw(st.sampled_from([5, 12, 16])), data.draw(st.one_of(st.integers(1, 4), POLICIES))
        )

    # Steps

    @rule(data=st.data())
    def rescale(self, data: st.DataObject) -> None:
        self._step(RESCALING_STEPS, data)

    @rule(data=st.data())
    def change_the_world(self, data: st.DataObject) -> None:
        self._step(WORLDS_STEPS, data)

    @rule(data=st.data())
    def somebody_says_something(self, data: st.DataObject) -> None:
        self._step(OTHERS_STEPS, data)

    def _step(self, steps: tuple[str, ...], data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(steps), label="step")
        step = getattr(self, name)
        given: dict[str, Any] = {}
        for argument, strategy in step.drawn.items():
            if argument == "data":
                given["data"] = data
            else:
                known = [*self.model.fragments] * 4 if strategy is FRAGMENTS else []
                chosen = st.one_of(st.sampled_from(known), strategy) if known else strategy
                given[argument] = data.draw(chosen, label=argument)
        step(**given)

    # Workers

    @drawn(name=WORKERS, units=st.sampled_from([2, 2, 2, 1]), labels=LABELS, timeout_ms=WORKER_TIMEOUTS)
    def register(self, name: str, units: int, labels: dict[str, str], timeout_ms: int | None) -> None:
        self._register(name, units, labels, timeout_ms)

    def _register(self, name: str, units: int, labels: dict[str, str], timeout_ms: int | None) -> None:
        body = {"parallelism": units, "labels": labels, "heartbeat_timeout_ms": timeout_ms}
        answer = self.change("PUT", f"/workers/{name}", body)
        known = self.model.workers.get(name)
        if known is None:
            found = self.expect(answer, 201)["units"]
            assert len(found) == units
            assert not self.ever_units & set(found), "a unit id came back"
            self.ever_units |= set(found)
            self.model.workers[name] = WorkerModel(name, found, timeout_ms, self.model.now_ms, labels)
        elif units < len(known.units):
            self.expect(answer, 409, "worker-differs")
        else:
            found, had = self.expect(answer, 200)["units"], len(known.units)
            assert (found[:had], len(found)) == (known.units, units)
            assert not self.ever_units & set(found[had:]), "a unit id came back"
            self.ever_units |= set(found)
            known.units = found
            known.timeout_ms, known.labels, known.seen_ms = timeout_ms, labels, self.model.now_ms

    @drawn(name=WORKERS)
    def beat(self, name: str) -> None:
        answer = self.change("POST", f"/workers/{name}/heartbeat")
        if name not in self.model.workers:
            self.expect(answer, 404, "worker-not-found")
            return
        self.expect(answer, 204)
        self.model.workers[name].seen_ms = self.model.now_ms

    @drawn(name=WORKERS, method=st.sampled_from(["POST", "POST", "DELETE"]))
    def drain(self, name: str, method: str) -> None:
        answer = self.change(method, f"/workers/{name}/drain")
        if name not in self.model.workers:
            self.expect(answer, 404, "worker-not-found")
            return
        self.model.workers[name].draining = method == "POST"
        assert self.expect(answer, 200)["draining"] is (method == "POST")

    @drawn(name=WORKERS)
    def remove(self, name: str) -> None:
        answer = self.change("DELETE", f"/workers/{name}")
        worker = self.model.workers.get(name)
        if worker is None:
            self.expect(answer, 404, "worker-not-found")
        elif users := self.model.users(worker):
            assert self.expect(answer, 409, "worker-in-use")["fragments"] == users
        else:
            self.expect(answer, 204)
            del self.model.workers[name]

    # Time

    @drawn(span_ms=st.integers(1, 4_999))
    def a_moment_passes(self, span_ms: int) -> None:
        self.model.now_ms += span_ms
        self.control.hearing.now()

    @drawn(rounds=st.integers(1, 5))
    def time_passes(self, rounds: int) -> None:
        for _ in range(rounds):
            self.model.now_ms += 5_000
            self.reconcile()

    @drawn(span_ms=st.sampled_from([6_000, 30_000, 16 * 60_000, DAY_MS + 3_600_000]))
    def the_process_stands_still(self, span_ms: int) -> None:
        self.model.now_ms += span_ms
        self.model.silence_from_ms = self.model.now_ms
        self.control.hearing.now()
        if span_ms > DAY_MS:
            self.answers.clear()
        self.reconcile()

    @drawn()
    def reconcile(self) -> None:
        self.control.reconciling.run()
        self.model.reconcile()
        self.learn()
        self.etcd_has_what_sql_has()

    @drawn()
    def forget(self) -> None:
        self.control.retention.run()
        self.model.retain()

    # Fragments

    @drawn(
        name=FRAGMENTS,
        vnode_count=st.sampled_from([3, 12, 16]),
        parallelism=st.one_of(st.integers(1, 5), POLICIES),
    )
    def create(self, name: str, vnode_count: int, parallelism: Any) -> None:
        self._create(name, vnode_count, parallelism)

    def _create(self, name: str, vnode_count: int, parallelism: Any) -> None:
        body = {
            "name": name,
            "distribution_key": [{"name": "tailnum", "type": "string"}],
            "parallelism": parallelism,
            "vnode_count": vnode_count,
            "applier_timeout_ms": 30_000,
            "table_ids": [7],
        }
        answer = self.change("POST", "/fragments", body)
        if name in self.model.fragments:
            self.expect(answer, 409, "fragment-exists")
            return
        try:
            units = self.model.first_units(vnode_count, parallelism)
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        self.expect(answer, 201)
        now_ms = self.model.now_ms
        first = VersionModel(
            1, None, dict.fromkeys(units, 1.0), "created", None, None, now_ms, {SETTLED: now_ms}
        )
        policy = parallelism["adaptive"] if isinstance(parallelism, dict) else None
        self.model.fragments[name] = FragmentModel(name, 30_000, policy, [7], {1: first})

    @drawn(
        name=FRAGMENTS,
        parallelism=st.one_of(st.none(), st.just("fixed"), POLICIES),
        timeout_ms=st.sampled_from([None, 9_000, 15_000]),
        table_ids=st.sampled_from([None, [], [7, 8]]),
    )
    def patch(self, name: str, parallelism: Any, timeout_ms: int | None, table_ids: list[int] | None) -> None:
        body = {"parallelism": parallelism, "applier_timeout_ms": timeout_ms, "table_ids": table_ids}
        answer = self.change("PATCH", f"/fragments/{name}", body)
        try:
            fragment = self.model.require(name)
            policy = parallelism["adaptive"] if isinstance(parallelism, dict) else None
            wanted = fragment.adaptive if parallelism is None else policy
            if wanted:
                self.model.require_policy(wanted, len(fragment.owners))
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        self.expect(answer, 200)
        fragment.adaptive = wanted
        fragment.applier_timeout_ms = timeout_ms or fragment.applier_timeout_ms
        fragment.table_ids = fragment.table_ids if table_ids is None else table_ids

    # Plans

    @drawn(name=FRAGMENTS, data=st.data())
    def plan(self, name: str, data: st.DataObject) -> None:
        goal = data.draw(goals(self.model, name))
        matches, headers = self.if_match(name, data)
        answer = self.change("POST", f"/fragments/{name}/plans", goal, **headers)
        try:
            fragment = self.model.require(name)
            if not matches:
                raise Refused(412, "precondition-failed")
            found = self._planned(fragment, goal, answer)
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        self._keep_plan(found)

    # Rescales

    @drawn(data=st.data(), handover=HANDOVERS)
    def apply(self, data: st.DataObject, handover: dict[str, Any] | None) -> None:
        tokens = [*self.model.plans][-4:]
        token = data.draw(st.sampled_from([*tokens, *tokens[-1:], "cafe.cafe"]))
        plan = self.model.plans.get(token)
        matches, headers = self.if_match(plan.fragment, data) if plan else (True, {})
        answer = self.change("POST", "/rescales", {"token": token, "handover": handover}, **headers)
        self._applied(token, handover, answer, matches=matches)

    def _applied(self, token: str, handover: Any, answer: httpx.Response, *, matches: bool = True) -> None:
        try:
            plan = self.model.apply(token, handover, matches=matches)
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        found = self.expect(answer, 202)
        assert (found["id"], found["token"], found["fragment"]) == (plan.id, token, plan.fragment)
        assert (found["base_version"], found["version"]) == (plan.base, plan.applied)
        assert found["changed"] is (plan.base != plan.applied)
        assert found["phase"] == self.model.rescale_phase(plan)

    @drawn(name=FRAGMENTS, data=st.data())
    def plan_and_apply(self, name: str, data: st.DataObject) -> None:
        self.plan(name, data)
        plan = [*self.model.plans.values()][-1:]
        if plan and plan[0].applied is None:
            answer = self.change("POST", "/rescales", {"token": plan[0].token})
            self._applied(plan[0].token, None, answer)

    @drawn(name=FRAGMENTS, subscriber=SUBSCRIBERS, data=st.data())
    def rescale_under_an_applier(self, name: str, subscriber: str, data: st.DataObject) -> None:
        self.hear(name, subscriber, "applier", 0, data)
        self.plan_and_apply(name, data)
        then = data.draw(st.sampled_from([None, self.abort_current, self.accept_current]), label="then")
        if then is not None:
            then(name)

    @drawn(name=FRAGMENTS, back=st.one_of(st.none(), st.integers(0, 3)), handover=HANDOVERS)
    def roll_back(self, name: str, back: int | None, handover: dict[str, Any] | None) -> None:
        known = self.model.fragments.get(name)
        to = None if back is None else max(1, (known.current.number if known else 1) - back)
        answer = self.change("POST", f"/fragments/{name}/rollback", {"to_version": to, "handover": handover})
        try:
            fragment = self.model.require(name)
            number = self.model.settled_before(fragment) if to is None else to
            owners, weights = self.model.rolled_back(fragment, number)
            if fragment.phase != SETTLED:
                raise Refused(409, "rescale-in-flight")
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        found = self.expect(answer, 202)
        made = self.get(f"/plans/{found['id']}")
        assert made["cause"] == "rollback"
        assert made["goal"] == {"to_version": number}
        self._check_rollback(owners, weights, made["owners"])
        expires_ms = self.model.now_ms + PLAN_LIFETIME_MS
        parts = (found["id"], found["token"], name, fragment.current.number)
        self._keep_plan(PlanModel(*parts, made["owners"], weights, "rollback", expires_ms))
        self._applied(found["token"], handover, answer)

    def accept_current(self, name: str) -> None:
        self.accept(name, 0)

    @drawn(name=FRAGMENTS, ahead=st.sampled_from([0, 0, 0, 1, -1]))
    def accept(self, name: str, ahead: int) -> None:
        fragment = self.model.fragments.get(name)
        number = max(1, fragment.current.number + ahead) if fragment else 1
        answer = self.change("POST", f"/fragments/{name}/versions/{number}/acceptance")
        try:
            fragment = self.model.require(name)
            self.model.accept(fragment, number)
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        assert self.expect(answer, 200) == {"version": number, "phase": fragment.phase}

    @drawn(name=FRAGMENTS)
    def abort_current(self, name: str) -> None:
        answer = self.change("POST", f"/fragments/{name}/abort")
        try:
            plan = self.model.abort_current(self.model.require(name))
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        self._aborted(answer, plan)

    @drawn(data=st.data())
    def abort(self, data: st.DataObject) -> None:
        ids = [plan.id for plan in self.model.plans.values()][-4:]
        plan_id = data.draw(st.sampled_from([*ids, "cafe"]))
        answer = self.change("POST", f"/rescales/{plan_id}/abort")
        try:
            plan = self.model.abort(plan_id)
        except Refused as refusal:
            self.refused(answer, refusal)
            return
        self._aborted(answer, plan)

    def _aborted(self, answer: httpx.Response, plan: PlanModel) -> None:
        found = self.expect(answer, 200)
        assert (found["id"], found["phase"]) == (plan.id, ABORTED)
        assert found["version"] == self.model.steps(plan)[-1].number

    # Subscribers and loads

    @drawn(
        name=FRAGMENTS,
        subscriber=SUBSCRIBERS,
        role=st.sampled_from(["applier", "applier", "applier", "reader"]),
        behind=st.sampled_from([None, None, 0, 0, 1, -1]),
        data=st.data(),
    )
    def hear(self, name: str, subscriber: str, role: str, behind: int | None, data: st.DataObject) -> None:
        fragment = self.model.fragments.get(name)
        current = fragment.current.number if fragment else 1
        acknowledged = None if behind is None else max(1, current - behind)
        vnode = data.draw(st.sampled_from([None, None, None, 0, 1]))
        handed = None if vnode is None else {"version": current, "vnodes": [[vnode, vnode]]}
        body = {"name": subscriber, "role": role, "acknowledged_version": acknowledged, "handed_over": handed}
        answer = self.change("PUT", f"/fragments/{name}/subscribers/{subscriber}", body)
        if fragment is None:
            self.expect(answer, 404, "fragment-not-found")
            return
        if vnode is not None and not self._moves(fragment, vnode):
            self.expect(answer, 422, "not-moving")
            return
        known = fragment.subscribers.get(subscriber)
        before = known.acknowledged if known else None
        heard = acknowledged if acknowledged is not None and acknowledged <= current else None
        said = max((version for version in (before, heard) if version is not None), default=None)
        fragment.subscribers[subscriber] = SubscriberModel(role, said, self.model.now_ms)
        self.model.settle(fragment)
        found = self.expect(answer, 200)
        assert (found["acknowledged_version"], found["current_version"]) == (said, current)
        assert found["expires_in_ms"] == fragment.applier_timeout_ms

    def _moves(self, fragment: FragmentModel, vnode: int) -> bool:
        base = fragment.current.base
        if base is None or base.owners is None:
            return False
        size = max(len(base.owners), len(fragment.owners))
        before, after = (owners[vnode * len(owners) // size] for owners in (base.owners, fragment.owners))
        return before != after

    @drawn(name=FRAGMENTS, subscriber=SUBSCRIBERS)
    def deregister(self, name: str, subscriber: str) -> None:
        answer = self.change("DELETE", f"/fragments/{name}/subscribers/{subscriber}")
        fragment = self.model.fragments.get(name)
        if fragment is None:
            self.expect(answer, 404, "fragment-not-found")
            return
        self.expect(answer, 204)
        fragment.subscribers.pop(subscriber, None)
        self.model.settle(fragment)

    @drawn(name=FRAGMENTS, reporter=SUBSCRIBERS, load=st.integers(0, 50), beyond=st.booleans())
    def report_loads(self, name: str, reporter: str, load: int, beyond: bool) -> None:
        fragment = self.model.fragments.get(name)
        size = len(fragment.owners) if fragment else 1
        runs = [[0, 0, load], [1, size if beyond else size - 1, 1]] if size > 1 else [[0, int(beyond), load]]
        answer = self.change(
            "PUT", f"/fragments/{name}/loads/{reporter}", {"runs": runs, "observed_for_ms": 1_000}
        )
        if fragment is None:
            self.expect(answer, 404, "fragment-not-found")
        elif beyond:
            self.expect(answer, 422, "bad-loads")
        else:
            self.expect(answer, 204)
            fragment.loads[reporter] = (size, self.model.now_ms)

    # Requests again, and by whom

    @drawn(data=st.data(), other=st.booleans())
    def send_again(self, data: st.DataObject, other: bool) -> None:
        if not self.answers:
            return
        key, method, path, body, before = data.draw(st.sampled_from(self.answers[-6:]), label="answered")
        if other:
            answer = self.ask(method, path, {"another": "body"}, Idempotency_Key=key)
            self.expect(answer, 422, "idempotency-key-reused")
            return
        answer = self.ask(method, path, body, Idempotency_Key=key)
        assert answer.headers["idempotent-replayed"] == "true"
        assert (answer.status_code, answer.content) == (before.status_code, before.content)

    @drawn(name=FRAGMENTS, role=st.sampled_from(["reader", "stranger"]))
    def somebody_else_asks(self, name: str, role: str) -> None:
        if not self.tokens:
            return
        status, kind = (403, "forbidden") if role == "reader" else (401, "unauthenticated")
        for method, path, body in (
            ("POST", f"/fragments/{name}/abort", None),
            ("POST", f"/fragments/{name}/plans", {"parallelism": 1}),
            ("PUT", "/workers/w9", {"parallelism": 1}),
            ("PUT", f"/fragments/{name}/subscribers/s9", {"name": "s9", "role": "applier"}),
        ):
            if status == 401 or name in self.model.fragments:
                self.expect(self.ask(method, path, body, role), status, kind)


@pytest.fixture(params=["sqlite", "postgresql"])
def stores(request: pytest.FixtureRequest, etcd: EtcdClient, upgraded_file: Path) -> Stores:
    if request.param == "sqlite":
        return Stores(etcd, upgraded_file)
    return Stores(etcd, upgraded_file, request.getfixturevalue("emptied"))


def follow(stores: Stores, histories: int) -> None:
    machine = type("Histories", (Api,), {"stores": stores})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=histories if stores.emptied is None else max(1, histories // 10),
            stateful_step_count=20,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_the_api_does_what_the_model_says(stores: Stores) -> None:
    follow(stores, 50)


@pytest.mark.slow
@pytest.mark.timeout(4 * 3600)
def test_the_api_does_what_the_model_says_for_long(stores: Stores) -> None:
    follow(stores, 1_820)
