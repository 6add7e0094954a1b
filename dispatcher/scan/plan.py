"""Which unit reads what: a mapping's partition groups as ranges of vnode prefixes, and the files with them.

Pure. The files need not have been written under this mapping, nor under its vnode count.
"""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass

from meta.mapping.mapping import VnodeMapping
from storage_keys.vnode import prefixes_of, vnode_of


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of a table, and the prefixes that its rows have, both ends included."""

    path: str
    first_prefix: int
    last_prefix: int


@dataclass(frozen=True, slots=True)
class Interval:
    """Vnode prefixes from `first` to `last`, both included."""

    first: int
    last: int


@dataclass(frozen=True, slots=True)
class ScanGroup:
    """What partition `slot` reads for `unit`: the rows of `files` whose prefix is in `prefixes`.

    Adjacent vnodes are one interval. A group that an equality leaves nothing to read has neither.
    """

    slot: int
    unit: int
    prefixes: tuple[Interval, ...]
    files: tuple[DataFile, ...]


def plan_scan(
    mapping: VnodeMapping, files: Iterable[DataFile], prefix: int | None = None
) -> tuple[ScanGroup, ...]:
    """One group for each of `mapping.units`, in order of slots; each row of `files` is in exactly one.

    With a `prefix`, only the rows that have it: all groups but one are empty. Raises `Malformed` where a
    vnode has no owner, since its rows would be in no group.
    """
    slot_owners = mapping.slot_owners
    if prefix is None:
        prefixes_of_slot = {
            group.slot: tuple(
                Interval(*prefixes_of(run.first, run.last, mapping.vnode_count)) for run in group.runs
            )
            for group in mapping.partition_groups()
        }
    else:
        slot = slot_owners[vnode_of(prefix, mapping.vnode_count)]
        prefixes_of_slot = {slot: (Interval(prefix, prefix),)}
    files_of = _files_by_slot(prefixes_of_slot, files)
    return tuple(
        ScanGroup(slot, unit, prefixes_of_slot.get(slot, ()), files_of.get(slot, ()))
        for slot, unit in enumerate(mapping.units)
    )


def _files_by_slot(
    prefixes_of_slot: dict[int, tuple[Interval, ...]], files: Iterable[DataFile]
) -> dict[int, tuple[DataFile, ...]]:
    """The files of each slot, by path. One search for each file, however many runs the mapping has."""
    runs = sorted(
        (run.last, run.first, slot) for slot, prefixes in prefixes_of_slot.items() for run in prefixes
    )
    found: dict[int, list[DataFile]] = {}
    for file in sorted(files, key=lambda file: file.path):
        at = bisect_left(runs, (file.first_prefix, -1, -1))
        slots = set()
        while at < len(runs) and runs[at][1] <= file.last_prefix:
            slots.add(runs[at][2])
            at += 1
        for slot in slots:
            found.setdefault(slot, []).append(file)
    return {slot: tuple(of_slot) for slot, of_slot in found.items()}
