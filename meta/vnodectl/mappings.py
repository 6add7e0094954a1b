"""`vnodectl mapping` and `vnodectl watch`: mapping versions, to look at."""

from datetime import UTC, datetime
from typing import Annotated, Any

import typer
from rich.table import Table

from meta.etcd.client import EtcdClient
from meta.etcd.reader import KeyReader, Reading, Unreachable
from meta.mapping.errors import MalformedPublication
from meta.mapping.publication import Current, current_key
from meta.vnodectl.client import Service, ServiceError, path
from meta.vnodectl.session import DEFAULT_SERVER, Server, err, out
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
    with Service(server) as api:
        if version is None:
            version = api.get(path("fragments", fragment))["version"]
        found = api.get(path("fragments", fragment, "versions", version))
    out.print(f"[bold]{fragment}[/bold] version {version}: {_moved(found)}")
    out.print(strip(found["owners"], found["previous_owners"]))


@app.command()
def history(fragment: FragmentName, server: Server = DEFAULT_SERVER) -> None:
    """All versions, and when each went through its phases."""
    with Service(server) as api:
        versions = api.get(path("fragments", fragment, "versions"))
    table = Table("version", "units", "moved", "rescaling", "accepted", "settled")
    for version in versions:
        units = ", ".join(str(unit["id"]) for unit in version["units"])
        times = [_time(version["phases"].get(phase)) for phase in ("rescaling", "accepted", "settled")]
        table.add_row(str(version["version"]), units, str(version["moves"]), *times)
    out.print(table)


def watch(fragment: FragmentName, server: Server = DEFAULT_SERVER) -> None:
    """Follow a fragment's versions through etcd as they are published. Ctrl-C ends it."""
    with Service(server) as api:
        api.get(path("fragments", fragment))
        etcd = api.get("/v1/coordination")["etcd"]
    try:
        client = EtcdClient(etcd["endpoints"])
    except ValueError as error:
        raise ServiceError(f"the service names an etcd that cannot be read: {error}") from error
    with client, KeyReader(client, current_key(fragment, etcd["root"])) as reader:
        shown = None
        for reading in reader:
            seen = _seen(reading)
            if seen is not None and seen != shown:
                now = datetime.now().astimezone()
                out.print(f"{now:%H:%M:%S}  {fragment} version {seen.version} {seen.phase}")
                shown = seen


def _seen(reading: Reading | Unreachable) -> Current | None:
    """What is published; None, and a word on it, where that is nothing or nothing of ours."""
    if isinstance(reading, Unreachable):
        err.print(reading.reason, style="yellow", markup=False)
        return None
    try:
        return Current.decode(reading.value.value) if reading.value else None
    except MalformedPublication as error:
        err.print(f"what etcd has is not of this vnodemap: {error}", style="yellow", markup=False)
        return None


def _moved(version: dict[str, Any]) -> str:
    if version["previous_version"] is None:
        return "the first mapping"
    return f"moved {version['moves']} of {version['vnode_count']} vnodes from version {version['previous_version']}"


def _time(at_ms: int | None) -> str:
    if at_ms is None:
        return "-"
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC).astimezone():%H:%M:%S.%f}"[:-3]
