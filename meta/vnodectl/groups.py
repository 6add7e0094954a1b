"""`vnodectl groups`: the vnodes that each task of a scan reads."""

from typing import Annotated

import typer
from rich.table import Table

from meta.vnodectl.client import path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.mappings import vnode_range
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, listed, out, print_json

TASKS_MAX = 64


def groups(
    fragment: FragmentName,
    tasks: Annotated[
        int | None, typer.Option(min=1, help="For so many tasks. Default: one for each unit.")
    ] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """The vnodes that each task of a scan reads.

    Example: vnodectl groups flights --tasks 8
    """
    with connected(server, as_json=as_json) as api:
        found = api.get(path("fragments", fragment, "groups"), {"tasks": tasks})
    if as_json:
        print_json(found)
        return
    out.print(f"[bold]{fragment}[/bold] version {found['version']}, {len(found['tasks'])} tasks")
    table = Table("task", "units", "vnodes", "which")
    for task in found["tasks"][:TASKS_MAX]:
        runs = listed((vnode_range(*run) for run in task["vnodes"]), 6)
        table.add_row(str(task["task"]), listed(task["units"], 6) or "-", str(task["count"]), runs)
    out.print(table)
    if len(found["tasks"]) > TASKS_MAX:
        out.print(f"and {len(found['tasks']) - TASKS_MAX} tasks more: --json has them all")
