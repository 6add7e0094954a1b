"""`vnodectl loads`: what jobs report of their vnodes, by unit."""

from typing import Any

from rich.bar import Bar
from rich.table import Table

from meta.vnodectl.client import path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, local_time, out, print_json

BAR_WIDTH = 40
UNITS_MAX = 40


def loads(fragment: FragmentName, as_json: Json = False, server: Server = DEFAULT_SERVER) -> None:
    """The load of each unit, as jobs report it, and whether it is worth a rescale.

    Example: vnodectl loads flights
    """
    with connected(server, as_json=as_json) as api:
        found = api.get(path("fragments", fragment, "loads"))
    if as_json:
        print_json(found)
        return
    if found["max_over_mean"] is None:
        out.print(f"{fragment}: {found['reason']}", markup=False)
        return
    reporting = sum(1 for reporter in found["reporters"] if reporter["counts"])
    out.print(_units(found["units"]))
    out.print(f"the largest is {found['max_over_mean']:.2f} times the mean; {reporting} report")
    out.print(found["reason"], markup=False)
    if found["exceeded_since_ms"] is not None:
        out.print(f"uneven since {local_time(found['exceeded_since_ms'])}")


def _units(units: list[Any]) -> Table:
    most = max((unit["load"] for unit in units), default=0.0)
    mean = sum(unit["load"] for unit in units) / len(units) if units else 0.0
    shown = sorted(units, key=lambda unit: -unit["load"])[:UNITS_MAX]
    more = f", the first {UNITS_MAX} of {len(units)}" if len(units) > UNITS_MAX else ""
    table = Table("unit", "load", "/ mean", f"the largest first{more}")
    for unit in shown:
        times = f"{unit['load'] / mean:.2f}" if mean else "-"
        bar = Bar(size=most or 1.0, begin=0, end=unit["load"], width=BAR_WIDTH)
        table.add_row(str(unit["id"]), f"{unit['load']:.4g}", times, bar)
    return table
