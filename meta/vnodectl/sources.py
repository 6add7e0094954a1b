"""`vnodectl expand`: which task reads which source partition."""

from typing import Annotated

import typer

from meta.mapping.errors import MappingError
from meta.vnodectl.session import answer_json


def expand(
    offline: Annotated[
        bool,
        typer.Option("--offline", help="Without a service, which is the only way yet: JSON in, JSON out."),
    ] = False,
    lines: Annotated[
        bool, typer.Option("--lines", help="One JSON document a line in, one a line out.")
    ] = False,
) -> None:
    """Assign source partitions to tasks; when a topic has grown, each key stays with its task.

    {"grouper": "partition", "previous": {"Partition 0": [["kafka", "clicks", 0]]}, "partitions": [["kafka", "clicks",
    0], ["kafka", "clicks", 1]]}

    What stands under "tasks" in the answer is "previous" of the next run; the first run has none. The grouper may also
    be "system-stream-partition". Optional: "stateful": false; "joined", groups of streams whose equal keys must meet;
    "broadcast", partitions that every task reads; "algorithm": "modulo".
    """
    if not offline:
        raise typer.BadParameter("use --offline: the service keeps no source assignments yet")
    # Only here: no other command needs it, and it takes a while to load.
    from meta.mapping.expansion_document import expand_offline  # noqa: PLC0415

    answer_json(expand_offline, MappingError, lines=lines)
