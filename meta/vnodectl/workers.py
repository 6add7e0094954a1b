"""`vnodectl worker`: worker nodes and their parallel units."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from meta.vnodectl.client import path
from meta.vnodectl.completion import WorkerName
from meta.vnodectl.goal import labels
from meta.vnodectl.session import (
    DEFAULT_SERVER,
    Json,
    Server,
    Yes,
    confirm,
    connected,
    listed,
    local_time,
    out,
    print_json,
)

app = typer.Typer(no_args_is_help=True, help="Worker nodes and their parallel units.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The worker's name.")],
    units: Annotated[int, typer.Option(min=1, help="How many parallel units it has.")],
    label: Annotated[
        list[str] | None, typer.Option(metavar="K=V", help="What plans may choose it by. Repeat.")
    ] = None,
    heartbeat_timeout_ms: Annotated[
        int | None,
        typer.Option(min=100, help="Count it as gone when it is silent for so long. Default: never."),
    ] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Register a worker with its parallel units; again to change its labels, all at once, or to add units.

    Example: vnodectl worker add east --units 2 --label zone=a
    """
    request = {
        "parallelism": units,
        "labels": labels(label) if label else None,
        "heartbeat_timeout_ms": heartbeat_timeout_ms,
    }
    with connected(server, as_json=as_json) as api:
        worker = api.put(path("workers", name), request)
    if as_json:
        print_json(worker)
    else:
        said = f", labels {_labels(worker)}" if worker["labels"] else ""
        out.print(f"worker {worker['name']} has units {listed(worker['units'])}{said}", markup=False)


@app.command("list")
def list_(as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """The registered workers.

    Example: vnodectl worker list
    """
    with connected(server, as_json=as_json) as api:
        workers = api.items(path("workers"))
    if as_json:
        print_json({"items": workers})
        return
    table = Table("worker", "units", "alive", "labels", "fragments")
    for worker in workers:
        table.add_row(
            worker["name"],
            listed(worker["units"]),
            state(worker),
            escape(_labels(worker)),
            listed(worker["fragments"], 4) or "-",
        )
    out.print(table)


@app.command()
def show(name: WorkerName, as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """One worker: its units, its labels and the fragments on it.

    Example: vnodectl worker show east
    """
    with connected(server, as_json=as_json) as api:
        worker = api.get(path("workers", name))
    if as_json:
        print_json(worker)
        return
    out.print(f"[bold]{worker['name']}[/bold]: units {listed(worker['units'])}, alive: {state(worker)}")
    out.print(f"labels: {escape(_labels(worker))}")
    out.print(f"registered {local_time(worker['registered_at_ms'])}, seen {local_time(worker['seen_at_ms'])}")
    out.print(f"fragments on it: {listed(worker['fragments']) or 'none'}")


@app.command()
def remove(
    name: WorkerName, yes: Yes = False, as_json: Json = False, server: Server = DEFAULT_SERVER
) -> None:
    """Forget a worker that no fragment is on any more: `vnodectl drain` sees to that first.

    Example: vnodectl worker remove east
    """
    with connected(server, as_json=as_json) as api:
        # Before the question: there may be no such worker.
        api.get(path("workers", name))
        confirm(f"Remove worker {name}? Its units' ids never come back", yes=yes)
        api.delete(path("workers", name))
    if as_json:
        print_json({"removed": name})
    else:
        out.print(f"worker {name} is removed")


def state(worker: Any) -> str:
    """Of a worker, in colours."""
    if worker["draining"]:
        return "[yellow]draining[/yellow]" if worker["alive"] else "[red]no[/red], draining"
    return "yes" if worker["alive"] else "[red]no[/red]"


def _labels(worker: Any) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(worker["labels"].items())) or "-"
