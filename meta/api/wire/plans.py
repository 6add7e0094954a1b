"""Plans on the wire."""

from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field
from typing_extensions import TypedDict

from meta.api.wire.base import UNITS_MAX, AnyCertificate, Parallelism, Request, Response, at_most
from meta.api.wire.summaries import SummaryOut
from meta.api.wire.versions import owner_ids
from meta.api.wire.workers import LABELS_MAX, Labels
from meta.errors import BadGoal
from meta.lifecycle import Cause, RescalePlan
from meta.mapping.summary import summary
from meta.rescaling.goal import (
    Aim,
    ByCount,
    ByLoad,
    ChangedUnits,
    Goal,
    OnUnits,
    SameUnits,
    ToParallelism,
    ToVersion,
    ToVnodeCount,
)
from meta.rescaling.planning import DryRun
from storage_keys.vnode import PREFIX_COUNT

UnitId = Annotated[int, Field(ge=0, lt=2**63, strict=True)]
UnitIds = Annotated[list[UnitId], Field(max_length=UNITS_MAX)]
Moves = Annotated[int, Field(ge=1, le=PREFIX_COUNT, strict=True)]

# Their sums must be what a float holds, with room.
_WEIGHT_MAX = 1e9


class PlanIn(Request):
    """What to rescale to: one goal, or none for the units of today; and how.

    Goals: `parallelism`, and the service chooses the units; exactly these `units`; `add_units` and `remove_units`;
    `to_version`, a rollback to that version's mapping; `vnode_count`, a multiple or a divisor of today's. The last
    two go alone.
    """

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [
                {"parallelism": 4},
                {"remove_units": [3], "budget": 64},
                {"by_load": True, "count_slack": 0.5},
                {"to_version": 3},
                {"vnode_count": 512},
            ]
        }
    )

    parallelism: Parallelism | None = None
    units: UnitIds | None = None
    add_units: UnitIds | None = None
    remove_units: UnitIds | None = None
    to_version: Annotated[int, Field(ge=1, lt=2**31, strict=True)] | None = None
    vnode_count: Annotated[int, Field(ge=1, le=PREFIX_COUNT, strict=True)] | None = None
    weights: (
        Annotated[
            dict[
                Annotated[int, Field(ge=0, lt=2**63)],
                Annotated[float, Field(ge=0, le=_WEIGHT_MAX, allow_inf_nan=False)],
            ],
            Field(
                max_length=UNITS_MAX,
                examples=[{"7": 2.0}],
                description="by unit id: its share relative to the others' weights; 0 drains the unit",
            ),
            at_most(UNITS_MAX),
        ]
        | None
    ) = None
    level: Annotated[
        Literal["units", "workers"] | None, Field(description='"workers": each worker is levelled, too')
    ] = None
    budget: Annotated[Moves | None, Field(description="the most moves from live units in this plan")] = None
    defragment: Annotated[
        Annotated[int, Field(ge=0, le=PREFIX_COUNT, strict=True)] | None,
        Field(description="how many moves more than the fewest may be spent on fewer runs"),
    ] = None
    by_load: Annotated[
        bool, Field(strict=True, description="level what the dispatchers report instead of counts")
    ] = False
    count_slack: Annotated[
        Annotated[float, Field(ge=0, le=PREFIX_COUNT, allow_inf_nan=False)] | None,
        Field(description="with `by_load`: how far counts may leave the fair share; 0.25 if left out"),
    ] = None
    labels: Annotated[
        Labels | None,
        Field(max_length=LABELS_MAX, description="only units of workers that have all of these"),
        at_most(LABELS_MAX),
    ] = None

    @property
    def goal(self) -> Goal:
        """Raises `BadGoal`."""
        if not self.model_dump(exclude_defaults=True, exclude_none=True):
            raise BadGoal("the goal", 'there is none; say what to rescale to, for example {"parallelism": 4}')
        return Goal(
            aim=self._aim(),
            measure=self._measure(),
            budget=self.budget,
            weights=tuple(sorted((self.weights or {}).items())),
            labels=tuple(sorted((self.labels or {}).items())),
        )

    def _aim(self) -> Aim:
        aims: dict[str, Aim] = {}
        if self.parallelism is not None:
            aims["parallelism"] = ToParallelism(self.parallelism)
        if self.units is not None:
            aims["units"] = OnUnits(frozenset(self.units))
        if self.add_units is not None or self.remove_units is not None:
            added, removed = frozenset(self.add_units or ()), frozenset(self.remove_units or ())
            aims["add_units with remove_units"] = ChangedUnits(added, removed)
        if self.to_version is not None:
            aims["to_version"] = ToVersion(self.to_version)
        if self.vnode_count is not None:
            aims["vnode_count"] = ToVnodeCount(self.vnode_count)
        if len(aims) > 1:
            raise BadGoal(
                "the goal",
                f"{' and '.join(aims)} are {len(aims)} goals; give one, and plan the next after it",
            )
        return next(iter(aims.values()), SameUnits())

    def _measure(self) -> ByCount | ByLoad:
        if not self.by_load:
            if self.count_slack is not None:
                raise BadGoal("count_slack", "it is for plans by load; give by_load too, or leave it out")
            return ByCount(self.level or "units", self.defragment or 0)
        for name in ("level", "defragment"):
            if getattr(self, name) is not None:
                raise BadGoal(name, f"a plan by load knows no {name}; leave out {name} or by_load")
        return ByLoad() if self.count_slack is None else ByLoad(self.count_slack)


def goal_out(goal: Goal) -> dict[str, Any]:
    """In the form of a request, so that it can be asked for again."""
    aim: dict[str, Any] = {}
    match goal.aim:
        case ToParallelism(parallelism):
            aim = {"parallelism": parallelism}
        case OnUnits(unit_ids):
            aim = {"units": sorted(unit_ids)}
        case ChangedUnits(add, remove):
            aim = {"add_units": sorted(add), "remove_units": sorted(remove)}
        case ToVersion(version):
            aim = {"to_version": version}
        case ToVnodeCount(vnode_count):
            aim = {"vnode_count": vnode_count}
    match goal.aim, goal.measure:
        case ((ToVersion() | ToVnodeCount()), _):
            pass
        case _, ByLoad(count_slack):
            aim |= {"by_load": True, "count_slack": count_slack}
        case _, ByCount(level, defragment):
            aim |= {"level": level, **({"defragment": defragment} if defragment else {})}
    aim |= {"budget": goal.budget} if goal.budget is not None else {}
    aim |= {"weights": {str(unit): weight for unit, weight in goal.weights}} if goal.weights else {}
    return aim | ({"labels": dict(goal.labels)} if goal.labels else {})


# Not a model for each: a plan may have 65,536 of them.
MoveOut = TypedDict("MoveOut", {"vnode": int, "from": int, "to": int, "reason": str})


class PlanItemOut(Response):
    """A plan in a list. `applied_version`: what its token led to; null as long as nobody applied it.

    `goal` is in the form of a request. `remaining_moves`: what a budget leaves for the next plans.
    """

    id: str
    token: str
    fragment: str
    base_version: int
    created_at_ms: int
    expires_at_ms: int
    cause: Cause
    goal: dict[str, Any]
    certificate: AnyCertificate
    vnode_count: int
    units: list[int]
    remaining_moves: int
    warnings: list[str]
    applied_version: int | None

    @classmethod
    def of(cls, plan: RescalePlan) -> Self:
        return cls(**_item(plan))


class PlanHeadOut(PlanItemOut):
    """A plan without its owners and moves."""

    summary: SummaryOut

    @classmethod
    def head(cls, planned: DryRun) -> Self:
        return cls(**_item(planned.stored), summary=_summary(planned))


class PlanOut(PlanHeadOut):
    """A plan. Where the vnode count changes, `moves` are at the larger of both."""

    previous_owners: list[int]
    owners: list[int]
    moves: list[MoveOut]

    @classmethod
    def whole(cls, planned: DryRun) -> Self:
        return cls(
            **_item(planned.stored),
            summary=_summary(planned),
            previous_owners=owner_ids(planned.previous),
            owners=owner_ids(planned.stored.mapping),
            moves=list(_moves(planned)),
        )


def _item(plan: RescalePlan) -> dict[str, Any]:
    return {
        "id": plan.id,
        "token": plan.token,
        "fragment": plan.fragment,
        "base_version": plan.base_version,
        "created_at_ms": plan.created_at_ms,
        "expires_at_ms": plan.expires_at_ms,
        "cause": plan.cause,
        "goal": goal_out(plan.goal),
        "certificate": plan.certificate,
        "vnode_count": plan.mapping.vnode_count,
        "units": [unit.id for unit in plan.units],
        "remaining_moves": plan.remaining_moves,
        "warnings": list(plan.warnings),
        "applied_version": plan.applied_version,
    }


def _summary(planned: DryRun) -> SummaryOut:
    stored = planned.stored
    return SummaryOut.of(summary(planned.previous, stored.mapping, (*stored.units, *stored.leaving)))


def _moves(planned: DryRun) -> Iterable[MoveOut]:
    moves = planned.moves
    # A plan of a vnodemap that kept no reasons has none.
    reasons = planned.reasons or ("",) * len(moves)
    columns = (moves.vnodes.tolist(), moves.sources.tolist(), moves.targets.tolist(), reasons)
    for vnode, source, target, reason in zip(*columns, strict=True):
        yield {"vnode": vnode, "from": source, "to": target, "reason": reason}
