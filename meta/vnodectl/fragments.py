"""`vnodectl fragment`: parts of jobs, each with its own mapping."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from meta.vnodectl.client import path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.options import flattened
from meta.vnodectl.policy import Adaptive, policy_words
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, listed, out, print_json
from meta.vnodectl.subscribers import subscribers_table
from storage_keys.vnode import VNODE_COUNT_DEFAULT

app = typer.Typer(no_args_is_help=True, help="Fragments: parts of jobs, each with its own mapping.")


@dataclass(frozen=True, slots=True)
class Shape:
    """What of a fragment is there from its first mapping on, as options."""

    key: Annotated[
        list[str], typer.Option(help="A column of the distribution key, as NAME:TYPE. Repeat for more.")
    ]
    vnodes: Annotated[int, typer.Option(help="How many vnodes its keys hash to.")] = VNODE_COUNT_DEFAULT
    table_id: Annotated[list[int] | None, typer.Option(min=0, help="A state table's id. Repeat.")] = None
    applier_timeout_ms: Annotated[
        int | None,
        typer.Option(min=100, help="A job that is silent for so long counts as stopped."),
    ] = None

    @property
    def body(self) -> dict[str, Any]:
        timeout_ms = self.applier_timeout_ms
        return {
            "distribution_key": [key_field(column) for column in self.key],
            "vnode_count": self.vnodes,
            "table_ids": self.table_id or [],
            **({} if timeout_ms is None else {"applier_timeout_ms": timeout_ms}),
        }


def key_field(text: str) -> dict[str, str]:
    """`tailnum:string` as the API wants it."""
    name, colon, type_name = text.rpartition(":")
    if not colon or not name or not type_name:
        raise typer.BadParameter(f"{text!r} is not NAME:TYPE, for example tailnum:string")
    return {"name": name, "type": type_name}


@app.command()
@flattened
def create(
    name: Annotated[str, typer.Argument(help="The fragment's name.")],
    shape: Shape,
    adaptive: Adaptive,
    parallelism: Annotated[int | None, typer.Option(min=1, help="How many units it starts on.")] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Create a fragment with its first mapping.

    Example: vnodectl fragment create flights --key tailnum:string --parallelism 3
    """
    follows = adaptive.body
    if (parallelism is None) == (follows is None):
        raise typer.BadParameter("give either --parallelism or --adaptive MIN:MAX")
    request = {"name": name, "parallelism": follows or parallelism, **shape.body}
    with connected(server, as_json=as_json) as api:
        fragment = api.post(path("fragments"), request)
    if as_json:
        print_json(fragment)
    else:
        out.print(
            f"fragment {name}: {fragment['vnode_count']} vnodes on {len(fragment['units'])} units, "
            f"version {fragment['version']}"
        )


@app.command("list")
def list_(
    worker: Annotated[str | None, typer.Option(help="Only those on this worker's units.")] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """All fragments.

    Example: vnodectl fragment list --worker east
    """
    with connected(server, as_json=as_json) as api:
        fragments = api.items(path("fragments"), {"worker": worker})
    if as_json:
        print_json({"items": fragments})
        return
    table = Table("fragment", "vnodes", "units", "key", "version", "phase")
    for fragment in fragments:
        table.add_row(
            fragment["name"],
            str(fragment["vnode_count"]),
            str(len(fragment["units"])),
            _key(fragment),
            str(fragment["version"]),
            fragment["phase"],
        )
    out.print(table)


@app.command()
def show(name: FragmentName, as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """One fragment: its version, its units, and who still has to acknowledge.

    Example: vnodectl fragment show flights
    """
    with connected(server, as_json=as_json) as api:
        fragment = api.get(path("fragments", name))
        progress = api.get(path("fragments", name, "progress"))
        subscribers = api.items(path("fragments", name, "subscribers"))
    if as_json:
        print_json({"fragment": fragment, "progress": progress, "subscribers": subscribers})
        return
    out.print(
        f"[bold]{name}[/bold]: {fragment['vnode_count']} vnodes by {_key(fragment)} ({fragment['hash_id']})",
        soft_wrap=True,
    )
    out.print(f"version {fragment['version']}, {fragment['phase']}, on units {listed(fragment['units'])}")
    for line in _facts(fragment):
        out.print(line)
    out.print(subscribers_table(subscribers) if subscribers else "nobody follows it")


def _facts(fragment: Any) -> list[str]:
    """What is not as usual."""
    lines = [policy_words(fragment)]
    if fragment["table_ids"]:
        lines.append(f"state tables: {listed(fragment['table_ids'])}")
    if fragment["lost_units"]:
        lines.append(f"[red]units lost: {listed(fragment['lost_units'])}[/red]; rescale to others")
    return lines


def _key(fragment: Any) -> str:
    """The distribution key, escaped: a column's name may look like markup."""
    return escape(", ".join(f"{field['name']} {field['type']}" for field in fragment["distribution_key"]))
