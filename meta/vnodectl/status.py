"""`vnodectl status`: the whole picture on one screen."""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.progress_bar import ProgressBar
from rich.table import Table

from meta.vnodectl.client import REFUSED, Away, Service, path
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, err, listed, out, print_json
from meta.vnodectl.workers import state

FRAGMENTS_MAX = 20
WORKERS_MAX = 20
BAR_WIDTH = 30

STATES = {"ok": ("ready", "green"), "degraded": ("degraded", "yellow")}


@dataclass(frozen=True, slots=True)
class Picture:
    """What the service answered; of fragments, those of `looked_at` more closely."""

    readiness: Any
    workers: list[Any]
    fragments: list[Any]
    looked_at: list[dict[str, Any]]

    @property
    def ready(self) -> bool:
        return self.readiness["status"] in STATES

    def document(self) -> dict[str, Any]:
        closer = {found["name"]: found for found in self.looked_at}
        return {
            "service": self.readiness,
            "workers": self.workers,
            "fragments": [{**fragment, **closer.get(fragment["name"], {})} for fragment in self.fragments],
        }


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C.")] = False,
    every_s: Annotated[float, typer.Option("--every", min=0.2, help="With --watch: seconds between.")] = 1.0,
    fragments_max: Annotated[
        int, typer.Option("--fragments", min=1, help="So many fragments, those that need attention first.")
    ] = FRAGMENTS_MAX,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """The service, its workers, fragments and rescales on one screen.

    With --watch and --json, one document a line.

    Example: vnodectl status --watch
    """
    with connected(server, as_json=as_json) as api:
        if watch:
            tell = _print_each if as_json else _show_each
            tell(_pictures(api, fragments_max, every_s))
            return
        picture = take(api, fragments_max)
    if as_json:
        print_json(picture.document())
    else:
        out.print(shown(picture))
    if not picture.ready:
        raise typer.Exit(REFUSED)


def take(api: Service, fragments_max: int) -> Picture:
    """Of a service that is not ready, only why."""
    readiness = api.readiness()
    if readiness["status"] not in STATES:
        return Picture(readiness, [], [], [])
    workers = api.items(path("workers"))
    fragments = sorted(api.items(path("fragments")), key=_calm)
    return Picture(
        readiness, workers, fragments, [_closer(api, fragment) for fragment in fragments[:fragments_max]]
    )


def shown(picture: Picture) -> RenderableType:
    if not picture.ready:
        return _service(picture.readiness)
    parts = [
        _service(picture.readiness),
        _workers(picture.workers),
        _fragments(picture.looked_at, len(picture.fragments)),
    ]
    moving = [fragment for fragment in picture.looked_at if fragment["progress"]]
    if moving:
        parts.append(_rescales(moving))
    return Group(*parts)


def _pictures(api: Service, fragments_max: int, every_s: float) -> Iterator[Picture | Away]:
    """For ever; where the service is away, that."""
    while True:
        try:
            yield take(api, fragments_max)
        except Away as error:
            yield error
        time.sleep(every_s)


def _print_each(pictures: Iterable[Picture | Away]) -> None:
    for picture in pictures:
        if isinstance(picture, Picture):
            print_json(picture.document())
        else:
            err.print(str(picture), style="red", markup=False)


def _show_each(pictures: Iterable[Picture | Away]) -> None:
    with Live(console=out, auto_refresh=False, screen=out.is_terminal) as live:
        for picture in pictures:
            found = shown(picture) if isinstance(picture, Picture) else f"[red]{escape(str(picture))}[/red]"
            live.update(found, refresh=True)


def _calm(fragment: Any) -> tuple[bool, bool, str]:
    """What needs attention comes first."""
    return not fragment["lost_units"], fragment["phase"] == "settled", fragment["name"]


def _closer(api: Service, fragment: Any) -> dict[str, Any]:
    """A fragment with what takes a request of its own."""
    name = fragment["name"]
    mapping = api.get(path("fragments", name, "mapping"), {"form": "runs"})
    vnodes = [unit["vnodes"] for unit in mapping["units"]]
    subscribers = api.items(path("fragments", name, "subscribers"))
    return {
        **fragment,
        "max_over_mean": max(vnodes) * len(vnodes) / sum(vnodes),
        "lag": max((subscriber["lag"] or 0 for subscriber in subscribers), default=0),
        "subscribers": len(subscribers),
        "progress": None if fragment["phase"] == "settled" else api.get(path("fragments", name, "progress")),
    }


def _service(readiness: Any) -> RenderableType:
    # Not ready: a problem's status is its number.
    ready, colour = STATES.get(readiness["status"], ("not ready", "red"))
    ago_ms = readiness["reconciled_ms_ago"]
    compared = "never" if ago_ms is None else f"{ago_ms / 1000:.1f} s ago"
    stores = f"database {readiness['database']}, etcd {readiness['etcd']}, compared {compared}"
    why = f"\n{escape(readiness['detail'])}" if readiness["detail"] else ""
    return f"service [{colour}]{ready}[/{colour}]: {stores}{why}"


def _workers(workers: list[Any]) -> Table:
    table = Table("worker", "units", "alive", "fragments", title=_title("workers", len(workers), WORKERS_MAX))
    for worker in sorted(
        workers, key=lambda worker: (worker["alive"] and not worker["draining"], worker["name"])
    )[:WORKERS_MAX]:
        on_it = listed(worker["fragments"], 4) or "-"
        table.add_row(worker["name"], listed(worker["units"], 8), state(worker), on_it)
    return table


def _fragments(fragments: list[dict[str, Any]], all_of_them: int) -> Table:
    columns = ("fragment", "version", "phase", "units", "max/mean", "followed by", "lag", "note")
    table = Table(*columns, title=_title("fragments", all_of_them, len(fragments)))
    for fragment in fragments:
        settled = fragment["phase"] == "settled"
        table.add_row(
            fragment["name"],
            str(fragment["version"]),
            fragment["phase"] if settled else f"[yellow]{fragment['phase']}[/yellow]",
            str(len(fragment["units"])),
            f"{fragment['max_over_mean']:.2f}",
            str(fragment["subscribers"]),
            str(fragment["lag"]) if not fragment["lag"] else f"[yellow]{fragment['lag']}[/yellow]",
            _note(fragment),
        )
    return table


def _note(fragment: dict[str, Any]) -> str:
    if fragment["lost_units"]:
        return f"[red]lost units {listed(fragment['lost_units'], 4)}[/red]"
    adaptive = fragment["parallelism"].get("adaptive")
    if adaptive is None:
        return ""
    return f"adaptive {adaptive['min']}:{adaptive['max']}" + (
        f", not now: {fragment['not_now']}" if fragment["not_now"] else ""
    )


def _rescales(moving: Iterable[dict[str, Any]]) -> Table:
    table = Table("rescale", "acknowledged", "", "vnodes", "waiting for", title="under way")
    for fragment in moving:
        progress = fragment["progress"]
        late = [applier["name"] for applier in progress["waiting_for"]]
        everybody = progress["acknowledged"] + len(late)
        vnodes = progress["vnodes"]
        table.add_row(
            f"{fragment['name']} {progress['version']}",
            f"{progress['acknowledged']}/{everybody}",
            ProgressBar(total=everybody or 1, completed=progress["acknowledged"], width=BAR_WIDTH),
            f"{vnodes['handed_over']}/{vnodes['moving']}",
            escape(listed(late, 3)) or "-",
        )
    return table


def _title(noun: str, there_are: int, shown_max: int) -> str:
    return noun if there_are <= shown_max else f"{shown_max} of {there_are} {noun}"
