"""All vnodes of a mapping in so many groups, one for each task of a scan.

A pure function of the mapping and the number of tasks. A task that reads vnodes of one unit finds their state on one
worker, so a unit is divided only where there are more tasks than units.
"""

from dataclasses import dataclass
from heapq import heapify, heapreplace

import numpy as np

from meta.mapping.errors import Malformed
from meta.mapping.mapping import VNODE_COUNT_MAX, VnodeMapping
from meta.mapping.stretches import Ids
from storage_keys.errors import shown


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The vnodes of one task, as runs of `(first, last)`, both included; `units` own them. It may be empty."""

    task: int
    units: tuple[int, ...]
    runs: tuple[tuple[int, int], ...]
    count: int

    @property
    def unit(self) -> int | None:
        """The one unit; None where there are several, or none."""
        return self.units[0] if len(self.units) == 1 else None


def groups(mapping: VnodeMapping, tasks: int | None = None) -> tuple[TaskGroup, ...]:
    """Every vnode once: one group for each unit that owns any, in order of ids, or `tasks` of them.

    Fewer tasks than units: whole units that follow each other, so that the largest group is as small as can be. More:
    each unit is divided into pieces whose sizes differ by one at most, no group has vnodes of two units, and again
    the largest is as small as can be; more tasks than vnodes leaves the last groups empty. Raises `Malformed`.
    """
    if mapping.array.min() < 0:
        raise Malformed(f"vnode {int(mapping.array.argmin())} has no owner; plan a mapping first")
    if tasks is not None and (type(tasks) is not int or not 1 <= tasks <= VNODE_COUNT_MAX):
        raise Malformed(f"a number of tasks is an integer from 1 to {VNODE_COUNT_MAX}, not {shown(tasks)}")
    units = mapping.units
    order = np.argsort(mapping.array, kind="stable")
    sizes = np.unique(mapping.array, return_counts=True)[1]
    if tasks is None or tasks == len(units):
        parts = [1] * len(units)
    elif tasks > len(units):
        parts = _parts(sizes.tolist(), min(tasks, mapping.vnode_count))
    else:
        return _joined(units, order, sizes, tasks)
    return _divided(units, order.tolist(), sizes.tolist(), parts, tasks or len(units))


def _divided(
    units: tuple[int, ...], order: list[int], sizes: list[int], parts: list[int], tasks: int
) -> tuple[TaskGroup, ...]:
    found: list[TaskGroup] = []
    start = 0
    for unit, size, count in zip(units, sizes, parts, strict=True):
        least, larger = divmod(size, count)
        for piece in range(count):
            end = start + least + (piece < larger)
            found.append(_group(len(found), (unit,), order[start:end]))
            start = end
    return (*found, *(TaskGroup(task, (), (), 0) for task in range(len(found), tasks)))


def _joined(units: tuple[int, ...], order: Ids, sizes: Ids, tasks: int) -> tuple[TaskGroup, ...]:
    ends = np.cumsum(sizes)
    found, first = [], 0
    for task, last in enumerate(_lasts(ends, _smallest_largest(ends, int(sizes.max()), tasks), tasks)):
        start = int(ends[first - 1]) if first else 0
        found.append(_group(task, units[first : last + 1], sorted(order[start : int(ends[last])].tolist())))
        first = last + 1
    return tuple(found)


def _parts(sizes: list[int], tasks: int) -> list[int]:
    """Into how many pieces each unit is divided: always one more where the pieces are the largest."""
    parts = [1] * len(sizes)
    queue = [(-float(size), slot) for slot, size in enumerate(sizes)]
    heapify(queue)
    for _ in range(tasks - len(sizes)):
        slot = queue[0][1]
        parts[slot] += 1
        # A piece of one vnode cannot be divided, and is the last to be.
        heapreplace(queue, (-sizes[slot] / parts[slot], slot))
    return parts


def _smallest_largest(ends: Ids, least: int, tasks: int) -> int:
    """The smallest size such that `tasks` groups of neighbours, none larger, hold all."""
    low, high = least, int(ends[-1])
    while low < high:
        middle = (low + high) // 2
        if _groups_needed(ends, middle) <= tasks:
            high = middle
        else:
            low = middle + 1
    return low


def _groups_needed(ends: Ids, largest: int) -> int:
    needed, begun = 0, 0
    while begun < ends[-1]:
        begun = int(ends[np.searchsorted(ends, begun + largest, "right") - 1])
        needed += 1
    return needed


def _lasts(ends: Ids, largest: int, tasks: int) -> list[int]:
    """The slot of each group's last unit: as many as fit, but one for each group to come."""
    found, begun = [], 0
    for left in range(tasks - 1, -1, -1):
        last = min(int(np.searchsorted(ends, begun + largest, "right")) - 1, len(ends) - 1 - left)
        found.append(last)
        begun = int(ends[last])
    return found


def _group(task: int, units: tuple[int, ...], vnodes: list[int]) -> TaskGroup:
    runs: list[tuple[int, int]] = []
    for vnode in vnodes:
        if runs and runs[-1][1] + 1 == vnode:
            runs[-1] = runs[-1][0], vnode
        else:
            runs.append((vnode, vnode))
    return TaskGroup(task, units, tuple(runs), len(vnodes))
