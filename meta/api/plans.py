"""Plans over HTTP: dry runs, and the tokens that apply them."""

from dataclasses import replace
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query, Response

from meta.api.access import Operator, Reader
from meta.api.control import Controlled
from meta.api.etag import IfMatch, require_match
from meta.api.fragments import FragmentName
from meta.api.paging import Page, page_of
from meta.api.wire.base import PageOut
from meta.api.wire.plans import PlanHeadOut, PlanIn, PlanItemOut, PlanOut
from meta.lifecycle import RescalePlan
from meta.rescaling.planning import DryRun

router = APIRouter(prefix="/v1", tags=["plans"])

PlanId = Annotated[str, Path(pattern=r"^[0-9a-f]{1,32}$")]
WithMoves = Annotated[bool, Query(description="false: without `moves`, `owners` and `previous_owners`")]

PLANS_AT_ONCE = 50

_EITHER: dict[int | str, dict[str, object]] = {
    200: {
        "model": PlanOut | PlanHeadOut,
        "description": "the plan, as it was answered, and what became of it",
    }
}
_MADE: dict[int | str, dict[str, object]] = {
    201: {"model": PlanOut | PlanHeadOut, "description": "the plan; its token applies it for 15 minutes"}
}


@router.post("/fragments/{name}/plans", status_code=HTTPStatus.CREATED, responses=_MADE)
def plan(
    name: FragmentName,
    body: PlanIn,
    control: Controlled,
    caller: Operator,
    if_match: IfMatch = None,
    *,
    moves: WithMoves = True,
) -> Response:
    """A dry run: what would move and why, with its certificate, and the token that applies it."""
    goal = body.goal
    current = control.fragments.get(name).current
    require_match(name, current, if_match)
    planned = control.rescales.plan(name, goal, by=caller)
    if planned.stored.base_version != current.version:
        # Another version came in between.
        require_match(name, control.fragments.get(name).current, if_match)
    return _answer(planned, HTTPStatus.CREATED, moves=moves)


@router.get("/fragments/{name}/plans")
def list_plans(name: FragmentName, page: Page, control: Controlled, _caller: Reader) -> PageOut[PlanItemOut]:
    """The last made first, applied or not, 50 at a time; those that expired are forgotten after a day."""
    # Each is read with its owners: a thousand large ones take minutes and half a gigabyte.
    few = replace(page, limit=min(page.limit, PLANS_AT_ONCE))
    found = control.history.plans(name, after=few.after_instant(), limit=few.rows_max)
    return page_of(found, few, _key, PlanItemOut.of)


@router.get("/plans/{plan_id}", responses=_EITHER)
def show_plan(plan_id: PlanId, control: Controlled, _caller: Reader, *, moves: WithMoves = True) -> Response:
    """As it was answered when it was made, with the version that it led to."""
    return _answer(control.history.plan(plan_id, with_reasons=moves), HTTPStatus.OK, moves=moves)


def _answer(planned: DryRun, status: HTTPStatus, *, moves: bool) -> Response:
    # Written at once: FastAPI would make 65,536 moves Python objects again first.
    document = PlanOut.whole(planned) if moves else PlanHeadOut.head(planned)
    return Response(
        document.model_dump_json(by_alias=True), status_code=status, media_type="application/json"
    )


def _key(plan: RescalePlan) -> tuple[int, str]:
    return plan.created_at_ms, plan.id
