"""`vnodectl mapping` and `vnodectl diff`: mapping versions, to look at."""

from typing import Annotated, Any

import typer
from rich.table import Table

from meta.vnodectl.client import path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.session import (
    DEFAULT_SERVER,
    Json,
    Server,
    connected,
    listed,
    local_time,
    out,
    print_json,
)
from meta.vnodectl.strip import strip

app = typer.Typer(no_args_is_help=True, help="Mapping versions: which unit owns which vnode, and since when.")

PHASES = ("rescaling", "accepted", "settled")
ENDS = ("aborted", "superseded")
RUNS_MAX = 40


@app.command()
def show(
    fragment: FragmentName,
    version: Annotated[
        int | None, typer.Option(min=1, help="Which version. Default: the current one.")
    ] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """One version as a strip of cells, those that it moved marked.

    Example: vnodectl mapping show flights --version 3
    """
    with connected(server, as_json=as_json) as api:
        if version is None:
            version = api.get(path("fragments", fragment))["version"]
        found = api.get(path("fragments", fragment, "versions", version))
    if as_json:
        print_json(found)
        return
    out.print(f"[bold]{fragment}[/bold] version {version}: {_moved(found)}")
    out.print(strip(found["owners"], found["previous_owners"]))


@app.command()
def history(
    fragment: FragmentName,
    limit: Annotated[int, typer.Option(min=1, help="How many versions, the newest.")] = 20,
    everything: Annotated[bool, typer.Option("--all", help="All that are kept.")] = False,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """The newest versions, and when each went through its phases.

    Example: vnodectl mapping history flights --limit 5
    """
    with connected(server, as_json=as_json) as api:
        versions = api.items(
            path("fragments", fragment, "versions"),
            {"order": "newest"},
            items_max=None if everything else limit,
        )
    if as_json:
        print_json({"items": versions})
        return
    # A column of nothing but dashes is left out: the others need the room.
    phases = [phase for phase in PHASES if any(phase in version["phases"] for version in versions)]
    ends = any(phase in version["phases"] for version in versions for phase in ENDS)
    table = Table("version", "units", "moved", *phases, *(["ended"] if ends else []), "cause")
    for version in versions:
        times = version["phases"]
        ended = next((phase for phase in ENDS if phase in times), "-")
        table.add_row(
            str(version["version"]),
            listed(version["units"], 8),
            str(version["moves"]),
            *(local_time(times.get(phase)) for phase in phases),
            *([ended] if ends else []),
            version["cause"] or "-",
        )
    out.print(table)
    if len(versions) == limit and versions[-1]["version"] > 1 and not everything:
        out.print("older ones, as far as they are kept: see --limit and --all")


def diff(
    fragment: FragmentName,
    from_: Annotated[
        int | None, typer.Option("--from", min=1, help="From this version. Default: the one before --to.")
    ] = None,
    to: Annotated[
        int | None, typer.Option("--to", min=1, help="To this version. Default: the current one.")
    ] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """What changed between two mapping versions, as runs of vnodes.

    Example: vnodectl diff flights --from 3 --to 7
    """
    with connected(server, as_json=as_json) as api:
        found = api.get(path("fragments", fragment, "diff"), {"from": from_, "to": to})
    if as_json:
        print_json(found)
        return
    out.print(
        f"[bold]{fragment}[/bold] version {found['from']} to {found['to']}, {found['vnode_count']} vnodes: "
        f"moves {found['moves']}, assigned {found['assigned']}, released {found['released']}",
        soft_wrap=True,
    )
    if not found["runs"]:
        out.print("no vnode changed its owner")
        return
    table = Table("vnodes", "count", "from unit", "to unit")
    for run in found["runs"][:RUNS_MAX]:
        table.add_row(
            vnode_range(run["first"], run["last"]),
            str(run["last"] - run["first"] + 1),
            _owner(run["from"]),
            _owner(run["to"]),
        )
    out.print(table)
    if len(found["runs"]) > RUNS_MAX:
        out.print(f"and {len(found['runs']) - RUNS_MAX} runs more: --json has them all")


def vnode_range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}..{last}"


def _owner(unit: int | None) -> str:
    return "nobody" if unit is None else str(unit)


def _moved(version: dict[str, Any]) -> str:
    if version["previous_version"] is None:
        return "the first mapping"
    return f"moved {version['moves']} of {version['vnode_count']} vnodes from version {version['previous_version']}"
