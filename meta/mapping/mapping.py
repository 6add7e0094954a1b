import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Self

from meta.mapping.errors import Malformed
from meta.mapping.unit import UNIT_ID_MAX
from storage_keys.errors import shown

# A bound against nonsense, far above any fragment's count (storage keys stop at 65,536).
VNODE_COUNT_MAX = 1 << 24

_TEXT_RUN = re.compile(r"(?P<owner>-|[0-9]{1,19})(?:\*(?P<length>[0-9]{1,8}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Run:
    """Adjacent vnodes of one owner; `last` is included."""

    first: int
    last: int
    owner: int | None

    def __len__(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class PartitionGroup:
    """The vnodes of one unit, as one scan partition; each run is one range to open."""

    unit: int
    slot: int
    runs: tuple[Run, ...]


@dataclass(frozen=True, slots=True)
class VnodeMapping:
    """`owners[v]` is the id of the unit that owns vnode v, None where nobody does. Raises `Malformed`."""

    owners: tuple[int | None, ...]

    def __post_init__(self) -> None:
        _require_size(len(self.owners))
        # Types before values: True is equal to 1, and would hide in a set.
        if not set(map(type, self.owners)) <= {int, type(None)}:
            strange = next(o for o in self.owners if type(o) not in (int, type(None)))
            raise Malformed(f"an owner is a unit id or null, not {shown(strange)}")
        ids = {owner for owner in self.owners if owner is not None}
        if ids and not 0 <= min(ids) <= max(ids) <= UNIT_ID_MAX:
            raise Malformed(f"an owner is a unit id from 0 to {UNIT_ID_MAX}, or null")

    @classmethod
    def unowned(cls, vnode_count: int) -> Self:
        _require_size(vnode_count)
        return cls((None,) * vnode_count)

    @classmethod
    def parse(cls, text: str, vnode_count_max: int = VNODE_COUNT_MAX) -> Self:
        """The inverse of `str(mapping)`. Raises `Malformed`, also above `vnode_count_max`."""
        owners: list[int | None] = []
        for word in text.split(" "):
            run = _TEXT_RUN.fullmatch(word)
            if run is None:
                raise Malformed(f"a run of owners is like 7*64, 7 or -*3, not {shown(word)}")
            length = int(run["length"] or 1)
            if len(owners) + length > vnode_count_max:
                raise Malformed(f"the owners are more than {vnode_count_max} vnodes")
            owners.extend([None if run["owner"] == "-" else int(run["owner"])] * length)
        return cls(tuple(owners))

    def __str__(self) -> str:
        """The text form: runs in order of vnodes, `-` where nobody owns: `0*64 1 -*2 2*189`."""
        return " ".join(_run_text(owner, length) for owner, length in self._run_lengths())

    @property
    def vnode_count(self) -> int:
        return len(self.owners)

    @property
    def units(self) -> tuple[int, ...]:
        """The ids of the units that own anything, sorted."""
        return tuple(sorted({owner for owner in self.owners if owner is not None}))

    @property
    def slot_owners(self) -> tuple[int, ...]:
        """The slot of each vnode's owner, its rank among `units`. Raises `Malformed` where a vnode has none."""
        slots = {unit: slot for slot, unit in enumerate(self.units)}
        try:
            return tuple(slots[owner] for owner in self.owners)  # type: ignore[index]
        except KeyError:
            vnode = self.owners.index(None)
            raise Malformed(f"vnode {vnode} has no owner, so no slot; plan a mapping first") from None

    def vnodes_of(self, unit: int) -> tuple[int, ...]:
        return tuple(vnode for vnode, owner in enumerate(self.owners) if owner == unit)

    def runs(self) -> tuple[Run, ...]:
        """Maximal runs in order of vnodes, those of nobody included."""
        runs = []
        first = 0
        for owner, length in self._run_lengths():
            runs.append(Run(first, first + length - 1, owner))
            first += length
        return tuple(runs)

    @property
    def run_count(self) -> int:
        """`len(self.runs())`, without building them."""
        return 1 + sum(before != after for before, after in pairwise(self.owners))

    def partition_groups(self) -> tuple[PartitionGroup, ...]:
        """One group for each of `units`, in order of slots."""
        runs_of: dict[int, list[Run]] = {unit: [] for unit in self.units}
        for run in self.runs():
            if run.owner is not None:
                runs_of[run.owner].append(run)
        return tuple(
            PartitionGroup(unit, slot, tuple(runs)) for slot, (unit, runs) in enumerate(runs_of.items())
        )

    def _run_lengths(self) -> Iterator[tuple[int | None, int]]:
        return ((owner, _length(run)) for owner, run in groupby(self.owners))


def _require_size(vnode_count: int) -> None:
    """Raises `Malformed`. Which counts a fragment may have is `storage_keys`' rule, and narrower."""
    if type(vnode_count) is not int or not 1 <= vnode_count <= VNODE_COUNT_MAX:
        raise Malformed(f"a vnode count is an integer from 1 to {VNODE_COUNT_MAX}, not {shown(vnode_count)}")


def _run_text(owner: int | None, length: int) -> str:
    name = "-" if owner is None else str(owner)
    return name if length == 1 else f"{name}*{length}"


def _length(run: Iterable[object]) -> int:
    return sum(1 for _ in run)
