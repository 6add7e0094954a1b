"""`vnodectl fragment policy`: whether a fragment follows the live units by itself."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from meta.vnodectl.client import path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.options import flattened
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, out, print_json

COOL_DOWN_MS = 60_000


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Whether a fragment shall follow the live units, as options."""

    bounds: Annotated[
        str | None,
        typer.Option("--adaptive", metavar="MIN:MAX", help="Follow the live units within these bounds."),
    ] = None
    cool_down_ms: Annotated[
        int, typer.Option(min=100, help="With --adaptive: the least time between two moves.")
    ] = COOL_DOWN_MS

    @property
    def body(self) -> dict[str, Any] | None:
        """As the API wants it; None where it shall not. Raises `typer.BadParameter`."""
        if self.bounds is None:
            return None
        least, colon, most = self.bounds.partition(":")
        if not (colon and least.isdecimal() and most.isdecimal()):
            raise typer.BadParameter(f"--adaptive takes MIN:MAX, for example 2:8, and not {self.bounds!r}")
        return {"adaptive": {"min": int(least), "max": int(most), "cool_down_ms": self.cool_down_ms}}


@flattened
def policy(
    name: FragmentName,
    adaptive: Adaptive,
    fixed: Annotated[bool, typer.Option("--fixed", help="Move only when somebody rescales it.")] = False,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Say whether a fragment follows the live units by itself.

    Example: vnodectl fragment policy flights --adaptive 2:8
    """
    asked = adaptive.body
    if (asked is None) != fixed:
        raise typer.BadParameter("give either --adaptive MIN:MAX or --fixed")
    with connected(server, as_json=as_json) as api:
        fragment = api.patch(path("fragments", name), {"parallelism": asked or "fixed"})
    if as_json:
        print_json(fragment)
    else:
        out.print(f"{name}: {policy_words(fragment)}")


def policy_words(fragment: Any) -> str:
    """Of a fragment, for people."""
    parallelism = fragment["parallelism"]
    if "adaptive" not in parallelism:
        return f"parallelism {parallelism['fixed']}, changed by a rescale only"
    rule = parallelism["adaptive"]
    why = f"; not now: {fragment['not_now']}" if fragment["not_now"] else ""
    return (
        f"follows the live units, {rule['min']} to {rule['max']} of them, with at least "
        f"{rule['cool_down_ms'] / 1000:g} s between two moves{why}"
    )
