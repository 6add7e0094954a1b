"""What a rescale is asked for, as values: an aim, and how the planner gets there.

Pure. A `Goal` that exists makes sense by itself; whether its units live is found out when it is planned.
"""

from dataclasses import dataclass

from meta.errors import BadGoal
from meta.mapping.quota import Level


@dataclass(frozen=True, slots=True)
class ToParallelism:
    """So many units; the service chooses them."""

    parallelism: int


@dataclass(frozen=True, slots=True)
class OnUnits:
    """Exactly these units."""

    unit_ids: frozenset[int]

    def __post_init__(self) -> None:
        if not self.unit_ids:
            raise BadGoal("units", "it names none; name those that the fragment shall run on")


@dataclass(frozen=True, slots=True)
class ChangedUnits:
    """The units of today, with some more and without some."""

    add: frozenset[int]
    remove: frozenset[int]

    def __post_init__(self) -> None:
        if not self.add and not self.remove:
            raise BadGoal(
                "add_units", "it names none, and remove_units neither; name a unit to add or to remove"
            )
        if both := self.add & self.remove:
            raise BadGoal(
                "remove_units", f"unit {min(both)} is in add_units too; leave it out of one of them"
            )


@dataclass(frozen=True, slots=True)
class SameUnits:
    """The units of today, levelled anew."""


@dataclass(frozen=True, slots=True)
class ToVersion:
    """The mapping that `version` had: a rollback."""

    version: int


@dataclass(frozen=True, slots=True)
class ToVnodeCount:
    """As many vnodes, a multiple or a divisor of today's, each key with its owner of today."""

    vnode_count: int


Aim = ToParallelism | OnUnits | ChangedUnits | SameUnits | ToVersion | ToVnodeCount


@dataclass(frozen=True, slots=True)
class ByCount:
    """Numbers of vnodes are levelled; see `meta.mapping.plan`."""

    level: Level = "units"
    defragment: int = 0


@dataclass(frozen=True, slots=True)
class ByLoad:
    """What the dispatchers report is levelled; see `meta.mapping.load`."""

    count_slack: float = 0.25


@dataclass(frozen=True, slots=True)
class Goal:
    """`weights` of units that are not named stay as they are, 1 for a new unit; 0 drains a unit.

    With `labels` only units of workers that have all of them are chosen. With a `budget` of moves it takes several
    plans, one after the other. Raises `BadGoal`.
    """

    aim: Aim
    measure: ByCount | ByLoad = ByCount()
    budget: int | None = None
    weights: tuple[tuple[int, float], ...] = ()
    labels: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        given = self.measure != ByCount() or self.budget is not None or self.weights or self.labels
        if given and isinstance(self.aim, ToVersion | ToVnodeCount):
            field = "to_version" if isinstance(self.aim, ToVersion) else "vnode_count"
            raise BadGoal(
                field,
                "it says the whole mapping, so nothing is left to choose; leave out weights, level, budget, "
                "defragment, by_load, count_slack and labels, and plan again with these when it has settled",
            )
