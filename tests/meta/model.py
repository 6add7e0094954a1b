"""What the API should answer, by a model in plain dicts and lists that shares no code with the service.

The model does not predict which vnodes a plan moves, only what any right plan has: whose they are allowed to be, how
many each unit gets, how many moves that takes at least. What a plan answered is what its version must have then.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.meta.model_counts import Owners, Weights, choose, moved, stretched

PLAN_LIFETIME_MS = 15 * 60_000
DAY_MS = 24 * 3_600_000
FRESH_MS = 600_000
KEEP_VERSIONS = 10

RESCALING, ACCEPTED, SETTLED, ABORTED, SUPERSEDED = (
    "rescaling",
    "accepted",
    "settled",
    "aborted",
    "superseded",
)
PHASES = [RESCALING, ACCEPTED, SETTLED, ABORTED, SUPERSEDED]

Goal = dict[str, Any]


class Refused(Exception):
    """What the model says the service refuses: the status, and the problem's kind where it is sure of it."""

    def __init__(self, status: int, kind: str | None = None) -> None:
        super().__init__(status, kind)
        self.status, self.kind = status, kind


@dataclass
class WorkerModel:
    name: str
    units: list[int]
    timeout_ms: int | None
    seen_ms: int
    labels: dict[str, str]
    draining: bool = False


@dataclass
class VersionModel:
    """`owners` and `weights` are None until the service has shown what it chose by itself."""

    number: int
    owners: Owners | None
    weights: Weights | None
    cause: str
    plan: str | None
    base: "VersionModel | None"
    began_ms: int
    phases: dict[str, int] = field(default_factory=dict)
    digest: str | None = None
    body: bytes | None = None

    @property
    def phase(self) -> str:
        return max(self.phases, key=PHASES.index)

    @property
    def moves(self) -> int:
        assert self.owners is not None
        return moved(self.base.owners, self.owners) if self.base and self.base.owners else 0


@dataclass
class SubscriberModel:
    role: str
    acknowledged: int | None
    seen_ms: int


@dataclass
class PlanModel:
    id: str
    token: str
    fragment: str
    base: int
    owners: Owners
    weights: Weights
    cause: str
    expires_ms: int
    recounts: bool = False
    applied: int | None = None
    handover: dict[str, Any] | None = None


@dataclass
class FragmentModel:
    name: str
    applier_timeout_ms: int
    adaptive: dict[str, int] | None
    table_ids: list[int]
    versions: dict[int, VersionModel]
    oldest: int = 1
    subscribers: dict[str, SubscriberModel] = field(default_factory=dict)
    loads: dict[str, tuple[int, int]] = field(default_factory=dict)  # (vnode count, instant) by reporter

    @property
    def current(self) -> VersionModel:
        return self.versions[max(self.versions)]

    @property
    def phase(self) -> str:
        return self.current.phase

    @property
    def owners(self) -> Owners:
        assert self.current.owners is not None
        return self.current.owners

    @property
    def weights(self) -> Weights:
        assert self.current.weights is not None
        return self.current.weights

    @property
    def kept(self) -> list[VersionModel]:
        return [self.versions[number] for number in range(self.oldest, self.current.number + 1)]


@dataclass
class Model:
    now_ms: int
    silence_from_ms: int
    workers: dict[str, WorkerModel] = field(default_factory=dict)
    fragments: dict[str, FragmentModel] = field(default_factory=dict)
    plans: dict[str, PlanModel] = field(default_factory=dict)

    # Workers

    def alive(self, worker: WorkerModel) -> bool:
        silent_ms = self.now_ms - max(worker.seen_ms, self.silence_from_ms)
        return worker.timeout_ms is None or silent_ms < worker.timeout_ms

    def in_doubt(self, worker: WorkerModel) -> bool:
        timeout_ms = worker.timeout_ms
        return timeout_ms is not None and self.now_ms - worker.seen_ms >= timeout_ms and self.alive(worker)

    def living(self) -> dict[int, WorkerModel]:
        return {
            unit: worker for worker in self.workers.values() if self.alive(worker) for unit in worker.units
        }

    def usable(self, labels: Mapping[str, str]) -> dict[int, str]:
        """The workers of the units that a plan may choose."""
        return {
            unit: worker.name
            for unit, worker in self.living().items()
            if not worker.draining and labels.items() <= worker.labels.items()
        }

    def users(self, worker: WorkerModel) -> list[str]:
        """The fragments that are on it."""
        return sorted(name for name, each in self.fragments.items() if self._on(each) & set(worker.units))

    def _on(self, fragment: FragmentModel) -> set[int]:
        base = fragment.current.base if fragment.phase != SETTLED else None
        return {*fragment.weights, *((base.weights or ()) if base else ())}

    # Plans

    def require(self, name: str) -> FragmentModel:
        if name not in self.fragments:
            raise Refused(404, "fragment-not-found")
        return self.fragments[name]

    def require_version(self, fragment: FragmentModel, number: int) -> VersionModel:
        if not fragment.oldest <= number <= fragment.current.number:
            raise Refused(404, "version-not-found")
        return fragment.versions[number]

    def first_units(self, vnode_count: int, parallelism: Any) -> list[int]:
        """On which units a new fragment begins."""
        usable = self.usable({})
        count = parallelism
        if isinstance(parallelism, dict):
            policy = parallelism["adaptive"]
            self.require_policy(policy, vnode_count)
            count = max(policy["min"], min(len(usable), policy["max"], vnode_count))
        if count > len(usable) or count > vnode_count:
            raise Refused(422)
        return choose(usable, Counter(), count)

    def require_policy(self, policy: Mapping[str, int], vnode_count: int) -> None:
        if policy["min"] > policy["max"] or policy["min"] > vnode_count:
            raise Refused(422, "bad-fragment")

    def chosen(self, fragment: FragmentModel, goal: Goal) -> Weights:
        """The units of a levelling plan and their weights: those above 0 share the vnodes. May raise `Refused`."""
        labels, wished = goal.get("labels") or {}, weights_of(goal)
        usable, labelled = self.usable({}), self.usable(labels)
        weights = fragment.weights | wished
        today = {unit for unit, weight in fragment.weights.items() if weight}
        if "parallelism" in goal:
            found = self._of_parallelism(fragment, goal["parallelism"], labelled, weights, wished)
        else:
            if "units" in goal:
                named = set(goal["units"])
                _require_usable(named, usable, labelled)
            elif "add_units" in goal or "remove_units" in goal:
                added, removed = set(goal.get("add_units") or ()), set(goal.get("remove_units") or ())
                if added & today or removed - fragment.weights.keys():
                    raise Refused(422, "bad-goal")
                _require_usable(added, usable, labelled)
                named = (today - removed) & labelled.keys() | added
            else:
                named = today & labelled.keys()
            found = {unit: weights.get(unit, 1.0) for unit in named}
            found = {unit: weight if weight or unit in wished else 1.0 for unit, weight in found.items()}
        for unit, weight in wished.items():
            if unit not in found and (weight or unit not in fragment.weights):
                raise Refused(422, "bad-goal")
        return found

    def _of_parallelism(
        self, fragment: FragmentModel, count: int, labelled: dict[int, str], weights: Weights, wished: Weights
    ) -> Weights:
        weighed = {unit: weights.get(unit, 1.0) for unit in labelled}
        if sum(weight > 0 for weight in weighed.values()) < count:
            weighed = {unit: weight if weight or unit in wished else 1.0 for unit, weight in weighed.items()}
        bearing = {unit: labelled[unit] for unit, weight in weighed.items() if weight}
        if count > len(bearing):
            raise Refused(422)
        return {unit: weighed[unit] for unit in choose(bearing, Counter(fragment.owners), count)}

    def levelled(self, fragment: FragmentModel, goal: Goal) -> tuple[Weights, set[int]]:
        """Who shares the vnodes, and who lives and gives them away. May raise `Refused`."""
        if goal.get("by_load") and not self.load_reporters(fragment):
            raise Refused(409, "no-loads")
        chosen = self.chosen(fragment, goal)
        bearing = {unit: weight for unit, weight in chosen.items() if weight}
        leaving = ({*fragment.weights, *chosen} - bearing.keys()) & self.living().keys()
        if not bearing or len(bearing) > len(fragment.owners):
            raise Refused(422)
        return bearing, leaving

    def load_reporters(self, fragment: FragmentModel) -> list[str]:
        return [
            name
            for name, (vnode_count, at_ms) in fragment.loads.items()
            if vnode_count == len(fragment.owners) and self.now_ms - at_ms < FRESH_MS
        ]

    def rolled_back(self, fragment: FragmentModel, number: int) -> tuple[Owners | None, Weights]:
        """The owners, None where the planner places some of them, and the weights."""
        then = self.require_version(fragment, number)
        assert then.owners is not None
        assert then.weights is not None
        usable = self.usable({})
        if not usable:
            raise Refused(422)
        owners = sorted(set(then.owners))
        gone = [unit for unit in owners if unit not in usable]
        spare = usable.keys() - set(owners)
        count = len(owners) - len(gone) + min(len(gone), len(spare))
        substitutes = [unit for unit in choose(usable, Counter(then.owners), count) if unit not in owners]
        standing = dict(zip(gone, substitutes, strict=False))
        weights = {standing.get(unit, unit): then.weights[unit] for unit in owners}
        weights = {unit: weight for unit, weight in weights.items() if unit in usable}
        if len(standing) < len(gone):
            if not any(weights.values()):
                raise Refused(422)
            return None, weights
        return [standing.get(unit, unit) for unit in then.owners], weights

    def recounted(self, fragment: FragmentModel, count: int) -> Owners:
        owners = fragment.owners
        if count % len(owners) == 0:
            return stretched(owners, count)
        if len(owners) % count:
            raise Refused(422)
        factor = len(owners) // count
        divided = owners[::factor]
        if stretched(divided, len(owners)) != owners:
            raise Refused(422)
        return divided

    # Rescales

    @property
    def in_flight(self) -> list[str]:
        return sorted(name for name, each in self.fragments.items() if each.phase != SETTLED)

    def apply(self, token: str, handover: dict[str, Any] | None, *, matches: bool = True) -> PlanModel:
        plan = self.plans.get(token)
        if plan is None:
            raise Refused(404, "plan-not-found")
        if plan.applied is None:
            fragment = self.fragments[plan.fragment]
            if not matches:
                raise Refused(412, "precondition-failed")
            self._require_applicable(fragment, plan)
            plan.handover = handover
            if (plan.owners, plan.weights) == (fragment.owners, fragment.weights):
                plan.applied = plan.base
            else:
                self.go_on(fragment, plan.owners, plan.weights, plan.cause, plan.id, fragment.current)
                plan.applied = fragment.current.number
            self.settle(fragment)
        elif plan.handover != handover:
            raise Refused(409, "already-applied-otherwise")
        return plan

    def _require_applicable(self, fragment: FragmentModel, plan: PlanModel) -> None:
        if fragment.phase != SETTLED:
            raise Refused(409, "rescale-in-flight")
        if fragment.current.number != plan.base:
            raise Refused(409, "stale-base")
        if self.now_ms >= plan.expires_ms:
            raise Refused(409, "plan-expired")
        if plan.recounts:
            return
        living, usable = self.living(), self.usable({})
        if any(unit not in (usable if weight else living) for unit, weight in plan.weights.items()):
            raise Refused(409, "units-not-alive")

    def go_on(
        self,
        fragment: FragmentModel,
        owners: Owners | None,
        weights: Weights | None,
        cause: str,
        plan: str | None,
        base: VersionModel | None,
        phase: str = RESCALING,
    ) -> None:
        number = fragment.current.number + 1
        version = VersionModel(number, owners, weights, cause, plan, base, self.now_ms, {phase: self.now_ms})
        fragment.versions[number] = version

    def waiting_for(self, fragment: FragmentModel) -> list[str]:
        if fragment.phase == SETTLED:
            return []
        return sorted(
            name
            for name, each in fragment.subscribers.items()
            if each.role == "applier"
            and (each.acknowledged or 0) < fragment.current.number
            and self.now_ms - max(each.seen_ms, self.silence_from_ms) < fragment.applier_timeout_ms
        )

    def settle(self, fragment: FragmentModel) -> None:
        if fragment.phase != SETTLED and not self.waiting_for(fragment):
            fragment.current.phases[SETTLED] = self.now_ms

    def accept(self, fragment: FragmentModel, number: int) -> None:
        current = fragment.current
        if number > current.number:
            raise Refused(404, "version-not-found")
        if number < current.number:
            raise Refused(409, "version-not-current")
        if current.phase == RESCALING:
            current.phases[ACCEPTED] = self.now_ms

    def steps(self, plan: PlanModel) -> list[VersionModel]:
        return [each for each in self.fragments[plan.fragment].kept if each.plan == plan.id]

    def rescale_phase(self, plan: PlanModel) -> str:
        steps = self.steps(plan)
        if any(step.cause == "abort" for step in steps):
            return ABORTED
        return steps[-1].phase if steps else SETTLED

    def applied(self, plan_id: str) -> PlanModel:
        for plan in self.plans.values():
            if plan.id == plan_id and plan.applied is not None:
                return plan
        raise Refused(404, "rescale-not-found")

    def abort(self, plan_id: str) -> PlanModel:
        plan = self.applied(plan_id)
        steps = self.steps(plan)
        if self.rescale_phase(plan) == ABORTED:
            return plan
        if not steps:
            raise Refused(409, "not-in-flight")
        if steps[-1].phase != RESCALING or any(ACCEPTED in step.phases for step in steps):
            raise Refused(409, "already-accepted")
        fragment = self.fragments[plan.fragment]
        ending, base = fragment.current, fragment.current.base
        assert base is not None
        ending.phases[ABORTED] = self.now_ms
        self.go_on(fragment, base.owners, base.weights, "abort", plan_id, base, SETTLED)
        return plan

    def abort_current(self, fragment: FragmentModel) -> PlanModel:
        current = fragment.current
        if current.phase == SETTLED and current.cause != "abort":
            raise Refused(409, "not-in-flight")
        assert current.plan is not None
        return self.abort(current.plan)

    def settled_before(self, fragment: FragmentModel) -> int:
        found = [each.number for each in fragment.kept[:-1] if SETTLED in each.phases]
        if not found:
            raise Refused(409, "nothing-to-roll-back")
        return found[-1]

    # What the service does by itself

    def reconcile(self) -> None:
        in_flight = self.in_flight
        for name in in_flight:
            fragment = self.fragments[name]
            self._supersede(fragment)
            self.settle(fragment)
        for name in sorted(self.fragments.keys() - set(in_flight)):
            self._adapt(self.fragments[name])

    def _supersede(self, fragment: FragmentModel) -> None:
        living, version = self.living(), fragment.current
        owners = set(fragment.owners)
        lost = owners - living.keys()
        too_many = lost == owners or (len(lost) >= 2 and 2 * len(lost) > len(owners))
        weights = {
            unit: 0.0 if living[unit].draining else weight
            for unit, weight in fragment.weights.items()
            if unit in living
        }
        if not lost or too_many or not any(weights.values()):
            return
        base = version.base if version.phase == RESCALING else version
        version.phases[SUPERSEDED] = self.now_ms
        self.go_on(fragment, None, weights, "superseding", version.plan, base)

    def _adapt(self, fragment: FragmentModel) -> None:
        wished = self.wish(fragment)
        if wished and not self.hindered(fragment, wished):
            self.go_on(fragment, None, None, "adaptive", None, fragment.current)
            # On whose weights the plan was, as it was planned on the version before.
            base = fragment.current.base
            assert base is not None
            assert base.weights is not None
            fragment.current.weights = {unit: base.weights.get(unit) or 1.0 for unit in wished}
            self.settle(fragment)

    def wish(self, fragment: FragmentModel) -> list[int] | None:
        """The units that an adaptive fragment should run on; None: those that it runs on."""
        policy = fragment.adaptive
        if policy is None:
            return None
        running = fragment.weights.keys()
        available = {
            unit: worker
            for unit, worker in self.usable({}).items()
            if unit in running or not self.in_doubt(self.workers[worker])
        }
        count = min(len(available), policy["max"], len(fragment.owners))
        units = choose(available, Counter(fragment.owners), count)
        return None if set(units) == running else units

    def hindered(self, fragment: FragmentModel, wished: list[int]) -> bool:
        policy = fragment.adaptive
        assert policy is not None
        living = self.living()
        running = fragment.weights
        lost = running.keys() - living.keys()
        draining = [unit for unit in running if unit in living and living[unit].draining]
        least = min(policy["min"], len(fragment.owners))
        names = {worker.name for worker in self.workers.values() if running.keys() & set(worker.units)}
        its_workers = [self.workers[name] for name in names]
        return (
            not wished
            or bool(draining and not lost and len(wished) < least)
            or fragment.phase != SETTLED
            or any(map(self.in_doubt, its_workers))
            or self._vanished(policy["cool_down_ms"], its_workers)
            or self.now_ms - fragment.current.began_ms < policy["cool_down_ms"]
        )

    def _vanished(self, cool_down_ms: int, its_workers: Iterable[WorkerModel]) -> bool:
        members = list(its_workers)
        losses = [
            max(worker.seen_ms, self.silence_from_ms) + worker.timeout_ms
            for worker in members
            if worker.timeout_ms is not None and not self.alive(worker)
        ]
        if not losses or self.now_ms >= max(losses) + cool_down_ms:
            return False
        together = sum(max(losses) - at_ms < cool_down_ms for at_ms in losses)
        return together >= 2 and 2 * together > len(members)

    def retain(self) -> None:
        """What retention forgets, with the smallest number of versions kept."""
        day_ago_ms = self.now_ms - DAY_MS
        for fragment in self.fragments.values():
            fragment.loads = {name: each for name, each in fragment.loads.items() if each[1] >= day_ago_ms}
            fragment.oldest = max(fragment.oldest, fragment.current.number + 1 - KEEP_VERSIONS)
        self.plans = {token: plan for token, plan in self.plans.items() if self._keeps(plan, day_ago_ms)}

    def _keeps(self, plan: PlanModel, day_ago_ms: int) -> bool:
        if plan.applied is None:
            return plan.expires_ms >= day_ago_ms
        return plan.applied >= self.fragments[plan.fragment].oldest


def weights_of(goal: Goal) -> Weights:
    return {int(unit): float(weight) for unit, weight in (goal.get("weights") or {}).items()}


def _require_usable(units: set[int], usable: Mapping[int, str], labelled: Mapping[int, str]) -> None:
    if units - usable.keys():
        raise Refused(409, "units-not-alive")
    if units - labelled.keys():
        raise Refused(409, "units-not-labelled")
