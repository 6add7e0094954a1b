"""What a rescale is asked for, as options; the same for `plan` and `rescale`."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

GOALS = "Goal (one of them, or none: level what there is)"
HOW = "How it gets there"


class Level(StrEnum):
    UNITS = "units"
    WORKERS = "workers"


@dataclass(frozen=True, slots=True)
class Goal:
    """Each field is the option of its name; `body` is the API's form."""

    parallelism: Annotated[
        int | None,
        typer.Option(min=1, help="How many units; the service chooses them.", rich_help_panel=GOALS),
    ] = None
    units: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help="Exactly these units, for example 1,3,4.", rich_help_panel=GOALS),
    ] = None
    add_units: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help="These units besides, for example 5,6.", rich_help_panel=GOALS),
    ] = None
    remove_units: Annotated[
        list[str] | None,
        typer.Option(metavar="IDS", help="Without these units, for example 2.", rich_help_panel=GOALS),
    ] = None
    to_version: Annotated[
        int | None, typer.Option(min=1, help="Back to that version's mapping.", rich_help_panel=GOALS)
    ] = None
    vnodes: Annotated[
        int | None,
        typer.Option(min=1, help="Another vnode count: a multiple or divisor.", rich_help_panel=GOALS),
    ] = None
    weight: Annotated[
        list[str] | None,
        typer.Option(metavar="UNIT=W", help="Weigh a unit, for example 3=2.5. Repeat.", rich_help_panel=HOW),
    ] = None
    level: Annotated[
        Level | None, typer.Option(help="Even out units, or workers too.", rich_help_panel=HOW)
    ] = None
    budget: Annotated[
        int | None, typer.Option(min=1, help="At most so many moves in this step.", rich_help_panel=HOW)
    ] = None
    defragment: Annotated[
        int | None, typer.Option(min=0, help="So many moves more for fewer runs.", rich_help_panel=HOW)
    ] = None
    by_load: Annotated[
        bool, typer.Option("--by-load", help="Even out the reported loads.", rich_help_panel=HOW)
    ] = False
    count_slack: Annotated[
        float | None,
        typer.Option(min=0, help="With --by-load: how far counts may be uneven.", rich_help_panel=HOW),
    ] = None
    label: Annotated[
        list[str] | None,
        typer.Option(metavar="K=V", help="Only units of workers with this. Repeat.", rich_help_panel=HOW),
    ] = None

    def body(self) -> dict[str, Any]:
        """Raises `typer.BadParameter` where there are several goals, or nothing is asked for."""
        goals = {
            "parallelism": self.parallelism,
            "units": _ids(self.units, "--units"),
            "to_version": self.to_version,
            "vnode_count": self.vnodes,
            **self._changed_units(),
        }
        asked = {name: value for name, value in goals.items() if value is not None}
        if len(asked) > 1 and set(asked) != {"add_units", "remove_units"}:
            raise typer.BadParameter(
                f"give one goal, not {len(asked)}: --parallelism, --units, --add-units with --remove-units, "
                "--to-version or --vnodes"
            )
        how = {
            "weights": _weights(self.weight) or None,
            "level": self.level.value if self.level else None,
            "budget": self.budget,
            "defragment": self.defragment,
            "by_load": self.by_load or None,
            "count_slack": self.count_slack,
            "labels": labels(self.label) or None,
        }
        asked |= {name: value for name, value in how.items() if value is not None}
        if not asked:
            raise typer.BadParameter(
                "say what to rescale to, for example --parallelism 4, or how to level what there is, for example "
                "--by-load; see --help"
            )
        return asked

    def _changed_units(self) -> dict[str, Any]:
        return {
            "add_units": _ids(self.add_units, "--add-units"),
            "remove_units": _ids(self.remove_units, "--remove-units"),
        }


def labels(texts: Iterable[str] | None) -> dict[str, str]:
    """`zone=a` of each `--label`."""
    return _pairs(texts, "--label")


def _ids(texts: Iterable[str] | None, option: str) -> list[int] | None:
    """`1,3,4`, or the option several times."""
    if texts is None:
        return None
    text = ",".join(texts)
    try:
        return [int(unit) for unit in text.split(",")]
    except ValueError:
        raise typer.BadParameter(f"{option} takes ids with commas between them, not {text!r}") from None


def _pairs(texts: Iterable[str] | None, option: str) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts or ()]
    for name, equals, value in pairs:
        if not (name and equals and value):
            raise typer.BadParameter(f"{option} takes NAME=VALUE, not {name + equals + value!r}")
    return {name: value for name, _, value in pairs}


def _weights(texts: Iterable[str] | None) -> dict[str, float]:
    try:
        return {str(int(unit)): float(weight) for unit, weight in _pairs(texts, "--weight").items()}
    except ValueError as error:
        raise typer.BadParameter(f"--weight takes UNIT=NUMBER, for example 3=2.5: {error}") from None
