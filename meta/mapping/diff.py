"""What changes between two mappings, and back: rows of (vnode, source, target), as columns.

Mappings of two vnode counts are compared at the larger one where it is a multiple of the other, since no
key changes its owner when a mapping is multiplied.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from meta.mapping.errors import NotTheBase, owner_name
from meta.mapping.mapping import NOBODY, VnodeMapping, require_related
from meta.mapping.stretches import Ids


@dataclass(frozen=True, slots=True)
class ChangedRun:
    """Adjacent vnodes that change from one owner to another; `last` is included, None is nobody."""

    first: int
    last: int
    source: int | None
    target: int | None

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __str__(self) -> str:
        vnodes = f"vnode {self.first}" if self.first == self.last else f"vnodes {self.first}..{self.last}"
        return f"{vnodes}: {owner_name(self.source)} -> {owner_name(self.target)}"


@dataclass(frozen=True, slots=True, eq=False)
class Changes:
    """Vnodes in order, with their owners before and after: read-only copies, `NOBODY` is nobody."""

    vnodes: Ids
    sources: Ids
    targets: Ids

    def __post_init__(self) -> None:
        for name in ("vnodes", "sources", "targets"):
            column = np.array(getattr(self, name), np.int64)
            column.flags.writeable = False
            object.__setattr__(self, name, column)

    def __reduce__(self) -> tuple[object, ...]:
        # An array that is read back as it is could be written to.
        return Changes, (self.vnodes, self.sources, self.targets)

    def __len__(self) -> int:
        return len(self.vnodes)

    def where(self, chosen: npt.NDArray[np.bool_]) -> "Changes":
        return Changes(self.vnodes[chosen], self.sources[chosen], self.targets[chosen])

    @property
    def run_starts(self) -> npt.NDArray[np.intp]:
        """The index, not the vnode, of the first change of each of `runs()`."""
        starts = np.ones(len(self), np.bool_)
        starts[1:] = (np.diff(self.vnodes) != 1) | (np.diff(self.sources) != 0) | (np.diff(self.targets) != 0)
        return np.flatnonzero(starts)

    def runs(self, runs_max: int | None = None) -> tuple[ChangedRun, ...]:
        """Maximal runs in order of vnodes: all of them, or the first `runs_max`."""
        starts = self.run_starts
        firsts = starts[:runs_max]
        lasts = (np.append(starts[1:], len(self)) - 1)[:runs_max] if len(self) else firsts
        columns = (self.vnodes[firsts], self.vnodes[lasts], self.sources[firsts], self.targets[firsts])
        rows = zip(*(column.tolist() for column in columns), strict=True)
        return tuple(
            ChangedRun(first, last, _owner(source), _owner(target)) for first, last, source, target in rows
        )


# No slots: what is cached needs a place.
@dataclass(frozen=True)
class Diff:
    """From `before` to `after`.

    Raises `UnrelatedVnodeCounts` where neither count is a multiple of the other.
    """

    before: VnodeMapping
    after: VnodeMapping

    def __post_init__(self) -> None:
        require_related(self.before.vnode_count, self.after.vnode_count)

    @property
    def vnode_count(self) -> int:
        """The larger of both, at which `changes` number the vnodes."""
        return max(self.before.vnode_count, self.after.vnode_count)

    @cached_property
    def changes(self) -> Changes:
        """All vnodes whose owner changes, at the larger vnode count."""
        sources = self.before.with_vnode_count(self.vnode_count).array
        targets = self.after.with_vnode_count(self.vnode_count).array
        vnodes = np.flatnonzero(sources != targets)
        return Changes(vnodes, sources[vnodes], targets[vnodes])

    @cached_property
    def moves(self) -> Changes:
        """The vnodes that had an owner and have another."""
        return self.changes.where((self.changes.sources != NOBODY) & (self.changes.targets != NOBODY))

    @cached_property
    def assigned(self) -> Changes:
        """The vnodes that nobody owned and somebody owns."""
        return self.changes.where(self.changes.sources == NOBODY)

    @cached_property
    def released(self) -> Changes:
        """The vnodes that somebody owned and nobody owns."""
        return self.changes.where(self.changes.targets == NOBODY)

    def inverse(self) -> "Diff":
        return Diff(self.after, self.before)

    def text(self, runs_max: int = 40) -> str:
        """For people: a line of figures, then one for each run of changes, at most `runs_max` of them."""
        run_count = len(self.changes.run_starts)
        runs = self.changes.runs(runs_max)
        lines = [self._figures(run_count), *map("  {}".format, runs)]
        if run_count > len(runs):
            vnodes = len(self.changes) - sum(map(len, runs))
            lines.append(f"  and more: runs {run_count - len(runs)}, vnodes {vnodes}")
        return "\n".join(lines)

    def _figures(self, run_count: int) -> str:
        before, after = self.before.vnode_count, self.after.vnode_count
        vnodes = (
            f"{before} vnodes"
            if before == after
            else f"{before} -> {after} vnodes, counted as {self.vnode_count}"
        )
        return (
            f"{vnodes}: moves {len(self.moves)}, assigned {len(self.assigned)}, released {len(self.released)},"
            f" runs {run_count}"
        )


def apply(diff: Diff, mapping: VnodeMapping) -> VnodeMapping:
    """`diff.after`, where `mapping` is `diff.before`. Raises `NotTheBase`."""
    base = diff.before
    if mapping.vnode_count != base.vnode_count:
        raise NotTheBase(
            f"the mapping has {mapping.vnode_count} vnodes and the diff starts from {base.vnode_count}"
        )
    differing = np.flatnonzero(mapping.array != base.array)
    if len(differing):
        first = int(differing[0])
        owner, expected = (owner_name(_owner(int(m.array[first]))) for m in (mapping, base))
        raise NotTheBase(f"vnode {first} is owned by {owner} and the diff starts from {expected}")
    return diff.after


def _owner(owner: int) -> int | None:
    return None if owner == NOBODY else owner
