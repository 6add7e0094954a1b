"""`vnodectl subscribers`: who follows a fragment, and how far behind."""

from collections.abc import Iterable
from typing import Any

from rich.markup import escape
from rich.table import Table

from meta.vnodectl.client import path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, out, print_json


def subscribers(fragment: FragmentName, as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """Who follows a fragment, the version each has, and who is waited for.

    Example: vnodectl subscribers flights
    """
    with connected(server, as_json=as_json) as api:
        found = api.items(path("fragments", fragment, "subscribers"))
    if as_json:
        print_json({"items": found})
    else:
        out.print(subscribers_table(found) if found else "nobody follows it")


def subscribers_table(found: Iterable[Any]) -> Table:
    table = Table("subscriber", "role", "has version", "lag", "silent", "waited for")
    for subscriber in found:
        table.add_row(
            escape(subscriber["name"]),
            subscriber["role"],
            str(subscriber["acknowledged_version"] or "-"),
            str("-" if subscriber["lag"] is None else subscriber["lag"]),
            f"{subscriber['silent_ms'] / 1000:.1f} s",
            "[yellow]yes[/yellow]" if subscriber["waited_for"] else "no",
        )
    return table
