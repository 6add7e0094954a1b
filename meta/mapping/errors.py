from typing import ClassVar

# A group of siblings may have thousands.
_OWNERS_NAMED = 4


class MappingError(ValueError):
    """What `meta.mapping` refuses: `name` is the kebab-case name of the offline forms and of the API.

    The attributes are the facts: few, and ready for JSON. Only a base, as every subclass without a `name`.
    """

    name: ClassVar[str]

    def __init__(self, message: str) -> None:
        assert hasattr(self, "name"), f"{type(self).__name__} is only a base"
        super().__init__(message)

    def __reduce__(self) -> tuple[object, ...]:
        # An exception's own copy would call the subclass with the message, where it takes the facts.
        return _unmade, (type(self), str(self)), vars(self)


class PlanError(MappingError):
    """What a plan would be made from is refused, so none is made and the published version stays. Only a base."""


class Malformed(PlanError):
    """A value of the wrong type, range or form; mappings, units and names refuse it, too, where nobody plans."""

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
            f" register more workers{f', or ask for at most {available}' if available else ''}"
        )


class MalformedPublication(MappingError):
    """Published bytes that are not what this version of vnodemap writes."""

    name = "malformed-publication"


class UnrelatedVnodeCounts(MappingError):
    """`other` is neither a multiple nor a divisor of `vnode_count`; `nearest` are those around it, if any."""

    name = "unrelated-vnode-counts"

    def __init__(self, vnode_count: int, other: int, nearest: tuple[int, ...]) -> None:
        self.vnode_count = vnode_count
        self.other = other
        self.nearest = nearest
        such_as = f", such as {' or '.join(map(str, nearest))}" if nearest else ""
        super().__init__(
            f"{other} is neither a multiple nor a divisor of {vnode_count} vnodes; use one of either{such_as}"
        )


class SiblingsDisagree(MappingError):
    """A vnode count cannot be divided by `factor`: vnodes that would become one have several owners.

    `groups` counts those vnodes-to-be. `first` is the first of them; it has `owner_count` owners, of which `owners`
    are the first few. `possible` is the smallest count on the way that can be had now, None where there is none.
    """

    name = "siblings-disagree"

    def __init__(
        self,
        factor: int,
        groups: int,
        first: int,
        owners: tuple[int | None, ...],
        possible: int | None,
    ) -> None:
        self.factor = factor
        self.groups = groups
        self.first = first
        self.owner_count = len(owners)
        self.owners = owners[:_OWNERS_NAMED]
        self.possible = possible
        named = ", ".join(map(owner_name, self.owners))
        more = f", {self.owner_count - _OWNERS_NAMED} more" if self.owner_count > _OWNERS_NAMED else ""
        instead = "" if possible is None else f", or use a count of {possible}"
        super().__init__(
            f"{groups} of the groups of {factor} sibling vnodes have more than one owner, the first being vnodes"
            f" {first * factor}..{(first + 1) * factor - 1} of {named}{more};"
            f" move each group to one unit first{instead}"
        )


class NotTheBase(MappingError):
    """A diff is applied to another mapping than the one that it starts from; `difference` says how it differs."""

    name = "not-the-base"

    def __init__(self, difference: str) -> None:
        self.difference = difference
        super().__init__(f"{difference}; make a diff from this mapping")


def owner_name(owner: int | None) -> str:
    return "nobody" if owner is None else f"unit {owner}"


def _unmade(kind: type[MappingError], message: str) -> MappingError:
    """What `__reduce__` sets the attributes of."""
    return kind.__new__(kind, message)
