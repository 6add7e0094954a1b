from dataclasses import fields
from typing import Final

from dispatcher.handover.simulator.diagram.composition import composed
from dispatcher.handover.simulator.diagram.drawing import svg
from dispatcher.handover.simulator.diagram.turns import traced
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Outcome, Run

SAID: Final = ("protocol", "units_before", "units_after")


def pictured(run: Run, which: str, *, everything: bool = False) -> tuple[str, Outcome]:
    """An SVG of a run that has not begun; `which` it is stands above. Raises `TooLarge`."""
    version = run.world.version
    turns, outcome = traced(run)
    drawn = composed(turns, version, everything=everything)
    broken = str(outcome.violation) if outcome.violation else None
    return svg(drawn, f"{_words(run.options)}, {which}", broken), outcome


def _words(options: Options) -> str:
    """What is otherwise than if nothing is said comes last."""
    beside = [
        field.name.replace("_", " ") + ("" if value is True else f" {value}")
        for field in fields(options)
        if field.name not in SAID and (value := getattr(options, field.name)) != field.default
    ]
    units = f"{options.units_before} to {options.units_after} units"
    return ", ".join([options.protocol, units, *beside])
