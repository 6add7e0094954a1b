"""`vnodectl audit`: who changed what."""

import json
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

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
    table = Table("when", "who", "role", "did", "to", "more", "request")
    for entry in entries:
        table.add_row(
            local_time(entry["at_ms"]),
            escape(entry["caller"]),
            entry["role"],
            entry["action"],
            escape(entry["subject"]),
            escape(json.dumps(entry["detail"])) if entry["detail"] else "",
            entry["request_id"],
        )
    out.print(table)
