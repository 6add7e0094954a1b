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


class UnrelatedVnodeCounts(MappingError):
    """Neither of two vnode counts is a multiple of the other."""

    name = "unrelated-vnode-counts"

    def __init__(self, vnode_count: int, other: int, nearest: tuple[int, ...]) -> None:
        self.vnode_count = vnode_count
        self.other = other
        self.nearest = nearest
        super().__init__(
            f"{other} is neither a multiple nor a divisor of {vnode_count} vnodes; use one of either,"
            f" such as {' or '.join(map(str, nearest))}"
        )


class SiblingsDisagree(MappingError):
    """A vnode count cannot be divided: vnodes that would become one have several owners.

    `groups` counts those vnodes-to-be, `first` is the first of them, of `owners`; `possible` are the divisors
    of `factor` that would do.
    """

    name = "siblings-disagree"

    def __init__(
        self, factor: int, groups: int, first: int, owners: tuple[int | None, ...], possible: tuple[int, ...]
    ) -> None:
        self.factor = factor
        self.groups = groups
        self.first = first
        self.owners = owners
        self.possible = possible
        instead = f", or divide by {' or '.join(map(str, possible))}" if possible else ""
        super().__init__(
            f"{groups} of the groups of {factor} sibling vnodes have more than one owner, the first being vnodes"
            f" {first * factor}..{(first + 1) * factor - 1} of {_named_owners(owners)};"
            f" move each group to one unit first{instead}"
        )


class NotTheBase(MappingError):
    """A diff is applied to another mapping than the one that it starts from."""

    name = "not-the-base"


class OtherOwner(NotTheBase):
    """`vnode` is the first that differs: it has `owner`, and `expected` in the mapping the diff starts from."""

    def __init__(self, vnode: int, owner: int | None, expected: int | None) -> None:
        self.vnode = vnode
        self.owner = owner
        self.expected = expected
        super().__init__(
            f"vnode {vnode} is owned by {owner_name(owner)} and the diff starts from {owner_name(expected)};"
            " make a diff from this mapping"
        )


class OtherVnodeCount(NotTheBase):
    def __init__(self, vnode_count: int, expected: int) -> None:
        self.vnode_count = vnode_count
        self.expected = expected
        super().__init__(
            f"the mapping has {vnode_count} vnodes and the diff starts from {expected};"
            f" change the mapping to {expected} vnodes, or make a diff from it"
        )


def owner_name(owner: int | None) -> str:
    return "nobody" if owner is None else f"unit {owner}"


def _named_owners(owners: tuple[int | None, ...]) -> str:
    """A few of them: a group may have thousands."""
    names = [owner_name(owner) for owner in owners]
    return ", ".join(names if len(names) <= 4 else [*names[:3], f"{len(names) - 3} more"])
