"""`vnodectl scan`: which task of a scan reads what."""

import typer

from meta.vnodectl.keys import Lines
from meta.vnodectl.session import answer_json
from storage_keys.errors import StorageKeyError

app = typer.Typer(no_args_is_help=True, help="Plan scans of state tables: JSON in, JSON out.")


@app.command()
def explain(lines: Lines = False) -> None:
    """Which vnodes and ranges of keys each task of a scan reads, and why.

    {"vnode_count": 4, "owners": [0, 0, 1, 1], "table_id": 7, "schema": [{"name": "k", "type": "bigint"}], "key":
    [{"name": "k"}], "distribution": ["k"], "filters": [["k", "in", [5, 6]]]}

    Without "tasks", one group for each unit. "stats", like [{"vnode": 0, "bytes": 1000}], balance the groups by bytes.
    Filters are ["k", "=", 5] (also <=>, <, <=, >, >=), ["k", "in", [1, 2]], ["k", "between", 1, 5], ["s", "like",
    "abc%"], ["t", "is null"], ["t", "is not null"].
    """
    # Only here: no other command needs it, and it takes a while to load.
    from dispatcher.scan.explain import explain as explained  # noqa: PLC0415

    answer_json(explained, StorageKeyError, lines=lines)
