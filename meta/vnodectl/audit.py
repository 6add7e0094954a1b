"""`vnodectl audit`: who changed what."""

import json
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Column, Table

from meta.vnodectl.client import path
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, local_time, out, print_json


def audit(
    subject: Annotated[str | None, typer.Option(help="Only this fragment, worker or token.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="How many entries, the newest.")] = 50,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Who changed what, the newest first. Needs the role admin.

    Example: vnodectl audit --subject flights
    """
    with connected(server, as_json=as_json) as api:
        entries = api.items(path("audit"), {"subject": subject}, items_max=limit)
    if as_json:
        print_json({"items": entries})
        return
    table = Table(
        "when",
        "who",
        "role",
        Column("did", no_wrap=True),
        "to",
        Column("more", overflow="fold"),
        Column("request", no_wrap=True),
    )
    for entry in entries:
        table.add_row(
            local_time(entry["at_ms"]),
            escape(entry["caller"]),
            entry["role"],
            entry["action"],
            escape(entry["subject"]),
            escape(_words(entry["detail"] or {})),
            entry["request_id"],
        )
    out.print(table)


def _words(detail: Mapping[str, Any]) -> str:
    """`moves 3, version 2`: what is null is left out."""
    return ", ".join(
        f"{name} {value if isinstance(value, str) else json.dumps(value)}"
        for name, value in detail.items()
        if value is not None
    )
