"""`vnodectl plan`, `apply` and `rescale`."""

from typing import Annotated, Any

import stamina
import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from meta.mapping.errors import MappingError
from meta.mapping.offline import plan_offline
from meta.vnodectl.client import Service, ServiceError, path
from meta.vnodectl.session import DEFAULT_SERVER, Server, answer_json, err, out
from meta.vnodectl.strip import strip

POLL_S = 0.2

Parallelism = Annotated[int | None, typer.Option(min=1, help="How many units; the service chooses them.")]
Units = Annotated[str | None, typer.Option(help="Exactly these units, for example 1,3,4.")]
TimeoutS = Annotated[float, typer.Option("--timeout", min=0.1, help="Wait so many seconds until it settles.")]


class _NotSettled(Exception):
    """The version is still under way."""


def plan(
    fragment: Annotated[str | None, typer.Argument(help="The fragment's name.")] = None,
    parallelism: Parallelism = None,
    units: Units = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Plan without a service: JSON in, JSON out.")
    ] = False,
    lines: Annotated[bool, typer.Option("--lines", help="With --offline: one document a line.")] = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Show what a rescale would move, and the token that applies it.

    With --offline: {"previous": [0, 0, null, 2], "units": [{"id": 0, "worker": "a"}, {"id": 1, "worker": "b"}]}

    previous has the owner of each vnode; "vnode_count": 256 in its place makes a first mapping. A unit may have a
    "weight", 0 to drain it. Optional: "budget", the most moves in this step; "defragment", extra moves for fewer runs;
    "level": "workers"; "loads", one number for each vnode, and "count_slack".
    """
    if offline:
        if fragment is not None or parallelism is not None or units is not None:
            raise typer.BadParameter("--offline takes all from the JSON on standard input; name nothing else")
        answer_json(plan_offline, MappingError, lines=lines)
        return
    if fragment is None:
        raise typer.BadParameter("name the fragment, or use --offline")
    with Service(server) as api:
        planned = api.post(path("fragments", fragment, "plans"), _goal(parallelism, units))
    show_plan(planned)
    if _changes(planned):
        out.print(f"apply it with: vnodectl apply {planned['token']}")


def apply(
    token: Annotated[str, typer.Argument(help="The token that `plan` printed.")],
    timeout_s: TimeoutS = 60.0,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Apply a plan by its token, and wait until every applier has acknowledged."""
    with Service(server) as api:
        apply_token(api, token, timeout_s)


def rescale(
    fragment: Annotated[str, typer.Argument(help="The fragment's name.")],
    parallelism: Parallelism = None,
    units: Units = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    timeout_s: TimeoutS = 60.0,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Plan, confirm, apply and wait: the whole rescale while the job runs."""
    with Service(server) as api:
        planned = api.post(path("fragments", fragment, "plans"), _goal(parallelism, units))
        show_plan(planned)
        if not _changes(planned):
            return
        if not yes:
            typer.confirm("Apply?", abort=True, err=True)
        apply_token(api, planned["token"], timeout_s)


def _goal(parallelism: int | None, units: str | None) -> dict[str, Any]:
    if (parallelism is None) == (units is None):
        raise typer.BadParameter("give either --parallelism or --units")
    if units is None:
        return {"parallelism": parallelism}
    try:
        return {"units": [int(unit) for unit in units.split(",")]}
    except ValueError:
        raise typer.BadParameter(f"--units takes ids with commas between them, not {units!r}") from None


def show_plan(planned: Any) -> None:
    """The certificate, and the strip before and after."""
    certificate, before, after = planned["certificate"], planned["previous_owners"], planned["owners"]
    units = ", ".join(map(str, planned["units"]))
    if not _changes(planned):
        out.print(f"[bold]{planned['fragment']}[/bold] is on units {units} already: nothing to do")
        return
    out.print(
        f"[bold]{planned['fragment']}[/bold], version {planned['base_version']}, to units {units}: "
        f"moves {certificate['moves']} of {len(after)} vnodes,\n"
        f"and fewer than {certificate['lower_bound']} is not possible"
    )
    out.print("before")
    out.print(strip(before))
    out.print("after")
    out.print(strip(after, before))


def apply_token(api: Service, token: str, timeout_s: float) -> None:
    """Returns when every applier has acknowledged. Raises `ServiceError`, also after `timeout_s`."""
    applied = api.post(path("rescales"), {"token": token})
    fragment, version = applied["fragment"], applied["version"]
    progress = wait_until_settled(api, fragment, version, timeout_s)
    if progress["version"] > version:
        out.print(f"that plan became version {version}; {fragment} is now at {progress['version']}")
    elif progress["acknowledged"]:
        out.print(f"{fragment} is at version {version}, and the jobs that follow it have it")
    else:
        out.print(f"{fragment} is at version {version}; no live job had to acknowledge it")


def _changes(planned: Any) -> bool:
    return bool(planned["owners"] != planned["previous_owners"])


def wait_until_settled(api: Service, fragment: str, version: int, timeout_s: float) -> Any:
    """The progress when `version` had settled, or a later one come; shows who is waited for meanwhile.

    Raises `ServiceError` with those it waits for after `timeout_s`.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    polling = stamina.retry_context(
        on=_NotSettled,
        attempts=None,
        timeout=timeout_s,
        wait_initial=POLL_S,
        wait_max=POLL_S,
        wait_jitter=0,
    )
    late = ""
    try:
        with Progress(*columns, console=err) as bar:
            task = bar.add_task(f"version {version}", total=None)
            for attempt in polling:
                with attempt:
                    progress = api.get(path("fragments", fragment, "progress"))
                    late = ", ".join(applier["name"] for applier in progress["waiting_for"])
                    bar.update(
                        task,
                        description=f"version {version}: {f'waiting for {late}' if late else 'acknowledged'}",
                        completed=progress["acknowledged"],
                        total=progress["acknowledged"] + len(progress["waiting_for"]),
                    )
                    if progress["version"] == version and progress["phase"] != "settled":
                        raise _NotSettled
                    return progress
    except _NotSettled:
        raise ServiceError(
            f"version {version} has not settled within {timeout_s:g} s, it waits for {late or 'nobody'}; it goes on by "
            f"itself; `vnodectl fragment show {fragment}` shows how far it is"
        ) from None
