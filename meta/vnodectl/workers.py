"""`vnodectl worker`: worker nodes and their parallel units."""

from typing import Annotated

import typer
from rich.table import Table

from meta.vnodectl.client import Service, path
from meta.vnodectl.session import DEFAULT_SERVER, Server, out

app = typer.Typer(no_args_is_help=True, help="Worker nodes and their parallel units.")


@app.command()
def add(
    name: Annotated[str, typer.Argument(help="The worker's name.")],
    units: Annotated[int, typer.Option(min=1, help="How many parallel units it has.")],
    heartbeat_timeout_ms: Annotated[
        int | None,
        typer.Option(min=100, help="Count it as gone when it is silent for so long. Default: never."),
    ] = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Register a worker with its parallel units."""
    with Service(server) as api:
        worker = api.put(
            path("workers", name), {"parallelism": units, "heartbeat_timeout_ms": heartbeat_timeout_ms}
        )
    out.print(f"worker {worker['name']} has units {', '.join(map(str, worker['units']))}")


@app.command("list")
def list_(server: Server = DEFAULT_SERVER) -> None:
    """The registered workers."""
    with Service(server) as api:
        workers = api.get("/v1/workers")
    table = Table("worker", "units", "alive")
    for worker in workers:
        units = ", ".join(map(str, worker["units"]))
        table.add_row(worker["name"], units, "yes" if worker["alive"] else "[red]no[/red]")
    out.print(table)
