"""How state is handed over in a rescale, and how long a command waits for it, as options."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from meta.rescaling.handover import Order, Protocol, Rounds

PANEL = "Handover"


@dataclass(frozen=True, slots=True)
class Handover:
    protocol: Annotated[
        Protocol | None, typer.Option(help="How live jobs hand state over.", rich_help_panel=PANEL)
    ] = None
    pacing: Annotated[
        Rounds | None,
        typer.Option(help="All moves at once, pairs of units, or --parallel.", rich_help_panel=PANEL),
    ] = None
    parallel: Annotated[
        int | None, typer.Option(min=1, help="So many vnodes at a time.", rich_help_panel=PANEL)
    ] = None
    order: Annotated[
        Order | None, typer.Option(help="Which vnodes move first, by load.", rich_help_panel=PANEL)
    ] = None

    @property
    def body(self) -> dict[str, Any]:
        """Empty where nothing is said, and the service's defaults hold."""
        if self.parallel is not None and self.pacing not in (None, Rounds.PARALLEL):
            raise typer.BadParameter("--parallel goes with --pacing parallel")
        rounds = Rounds.PARALLEL if self.parallel is not None else self.pacing
        pacing = _given({"rounds": rounds, "parallel": self.parallel, "order": self.order})
        if pacing and rounds is None:
            raise typer.BadParameter("--order goes with --pacing; for example --pacing matching")
        if pacing and self.protocol is None:
            raise typer.BadParameter("--pacing goes with --protocol; for example --protocol ordered")
        handover = _given({"protocol": self.protocol, "pacing": pacing or None})
        return {"handover": handover} if handover else {}


@dataclass(frozen=True, slots=True)
class Patience:
    timeout_s: Annotated[
        float, typer.Option("--timeout", min=0.1, help="Wait so many seconds until it settles.")
    ] = 60.0
    wait: Annotated[bool, typer.Option("--wait/--no-wait", help="Or do not wait until it settles.")] = True


def _given(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if value is not None}
