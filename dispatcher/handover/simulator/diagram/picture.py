from dataclasses import fields
from typing import Final

from dispatcher.handover.simulator.diagram.composition import composed
from dispatcher.handover.simulator.diagram.drawing import svg
from dispatcher.handover.simulator.diagram.turns import traced
from dispatcher.handover.simulator.draw import Script
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Run
from dispatcher.handover.simulator.shrink import Failure

SAID: Final = ("protocol", "units_before", "units_after")


def pictured(options: Options, seed: int, *, everything: bool = False) -> str:
    """An SVG of the run. Raises `Unknown`, `TooLarge`."""
    heading = f"{_words(options)}, seed {seed}"
    return _picture(Run(options, seed), heading, everything=everything)


def pictured_failure(failure: Failure, *, everything: bool = False) -> str:
    """Raises `TooLarge`."""
    run = Run(failure.options, failure.seed, draw=Script(failure.lanes))
    heading = f"{_words(failure.options)}, the shortest run found"
    return _picture(run, heading, everything=everything)


def _picture(run: Run, heading: str, *, everything: bool) -> str:
    version = run.world.version
    turns, outcome = traced(run)
    drawn = composed(turns, version, everything=everything)
    return svg(drawn, heading, str(outcome.violation) if outcome.violation else None)


def _words(options: Options) -> str:
    """What is otherwise than if nothing is said comes last."""
    beside = [
        field.name.replace("_", " ") + ("" if value is True else f" {value}")
        for field in fields(options)
        if field.name not in SAID and (value := getattr(options, field.name)) != field.default
    ]
    units = f"{options.units_before} to {options.units_after} units"
    return ", ".join([options.protocol, units, *beside])
