"""`vnodectl drain`: every fragment leaves a worker, which may be removed then."""

from typing import Annotated, Any

import stamina
import typer
from rich.markup import escape

from meta.vnodectl.client import NOT_SETTLED, REFUSED, Away, Service, ServiceError, path
from meta.vnodectl.completion import WorkerName
from meta.vnodectl.handover import Handover, Patience
from meta.vnodectl.options import flattened
from meta.vnodectl.session import (
    DEFAULT_SERVER,
    Json,
    Server,
    Yes,
    confirm,
    connected,
    listed,
    out,
    print_json,
)
from meta.vnodectl.waiting import POLL_S, bars


class _StillInUse(Exception):
    """A fragment is still on the worker."""


@flattened
def drain(
    worker: WorkerName,
    handover: Handover,
    patience: Patience,
    undo: Annotated[
        bool, typer.Option("--undo", help="Take it back: plans may choose its units again.")
    ] = False,
    yes: Yes = False,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Make every fragment leave a worker, so that it may be removed.

    Marks it, so that no plan chooses its units any more, and rescales each fragment on it to other units, to as many
    as before if there are that many. Adaptive fragments leave by themselves. It may be run again at any time.

    Example: vnodectl drain east
    """
    how = handover.body
    with connected(server, as_json=as_json) as api:
        if undo:
            _undo(api, worker, as_json=as_json)
            return
        found = api.get(path("workers", worker))
        confirm(f"{_what_it_takes(found)} Drain it?", yes=yes)
        api.post(path("workers", worker, "drain"))
        steps = []
        for fragment in api.items(path("fragments"), {"worker": worker}):
            steps.append(_leave(api, fragment, how))
            if not as_json:
                out.print(_step(steps[-1], fragment), markup=False, soft_wrap=True)
        if patience.wait:
            _wait_until_left(api, worker, patience.timeout_s)
        report = {"worker": api.get(path("workers", worker)), "fragments": steps}
    _show(report, waited=patience.wait, as_json=as_json)


def _undo(api: Service, worker: str, *, as_json: bool) -> None:
    found = api.delete(path("workers", worker, "drain"))
    if as_json:
        print_json({"worker": found, "fragments": []})
    else:
        out.print(f"worker {worker} takes part again")


def _what_it_takes(worker: Any) -> str:
    fragments = listed(worker["fragments"]) or "no fragment"
    return f"worker {worker['name']} has units {listed(worker['units'])}; on it: {fragments}."


def _leave(api: Service, fragment: Any, how: dict[str, Any]) -> dict[str, Any]:
    """What was begun for one fragment, or why not: the others go on."""
    name = fragment["name"]
    if "adaptive" in fragment["parallelism"]:
        return {"fragment": name, "rescale": None, "refused": None}
    try:
        free = _free_units(api)
        goal = {"parallelism": min(len(fragment["units"]), free)} if free else {"parallelism": 1}
        planned = api.post(path("fragments", name, "plans"), goal, {"moves": False})
        applied = api.post(path("rescales"), {"token": planned["token"], **how})
    except Away:
        raise
    except ServiceError as error:
        return {"fragment": name, "rescale": None, "refused": error.problem}
    return {"fragment": name, "rescale": applied, "refused": None}


def _step(step: dict[str, Any], fragment: Any) -> str:
    """What became of one fragment, in words."""
    name, applied = step["fragment"], step["rescale"]
    if step["refused"]:
        return f"{name}: {step['refused']['detail']}"
    if applied is None:
        return f"{name} is adaptive: it leaves by itself"
    moves = applied["certificate"]["moves"]
    return (
        f"{name}: {moves} of {fragment['vnode_count']} vnodes move, it goes to version {applied['version']}"
    )


def _free_units(api: Service) -> int:
    """How many units a plan may choose."""
    workers = api.items(path("workers"))
    return sum(len(worker["units"]) for worker in workers if worker["alive"] and not worker["draining"])


def _wait_until_left(api: Service, worker: str, timeout_s: float) -> None:
    """Or until the time is over: the report has who is still on it."""
    polling = stamina.retry_context(
        on=(_StillInUse, Away),
        attempts=None,
        timeout=timeout_s,
        wait_initial=POLL_S,
        wait_max=POLL_S,
        wait_jitter=0,
    )
    most = 0
    try:
        with bars() as shown:
            task = shown.add_task(f"worker {escape(worker)}", total=None)
            for attempt in polling:
                with attempt:
                    on_it = api.get(path("workers", worker))["fragments"]
                    most = max(most, len(on_it))
                    doing = f"waiting for {listed(on_it, 4)}" if on_it else "left by all"
                    description = f"worker {worker}: {doing}"
                    shown.update(
                        task,
                        description=description,
                        completed=most - len(on_it) if most else 1,
                        total=most or 1,
                    )
                    if on_it:
                        raise _StillInUse
    except _StillInUse:
        pass


def _show(report: dict[str, Any], *, waited: bool, as_json: bool) -> None:
    name, on_it = report["worker"]["name"], report["worker"]["fragments"]
    refused = [step for step in report["fragments"] if step["refused"]]
    if as_json:
        print_json(report)
    else:
        out.print(_outcome(name, on_it), soft_wrap=True)
    if refused:
        raise typer.Exit(REFUSED)
    if on_it and waited:
        raise typer.Exit(NOT_SETTLED)


def _outcome(worker: str, on_it: list[str]) -> str:
    if not on_it:
        return f"no fragment is on worker {worker}: it may be removed with `vnodectl worker remove {worker}`"
    return (
        f"worker {worker} is draining; still on it: {listed(on_it)}. `vnodectl drain {worker}` again goes on, "
        f"`vnodectl worker show {worker}` says when none is left"
    )
