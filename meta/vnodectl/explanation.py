"""`vnodectl explain`: why each vnode moves, and why fewer moves would not do."""

import math
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Annotated, Any

import typer
from rich.markup import escape
from rich.table import Table

from meta.vnodectl.client import Service, ServiceError, path
from meta.vnodectl.completion import fragment_names
from meta.vnodectl.mappings import vnode_range
from meta.vnodectl.plans import certified
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, listed, out, print_json

TOKEN = re.compile(r"(?P<plan>[0-9a-f]{8,32})\.[0-9a-f]{12}")
ROWS_MAX = 40
VERSIONS_LOOKED_AT = 100


def explain(
    what: Annotated[
        str,
        typer.Argument(
            metavar="FRAGMENT|TOKEN",
            help="A fragment, whose last rescale it is; or a plan's token.",
            autocompletion=fragment_names,
        ),
    ],
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Why each vnode moves, and why fewer moves would not do.

    Example: vnodectl explain flights
    """
    with connected(server, as_json=as_json) as api:
        planned = api.get(path("plans", _plan_of(api, what)))
    reasons = _grouped(planned["moves"])
    givers = _givers(planned["summary"])
    if as_json:
        print_json({"plan": planned, "reasons": reasons, "givers": givers})
        return
    out.print(
        f"[bold]{planned['fragment']}[/bold], plan {planned['token']} on version {planned['base_version']}: "
        f"{certified(planned, len(planned['owners']))}",
        soft_wrap=True,
    )
    for line in _why_not_fewer(planned, givers):
        out.print(line, soft_wrap=True)
    became = planned["applied_version"]
    out.print("nobody has applied it" if became is None else f"it became version {became}")
    out.print(_table(reasons))
    if len(reasons) > ROWS_MAX:
        out.print(f"and {len(reasons) - ROWS_MAX} reasons more: --json has them all")


def _plan_of(api: Service, what: str) -> str:
    token = TOKEN.fullmatch(what)
    if token:
        return token["plan"]
    versions = api.items(
        path("fragments", what, "versions"), {"order": "newest"}, items_max=VERSIONS_LOOKED_AT
    )
    for version in versions:
        if version["plan"]:
            return str(version["plan"])
    raise ServiceError(
        f"no version of {what} that is kept came from a plan; `vnodectl plan {what}` makes one, and "
        "`vnodectl explain TOKEN` explains it",
        "no-plan",
    )


def _grouped(moves: Iterable[Any]) -> list[dict[str, Any]]:
    """Moves of one reason, those of most vnodes first; `vnodes` are runs."""
    vnodes: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    for move in moves:
        vnodes[move["reason"], move["from"], move["to"]].append(move["vnode"])
    groups = [
        {"reason": reason, "from": source, "to": target, "count": len(those), "vnodes": _runs(those)}
        for (reason, source, target), those in vnodes.items()
    ]
    return sorted(groups, key=lambda group: -len(vnodes[group["reason"], group["from"], group["to"]]))


def _runs(vnodes: Iterable[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for vnode in sorted(vnodes):
        if runs and runs[-1][1] == vnode - 1:
            runs[-1][1] = vnode
        else:
            runs.append([vnode, vnode])
    return runs


def _givers(summary: Any) -> list[dict[str, Any]]:
    """The units that have more than they may keep, and what they give."""
    return [
        {
            "unit": unit["unit"],
            "before": unit["before"],
            "keeps": unit["before"] - unit["lost"],
            "gives": unit["lost"],
        }
        | {"fair_share": unit["fair_share"], "gone": unit["worker"] is None}
        for unit in summary["by_unit"]
        if unit["lost"]
    ]


def _why_not_fewer(planned: Any, givers: list[dict[str, Any]]) -> list[str]:
    certificate = planned["certificate"]
    if not givers:
        return ["No unit has to give anything."]
    if certificate["gap"] is None:
        return [
            "Loads are levelled here, not counts: vnodes move from units above the mean to units below it."
        ]
    if "to_version" in planned["goal"]:
        return [
            f"The mapping of version {planned['goal']['to_version']} is asked for as it was, however uneven; the table "
            "says whose each vnode was."
        ]
    if certificate["gap"]:
        return [
            f"{certificate['gap']} of these moves are more than the fewest: they are spent on fewer runs."
        ]
    if planned["remaining_moves"]:
        return [f"A budget limits this step; {planned['remaining_moves']} moves remain for later ones."]
    return [
        f"Each unit may keep its share of vnodes, rounded down or up{_rounding(planned['summary'])}. What is above has "
        "to move:",
        *(f"  {_giver(giver)}" for giver in givers[:ROWS_MAX]),
        *([f"  and {len(givers) - ROWS_MAX} units more"] if len(givers) > ROWS_MAX else ()),
        f"That is {sum(giver['gives'] for giver in givers)} in all, and each goes straight to a unit below its share; "
        f"{certificate['cross_worker_moves']} of them go to another worker.",
    ]


def _rounding(summary: Any) -> str:
    """How many may round up, where all units weigh the same."""
    shares = {unit["fair_share"] for unit in summary["by_unit"] if unit["fair_share"]}
    vnodes, units = summary["vnode_count"], sum(1 for unit in summary["by_unit"] if unit["fair_share"])
    if len(shares) != 1 or vnodes % units == 0:
        return ""
    more = vnodes % units
    return f" ({more} of the {units} units may have {vnodes // units + 1}, the others {vnodes // units})"


def _giver(giver: dict[str, Any]) -> str:
    unit, before, keeps, gives = giver["unit"], giver["before"], giver["keeps"], giver["gives"]
    if giver["gone"]:
        return f"unit {unit} is gone: all its {before} vnodes move"
    if keeps == 0:
        return f"unit {unit} leaves: all its {before} vnodes move"
    share = giver["fair_share"]
    return (
        f"unit {unit} has {before} and its share is {share:.4g}, so at most {math.ceil(share)}: it gives {gives} and "
        f"keeps {keeps}"
    )


def _table(reasons: list[dict[str, Any]]) -> Table:
    table = Table("moves", "from", "to", "vnodes", "why")
    for group in reasons[:ROWS_MAX]:
        runs = listed((vnode_range(*run) for run in group["vnodes"]), 4)
        table.add_row(
            str(group["count"]), str(group["from"]), str(group["to"]), runs, escape(group["reason"])
        )
    return table
