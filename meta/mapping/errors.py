from typing import ClassVar


class MappingError(ValueError):
    """What `meta.mapping` refuses: `name` is the kebab-case name of the offline forms and of the API."""

    name: ClassVar[str]


class PlanError(MappingError):
    """There is no plan for this input, so the published version stays."""


class Malformed(PlanError):
    name = "malformed"


class NoUnits(PlanError):
    name = "no-units"

    def __init__(self) -> None:
        super().__init__("there are no units; register a worker, or name at least one unit")


class NoCapacity(PlanError):
    """Every unit has weight 0."""

    name = "no-capacity"

    def __init__(self, units: int) -> None:
        self.units = units
        super().__init__(f"all {units} units have weight 0 (drain); give at least one a weight above 0")


class MoreUnitsThanVnodes(PlanError):
    """`units` counts those with a weight above 0."""

    name = "more-units-than-vnodes"

    def __init__(self, units: int, vnode_count: int) -> None:
        self.units = units
        self.vnode_count = vnode_count
        super().__init__(
            f"{units} units cannot share {vnode_count} vnodes; use at most {vnode_count} units,"
            " or raise the vnode count"
        )


class NotEnoughUnits(PlanError):
    """`available` counts the live units that are not drained."""

    name = "not-enough-units"

    def __init__(self, parallelism: int, available: int) -> None:
        self.parallelism = parallelism
        self.available = available
        super().__init__(
            f"parallelism {parallelism} needs {parallelism} units and {available} are available;"
            f" register more workers, or ask for at most {available}"
        )


class MalformedPublication(MappingError):
    """Published bytes that are not what this version of vnodemap writes."""

    name = "malformed-publication"
