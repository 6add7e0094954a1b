"""Which task of a scan reads what: a mapping's vnodes as runs of vnode prefixes, and the files with them.

Pure. The files need not have been written under this mapping, nor under its vnode count.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np

from dispatcher.scan.balance import balanced
from dispatcher.scan.reasons import NAMED_MAX, listed, percent, plural
from dispatcher.scan.statistics import FileStatistics
from dispatcher.table.arrays import Flags, Numbers
from dispatcher.table.file import DataFile
from meta.mapping.errors import Malformed
from meta.mapping.mapping import VnodeMapping
from storage_keys.errors import shown
from storage_keys.pruning import RANGES_MAX_DEFAULT, Pruned
from storage_keys.range import PrefixRun
from storage_keys.vnode import PREFIX_BITS, PREFIX_COUNT, check_vnode_count

TASKS_MAX: Final = PREFIX_COUNT


@dataclass(frozen=True, slots=True)
class ScanGroup:
    """What partition `slot` of a scan reads: the rows of `files` whose prefix is in `prefixes`.

    `prefixes` are sorted and none touches the next. `unit` owns them all; None where several do, or there are none.
    `merges` where a change among `files` may hide a row of another of them, so that they must be read together; where
    not, each row is simply there, but for the `_deleted` ones of files of changes. `bytes_read` is an estimate.

    `needs_lookup` where `prefixes` are more than the plan's `ranges_max`: use `lookup` instead of comparisons.
    `shares_prefix` where its one prefix is that of other groups too, which read the other files of it: only there may
    the rows of one key be in several groups.
    """

    slot: int
    unit: int | None
    prefixes: tuple[PrefixRun, ...]
    files: tuple[DataFile, ...]
    merges: bool
    bytes_read: int
    needs_lookup: bool = False
    shares_prefix: bool = False

    @property
    def lookup(self) -> bytes:
        """65,536 bytes: 1 where the prefix is one of `prefixes`, else 0."""
        found = bytearray(PREFIX_COUNT)
        for run in self.prefixes:
            found[run.first : run.last + 1] = b"\1" * (run.last - run.first + 1)
        return bytes(found)


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """`groups[i]` is what partition i reads. `ranges_opened` counts the intervals of all groups.

    `skew` is the largest group by the mean, empty ones included: in bytes, or in prefixes where no bytes are known.
    `why` is for people.
    """

    groups: tuple[ScanGroup, ...]
    ranges_opened: int
    vnodes_pruned: int
    skew: float
    why: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """The prefixes to read, in order of (slot, prefix), and of each the slot, the vnode, the weight, if it merges."""

    prefixes: Numbers
    slots: Numbers
    vnodes: Numbers
    weights: Numbers
    merging: Flags
    bytes_known: bool


@dataclass(frozen=True, slots=True)
class _Share:
    """The places of prefixes on the axis and their weight; of a single prefix perhaps only in `files`, some of it."""

    at: Numbers
    weight: int
    files: Numbers | None = None


def plan_scan(
    mapping: VnodeMapping,
    files: Iterable[DataFile],
    *,
    tasks: int | None = None,
    pruned: Pruned | None = None,
    ranges_max: int = RANGES_MAX_DEFAULT,
    whole_prefixes: bool = False,
) -> ScanPlan:
    """Each row of `files` whose prefix is in `pruned` (all by default) is in exactly one group.

    Without `tasks`, one group for each of `mapping.units`, in order of slots. Else so many groups, in order of
    (unit, vnode), the largest as small as can be: of whole vnodes, but one that has more than a task's share of the
    bytes is split by prefix, and a prefix that has more by its files, unless changes must be merged there or
    `whole_prefixes` asks for all rows of a distribution key in one group. Groups that nothing is left for are empty,
    and the last. Where no bytes are known, vnodes stay whole.

    The same whatever the order of `files`. Raises `Malformed` where a vnode has no owner, since its rows would be in
    no group, and for `tasks` that are not 1..65536; `BadVnodeCount`.
    """
    check_vnode_count(mapping.vnode_count)
    if tasks is not None and (type(tasks) is not int or not 1 <= tasks <= TASKS_MAX):
        raise Malformed(f"a number of tasks is an integer from 1 to {TASKS_MAX}, not {shown(tasks)}")
    table = FileStatistics.of(files)
    axis = _axis(mapping, table, pruned)
    if tasks is None:
        shares, said = _by_unit(axis, len(mapping.units))
    else:
        shares, said = _divided(axis, table, tasks, whole_prefixes=whole_prefixes)
    groups = _groups(shares, axis, table, mapping.units, ranges_max)
    weights = [share.weight for share in shares]
    vnodes_read = int(np.count_nonzero(np.bincount(axis.vnodes)))
    ranges = sum(len(group.prefixes) for group in groups)
    read = f"{vnodes_read} of {plural(mapping.vnode_count, 'vnode')} are read, in {plural(ranges, 'range')}"
    return ScanPlan(
        groups,
        ranges,
        mapping.vnode_count - vnodes_read,
        max(weights) * len(weights) / sum(weights) if any(weights) else 1.0,
        (*(() if pruned is None else pruned.why), read, *said, *_remarks(groups, ranges_max)),
    )


def _axis(mapping: VnodeMapping, table: FileStatistics, pruned: Pruned | None) -> _Axis:
    wanted = np.full(PREFIX_COUNT, pruned is None)
    for run in () if pruned is None else pruned.prefixes:
        wanted[run.first : run.last + 1] = True
    prefixes = np.flatnonzero(wanted)
    vnodes = prefixes * mapping.vnode_count >> PREFIX_BITS
    slots = np.array(mapping.slot_owners)[vnodes]
    order = np.argsort(slots, kind="stable")
    prefixes = prefixes[order]
    weights = table.weights()[prefixes]
    known = bool(weights.any())
    if not known:
        weights = np.ones_like(prefixes)
    return _Axis(prefixes, slots[order], vnodes[order], weights, table.merging()[prefixes], known)


def _by_unit(axis: _Axis, units: int) -> tuple[list[_Share], list[str]]:
    bounds = np.searchsorted(axis.slots, np.arange(units + 1)).tolist()
    return [_share(axis, np.arange(start, end)) for start, end in pairwise(bounds)], []


def _divided(
    axis: _Axis, table: FileStatistics, tasks: int, *, whole_prefixes: bool
) -> tuple[list[_Share], list[str]]:
    """One share for each task, and what is to be said of them."""
    most = int(axis.weights.sum()) // tasks
    # There are fewer of them than tasks, so that something is left to read for the rest of the axis.
    hot = np.flatnonzero(axis.weights > most) if axis.bytes_known else np.flatnonzero([])
    files_of = {int(at): table.at(int(axis.prefixes[at])) for at in hot}
    whole = axis.merging | whole_prefixes
    shared = [at for at, (places, _) in files_of.items() if len(places) > 1 and not whole[at]]
    rest = np.delete(np.arange(len(axis.prefixes)), shared)
    if shared and not _held(table, axis.prefixes[rest]):
        # The files are all of those prefixes: a task for the others would have nothing to do.
        rest = rest[:0]
    starts, split = _pieces(axis, rest, most)
    lanes = [_sums(axis.weights[rest], starts), *(files_of[at][1] for at in shared)]
    ends, *ends_of_shared = balanced(lanes, tasks)
    bounds = [*starts.tolist(), len(rest)]
    shares = [_share(axis, rest[bounds[first] : bounds[end]]) for first, end in pairwise((0, *ends))]
    for at, piece_ends in zip(shared, ends_of_shared, strict=True):
        places, weights = files_of[at]
        shares += [
            _Share(np.array([at]), int(weights[first:end].sum()), places[first:end])
            for first, end in pairwise((0, *piece_ends))
        ]
    shares.sort(key=lambda share: int(share.at[0]))
    nothing = _share(axis, np.arange(0))
    tasks_of = {at: len(piece_ends) for at, piece_ends in zip(shared, ends_of_shared, strict=True)}
    said = [*_said_of_vnodes(axis, rest, split), *_said_of_prefixes(axis, files_of, tasks_of)]
    return shares + [nothing] * (tasks - len(shares)), said


def _held(table: FileStatistics, prefixes: Numbers) -> bool:
    return len(table.within(*_runs(np.sort(prefixes)))) > 0


def _runs(prefixes: Numbers) -> tuple[Numbers, Numbers]:
    """The first and the last of each run of adjacent prefixes, which are sorted."""
    starts = np.flatnonzero(np.diff(prefixes, prepend=-2) > 1)
    return prefixes[starts], prefixes[np.append(starts[1:], len(prefixes))[: len(starts)] - 1]


def _pieces(axis: _Axis, rest: Numbers, most: int) -> tuple[Numbers, Numbers]:
    """Where the pieces of `rest` start that no task may divide, and the starts of the vnodes that are split.

    A piece is a vnode or, where that has a weight above `most`, one prefix.
    """
    vnodes = axis.vnodes[rest]
    starts = np.flatnonzero(np.diff(vnodes, prepend=-1))
    if not axis.bytes_known:
        return starts, starts[:0]
    hot = _sums(axis.weights[rest], starts) > most
    begins = np.repeat(hot, np.diff(starts, append=len(rest)))
    begins[starts] = True
    return np.flatnonzero(begins), starts[hot]


def _sums(weights: Numbers, starts: Numbers) -> Numbers:
    return np.add.reduceat(weights, starts) if len(starts) else weights[:0]


def _share(axis: _Axis, at: Numbers) -> _Share:
    return _Share(at, int(axis.weights[at].sum()))


def _groups(
    shares: list[_Share], axis: _Axis, table: FileStatistics, units: tuple[int, ...], ranges_max: int
) -> tuple[ScanGroup, ...]:
    found: list[ScanGroup] = []
    weight = 0
    for slot, share in enumerate(shares):
        firsts, lasts = _runs(np.sort(axis.prefixes[share.at]))
        places = table.within(firsts, lasts) if share.files is None else share.files
        slots = axis.slots[share.at[[0, -1]]].tolist() if len(share.at) else [0, 1]
        before, weight = weight, weight + (share.weight if axis.bytes_known else 0)
        found.append(
            ScanGroup(
                slot,
                units[slots[0]] if slots[0] == slots[1] else None,
                tuple(map(PrefixRun, firsts.tolist(), lasts.tolist())),
                tuple(map(table.files.__getitem__, places.tolist())),
                bool(axis.merging[share.at].any()),
                # Differences of whole sums, so that the groups' bytes add up.
                (weight >> table.scale) - (before >> table.scale),
                len(firsts) > ranges_max,
                share.files is not None and len(share.files) < len(table.at(int(firsts[0]))[0]),
            )
        )
    return tuple(found)


def _said_of_vnodes(axis: _Axis, rest: Numbers, split: Numbers) -> list[str]:
    total, vnodes = int(axis.weights.sum()), axis.vnodes[rest[split[:NAMED_MAX]]].tolist()
    names = [
        f"vnode {vnode} ({percent(int(axis.weights[axis.vnodes == vnode].sum()), total)})" for vnode in vnodes
    ]
    if not names:
        return []
    return [f"split by prefix, having more than a task's share of the bytes: {listed(names, len(split))}"]


def _said_of_prefixes(
    axis: _Axis, files_of: dict[int, tuple[Numbers, Numbers]], tasks_of: dict[int, int]
) -> list[str]:
    total, said = int(axis.weights.sum()), []
    for at, (places, _) in files_of.items():
        name = f"prefix {axis.prefixes[at]} has {percent(int(axis.weights[at]), total)} of the bytes"
        if at in tasks_of:
            said.append(f"{name}: {plural(len(places), 'file')} for {plural(tasks_of[at], 'task')}")
        elif axis.merging[at]:
            said.append(f"{name} and stays whole, since changes must be merged there; compact the table")
        elif len(places) > 1:
            said.append(f"{name} and stays whole, as was asked for")
        else:
            said.append(f"{name} and stays whole, being in one file")
    return _cut_off(said)


def _cut_off(said: list[str]) -> list[str]:
    more = len(said) - NAMED_MAX
    return (
        [*said[:NAMED_MAX], f"and so with {plural(more, 'more prefix', 'more prefixes')}"]
        if more > 0
        else said
    )


def _remarks(groups: tuple[ScanGroup, ...], ranges_max: int) -> list[str]:
    lookups = sum(group.needs_lookup for group in groups)
    merges = sum(group.merges for group in groups)
    empty = sum(not group.prefixes for group in groups)
    said = []
    if lookups:
        said.append(
            f"{plural(lookups, 'group')} with more than {plural(ranges_max, 'range')}: by one look-up of the prefix"
        )
    if merges:
        said.append(f"{plural(merges, 'group')} with changes to merge, until the table is compacted")
    if empty:
        said.append(f"{plural(empty, 'group')} with nothing to read")
    return said
