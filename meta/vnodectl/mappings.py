"""`vnodectl mapping` and `vnodectl watch`: mapping versions, to look at."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from meta.etcd.client import EtcdClient
from meta.etcd.reader import KeyReader, Unreachable
from meta.mapping.publication import Current, current_key
from meta.vnodectl.client import ServiceError
from meta.vnodectl.session import DEFAULT_SERVER, Server, err, out, service
from meta.vnodectl.strip import strip

app = typer.Typer(no_args_is_help=True, help="Mapping versions: which unit owns which vnode, and since when.")

FragmentName = Annotated[str, typer.Argument(help="The fragment's name.")]


@app.command()
def show(
    fragment: FragmentName,
    version: Annotated[int | None, typer.Option(help="Which version. Default: the current one.")] = None,
    server: Server = DEFAULT_SERVER,
) -> None:
    """One version as a strip of cells, those that it moved marked."""
    with service(server) as api:
        versions = {found["version"]: found for found in api.get(f"/v1/fragments/{fragment}/versions")}
    wanted = max(versions) if version is None else version
    if wanted not in versions:
        raise ServiceError(f"fragment {fragment} has no version {wanted}; it has 1 to {max(versions)}")
    found = versions[wanted]
    out.print(f"[bold]{fragment}[/bold] version {wanted}: {_moved(found)}")
    out.print(strip(found["owners"], found["previous_owners"]))


@app.command()
def history(fragment: FragmentName, server: Server = DEFAULT_SERVER) -> None:
    """All versions, and when each went through its phases."""
    with service(server) as api:
        versions = api.get(f"/v1/fragments/{fragment}/versions")
    table = Table("version", "units", "moved", "rescaling", "accepted", "settled")
    for version in versions:
        units = ", ".join(str(unit["id"]) for unit in version["units"])
        times = [_time(version["phases"].get(phase)) for phase in ("rescaling", "accepted", "settled")]
        table.add_row(str(version["version"]), units, str(version["moves"]), *times)
    out.print(table)


def watch(fragment: FragmentName, server: Server = DEFAULT_SERVER) -> None:
    """Follow a fragment's versions through etcd as they are published. Ctrl-C ends it."""
    with service(server) as api:
        api.get(f"/v1/fragments/{fragment}")
        etcd = api.get("/v1/coordination")["etcd"]
    key = current_key(fragment, etcd["root"])
    with EtcdClient(etcd["endpoints"]) as client, KeyReader(client, key) as reader:
        shown = None
        for reading in reader:
            if isinstance(reading, Unreachable):
                err.print(reading.reason, style="yellow", markup=False)
                continue
            current = Current.decode(reading.value.value) if reading.value else None
            if current is not None and current != shown:
                now = datetime.now().astimezone()
                out.print(f"{now:%H:%M:%S}  {fragment} version {current.version} {current.phase}")
                shown = current


def _moved(version: dict[str, Any]) -> str:
    if version["previous_version"] is None:
        return "the first mapping"
    return f"moved {version['moves']} of {version['vnode_count']} vnodes from version {version['previous_version']}"


def _time(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC).astimezone():%H:%M:%S.%f}"[:-3]
