"""`vnodectl abort` and `rollback`: back from a rescale, before and after it was accepted."""

from typing import Annotated

import typer

from meta.vnodectl.client import Service, ServiceError, path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.handover import Handover, Patience
from meta.vnodectl.options import flattened
from meta.vnodectl.rescaling import Way, carry_out
from meta.vnodectl.session import (
    DEFAULT_SERVER,
    Json,
    Server,
    Yes,
    connected,
    out,
    print_json,
)

VERSIONS_LOOKED_AT = 100


def abort(fragment: FragmentName, as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """Take back the rescale under way, as long as no job has accepted it; afterwards, roll back.

    Example: vnodectl abort flights
    """
    with connected(server, as_json=as_json) as api:
        aborted = api.post(path("fragments", fragment, "abort"))
    if as_json:
        print_json({"rescale": aborted})
    else:
        out.print(
            f"the rescale is taken back: {fragment} is at version {aborted['version']}, with the owners of version "
            f"{aborted['base_version']}",
            soft_wrap=True,
        )


@flattened
def rollback(
    fragment: FragmentName,
    handover: Handover,
    patience: Patience,
    to_version: Annotated[
        int | None, typer.Option(min=1, help="Whose mapping to go back to. Default: the version before.")
    ] = None,
    yes: Yes = False,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Go back to an earlier version's mapping: shows what moves, asks, applies and waits.

    Units of that version that are gone are replaced by what the planner chooses.

    Example: vnodectl rollback flights --to-version 3
    """
    way = Way(handover.body, patience, yes=yes, as_json=as_json)
    with connected(server, as_json=as_json) as api:
        target = to_version or _version_before(api, fragment)
        carry_out(api, fragment, {"to_version": target}, way, f"Roll back to version {target}?")


def _version_before(api: Service, fragment: str) -> int:
    """The newest version before the current one that jobs ran on: none that was aborted."""
    current, *earlier = api.items(
        path("fragments", fragment, "versions"), {"order": "newest"}, items_max=VERSIONS_LOOKED_AT
    )
    for version in earlier:
        if "settled" in version["phases"]:
            return int(version["version"])
    raise ServiceError(
        f"{fragment} is at version {current['version']}, and none before it had settled; there is nothing to roll "
        "back to",
        "no-version-before",
    )
