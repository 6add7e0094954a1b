"""`vnodectl fragment`: parts of jobs, each with its own mapping."""

from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from meta.vnodectl.client import Service, path
from meta.vnodectl.session import DEFAULT_SERVER, Server, out
from storage_keys.vnode import VNODE_COUNT_DEFAULT

app = typer.Typer(no_args_is_help=True, help="Fragments: parts of jobs, each with its own mapping.")


def key_field(text: str) -> dict[str, str]:
    """`tailnum:string` as the API wants it."""
    name, colon, type_name = text.rpartition(":")
    if not colon or not name or not type_name:
        raise typer.BadParameter(f"{text!r} is not NAME:TYPE, for example tailnum:string")
    return {"name": name, "type": type_name}


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="The fragment's name.")],
    key: Annotated[
        list[str], typer.Option(help="A column of the distribution key, as NAME:TYPE. Repeat for more.")
    ],
    parallelism: Annotated[int, typer.Option(min=1, help="How many units it starts on.")],
    vnodes: Annotated[int, typer.Option(help="How many vnodes its keys hash to.")] = VNODE_COUNT_DEFAULT,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Create a fragment with its first mapping."""
    request = {
        "name": name,
        "distribution_key": [key_field(column) for column in key],
        "parallelism": parallelism,
        "vnode_count": vnodes,
    }
    with Service(server) as api:
        fragment = api.post("/v1/fragments", request)
    out.print(
        f"fragment {name}: {fragment['vnode_count']} vnodes on {parallelism} units, version {fragment['version']}"
    )


@app.command("list")
def list_(server: Server = DEFAULT_SERVER) -> None:
    """All fragments."""
    with Service(server) as api:
        fragments = api.get("/v1/fragments")
    table = Table("fragment", "vnodes", "key", "version", "phase")
    for fragment in fragments:
        table.add_row(
            fragment["name"],
            str(fragment["vnode_count"]),
            _key(fragment),
            str(fragment["version"]),
            fragment["phase"],
        )
    out.print(table)


@app.command()
def show(
    name: Annotated[str, typer.Argument(help="The fragment's name.")], server: Server = DEFAULT_SERVER
) -> None:
    """One fragment: its version, its units, and who still has to acknowledge."""
    with Service(server) as api:
        fragment = api.get(path("fragments", name))
        progress = api.get(path("fragments", name, "progress"))
        subscribers = api.get(path("fragments", name, "subscribers"))
    out.print(
        f"[bold]{name}[/bold]: {fragment['vnode_count']} vnodes by {_key(fragment)} ({fragment['hash_id']})"
    )
    out.print(f"version {fragment['version']}, {fragment['phase']}")
    late = {applier["id"] for applier in progress["waiting_for"]}
    table = Table("subscriber", "role", "has version", "waited for")
    for subscriber in subscribers:
        table.add_row(
            escape(subscriber["name"]),
            subscriber["role"],
            str(subscriber["acknowledged_version"] or "-"),
            "[yellow]yes[/yellow]" if subscriber["id"] in late else "no",
        )
    out.print(table)


def _key(fragment: Any) -> str:
    """The distribution key, escaped: a column's name may look like markup."""
    return escape(", ".join(f"{field['name']} {field['type']}" for field in fragment["distribution_key"]))
