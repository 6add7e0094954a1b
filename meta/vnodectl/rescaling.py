"""`vnodectl plan`, `apply` and `rescale`."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from meta.mapping.errors import MappingError
from meta.vnodectl.client import Service, path
from meta.vnodectl.completion import FragmentName, fragment_names
from meta.vnodectl.goal import Goal
from meta.vnodectl.handover import Handover, Patience
from meta.vnodectl.options import flattened
from meta.vnodectl.plans import certified, changes
from meta.vnodectl.session import (
    DEFAULT_SERVER,
    Json,
    Server,
    Yes,
    answer_json,
    confirm,
    connected,
    err,
    listed,
    out,
    print_json,
)
from meta.vnodectl.strip import strip
from meta.vnodectl.waiting import outcome, wait_for


@flattened
def plan(
    goal: Goal,
    fragment: Annotated[
        str | None, typer.Argument(help="The fragment's name.", autocompletion=fragment_names)
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Plan without a service: JSON in, JSON out.")
    ] = False,
    lines: Annotated[bool, typer.Option("--lines", help="With --offline: one document a line.")] = False,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Show what a rescale would move, and the token that applies it.

    Example: vnodectl plan flights --parallelism 4 --weight 3=2.5

    With --offline: {"previous": [0, 0, null, 2], "units": [{"id": 0, "worker": "a"}, {"id": 1, "worker": "b"}]}

    previous has the owner of each vnode; "vnode_count": 256 in its place makes a first mapping. A unit may have a
    "weight", 0 to drain it. Optional: "budget", the most moves in this step; "defragment", extra moves for fewer runs;
    "level": "workers"; "loads", one number for each vnode, and "count_slack".
    """
    if offline:
        _plan_offline(fragment, goal, lines=lines)
        return
    if fragment is None:
        raise typer.BadParameter("name the fragment, or use --offline")
    with connected(server, as_json=as_json) as api:
        planned = api.post(path("fragments", fragment, "plans"), goal.body())
    if as_json:
        print_json(planned)
        return
    show_plan(planned)
    if changes(planned):
        out.print(f"apply it with: vnodectl apply {planned['token']}")


@flattened
def apply(
    token: Annotated[str, typer.Argument(help="The token that `plan` printed.")],
    handover: Handover,
    patience: Patience,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Apply a plan by its token, and wait until every applier has acknowledged.

    Example: vnodectl apply 1f3c9a02.5d0c7be41a92 --protocol ordered --pacing matching
    """
    with connected(server, as_json=as_json) as api:
        applied = api.post(path("rescales"), {"token": token, **handover.body})
        finish(api, applied, patience, as_json=as_json)


@flattened
def rescale(
    fragment: FragmentName,
    goal: Goal,
    handover: Handover,
    patience: Patience,
    yes: Yes = False,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Plan, confirm, apply and wait: the whole rescale while the job runs.

    Example: vnodectl rescale flights --add-units 5,6 --remove-units 1
    """
    asked, way = goal.body(), Way(handover.body, patience, yes=yes, as_json=as_json)
    with connected(server, as_json=as_json) as api:
        carry_out(api, fragment, asked, way, "Apply?")


@dataclass(frozen=True, slots=True)
class Way:
    """How a plan is carried out."""

    handover: dict[str, Any]
    patience: Patience
    yes: bool
    as_json: bool


def carry_out(api: Service, fragment: str, goal: dict[str, Any], way: Way, question: str) -> None:
    """Plans, shows, asks, applies and waits. Raises `NotSettled` and `TakenBack`."""
    planned = api.post(path("fragments", fragment, "plans"), goal)
    if not way.as_json:
        show_plan(planned)
    if not changes(planned):
        if way.as_json:
            print_json({"plan": planned, "rescale": None, "progress": None})
        return
    confirm(question, yes=way.yes)
    applied = api.post(path("rescales"), {"token": planned["token"], **way.handover})
    finish(api, applied, way.patience, as_json=way.as_json, planned=planned)


def show_plan(planned: Any) -> None:
    """The certificate, and the strip before and after."""
    before, after = planned["previous_owners"], planned["owners"]
    for warning in planned.get("warnings", ()):
        err.print(warning, style="yellow", markup=False)
    units = listed(planned["units"])
    if not changes(planned):
        out.print(f"[bold]{planned['fragment']}[/bold] is on units {units} already: nothing to do")
        return
    out.print(
        f"[bold]{planned['fragment']}[/bold], version {planned['base_version']}, to units {units}: "
        f"{certified(planned, len(after))}"
    )
    out.print("before")
    out.print(strip(before))
    out.print("after")
    out.print(strip(after, before))


def finish(
    api: Service, applied: Any, patience: Patience, *, as_json: bool, planned: Any | None = None
) -> None:
    """Waits as long as is wanted, and says what became of it. Raises `NotSettled` and `TakenBack`."""
    fragment, version = applied["fragment"], applied["version"]
    progress = wait_for(api, applied, patience.timeout_s) if patience.wait else None
    if as_json:
        print_json(({"plan": planned} if planned else {}) | {"rescale": applied, "progress": progress})
    elif progress is None:
        out.print(
            f"{fragment} goes to version {version}: `vnodectl fragment show {fragment}` says how far it is"
        )
    else:
        out.print(outcome(applied, progress))


def apply_token(api: Service, token: str, timeout_s: float) -> None:
    """Returns when every applier has acknowledged. Raises `ServiceError`, also after `timeout_s`."""
    finish(api, api.post(path("rescales"), {"token": token}), Patience(timeout_s), as_json=False)


def _plan_offline(fragment: str | None, goal: Goal, *, lines: bool) -> None:
    if fragment is not None or goal != Goal():
        raise typer.BadParameter("--offline takes all from the JSON on standard input; name nothing else")
    # Only here: who plans with the service need not wait until numpy is loaded.
    from meta.mapping.offline import plan_offline  # noqa: PLC0415

    answer_json(plan_offline, MappingError, lines=lines)
