"""Names for the shell to complete, asked of the service; where it is away, there are none."""

from typing import Annotated

import typer

from meta.vnodectl.client import Service, ServiceError, path
from meta.vnodectl.session import DEFAULT_SERVER

# Somebody has pressed Tab and waits.
TIMEOUT_S = 1.0
NAMES_MAX = 1000


def fragment_names(context: typer.Context, incomplete: str) -> list[str]:
    return _names(context, "fragments", incomplete)


def worker_names(context: typer.Context, incomplete: str) -> list[str]:
    return _names(context, "workers", incomplete)


FragmentName = Annotated[
    str, typer.Argument(metavar="FRAGMENT", help="The fragment's name.", autocompletion=fragment_names)
]
WorkerName = Annotated[
    str, typer.Argument(metavar="WORKER", help="The worker's name.", autocompletion=worker_names)
]


def _names(context: typer.Context, noun: str, incomplete: str) -> list[str]:
    try:
        with Service(context.params.get("server") or DEFAULT_SERVER, timeout_s=TIMEOUT_S) as api:
            found = api.items(path(noun), items_max=NAMES_MAX)
    except ServiceError:
        return []
    return [item["name"] for item in found if item["name"].startswith(incomplete)]
