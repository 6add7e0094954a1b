"""Many files of small commits into few: which are worth it, and the Spark job that merges them.

Files of a contiguous range of sequences are replaced by others that show the same rows to all readers. Rows get the
last sequence of the range. Changes are needed as long as there are older rows for them to hide: they get the first
one, so that they do not hide those rows. Where the range begins with the first sequence of all, no change is left.

So each part of a range is a range of its own. Where more files overlap than a task can hold open, parts are merged
first, in a commit before the last one.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from dispatcher.table.file import DataFile, Kind
from dispatcher.table.files import WrittenFile, in_row_groups, write_sorted
from dispatcher.table.merge import compacted, merged
from dispatcher.table.sorted_file import Selection, overlap, sorted_rows
from dispatcher.table.writing import Outcome, run
from meta.mapping.groups import groups as groups_of
from meta.mapping.mapping import VnodeMapping
from storage_keys.range import PrefixRun
from storage_keys.vnode import prefixes_of

SEQUENCES_MIN: Final = 4
"""Fewer are not worth a compaction."""

FAN_IN: Final = 128
"""As many overlapping files are merged at once. A row is written once more where there are more, and so on."""

_GROUP_BYTES: Final = 64 * 1024 * 1024
_NO_MAPPING: Final = VnodeMapping((0,) * 4096)


@dataclass(frozen=True, slots=True)
class Compaction:
    """All files of a range of sequences, to be replaced; `whole` if none is older."""

    files: tuple[DataFile, ...]
    whole: bool

    @property
    def rows_sequence(self) -> int:
        return max(file.sequence for file in self.files)

    @property
    def changes_sequence(self) -> int:
        return min(file.sequence for file in self.files)

    def sequence_of(self, kind: Kind) -> int:
        return self.rows_sequence if kind is Kind.ROWS else self.changes_sequence


def plan_compaction(files: Iterable[DataFile], *, force: bool = False) -> Compaction | None:
    """From the oldest commit on that is no larger than all newer ones together; None while these are few.

    So a row is rewritten when what came after it is as much, and what is left before is each time twice as large as
    all after it. With `force`, everything.
    """
    ordered = sorted(files, key=lambda file: (-file.sequence, file.kind, file.path))
    sequences, seen, seen_bytes = 0, 0, 0
    taken = len(ordered) if force else 0
    for at, (_, of_sequence) in enumerate(groupby(ordered, key=lambda file: file.sequence), start=1):
        sizes = [file.size_bytes for file in of_sequence]
        seen += len(sizes)
        if sum(sizes) <= seen_bytes:
            sequences, taken = at, max(taken, seen)
        seen_bytes += sum(sizes)
    if not taken or (sequences < SEQUENCES_MIN and not force):
        return None
    return Compaction(tuple(ordered[:taken]), whole=taken == len(ordered))


def remaining(compaction: Compaction, files: Iterable[DataFile]) -> Compaction | None:
    """The same range of sequences, of what is there of it now."""
    first, last = compaction.changes_sequence, compaction.rows_sequence
    every = list(files)
    left = tuple(file for file in every if first <= file.sequence <= last)
    return Compaction(left, whole=all(file.sequence >= first for file in every)) if left else None


def parts(compaction: Compaction, fan_in: int = FAN_IN) -> tuple[Compaction, ...]:
    """What to merge at once: all of it, or else parts in each of which up to `fan_in` files overlap.

    The oldest sequences are left for the last merge, so that a large first commit is written once.
    """
    if overlap(compaction.files) <= fan_in:
        return (compaction,)
    ordered = sorted(compaction.files, key=lambda file: (-file.sequence, file.first_prefix, file.path))
    found: list[list[DataFile]] = []
    taken: list[DataFile] = []
    for _, of_sequence in groupby(ordered, key=lambda file: file.sequence):
        files = list(of_sequence)
        if overlap([*taken, *files]) <= fan_in:
            taken += files
            continue
        found.append(taken)
        taken = files
        if overlap(files) > fan_in:
            # All of one kind, and changes without a key twice: any of them may be merged. As many would come out of
            # files that have one prefix alone.
            pieces = [files[start : start + fan_in] for start in range(0, len(files), fan_in)]
            found += [piece for piece in pieces if piece[0].first_prefix != piece[-1].last_prefix]
            taken = []
    return tuple(Compaction(tuple(files), whole=False) for files in found if overlap(files) > 1)


def prefix_groups(
    compaction: Compaction, mapping: VnodeMapping | None = None, groups: int | None = None
) -> tuple[tuple[PrefixRun, ...], ...]:
    """All prefixes, each in one of the groups: those of the mapping, or as many as asked for."""
    if mapping is None and groups is None:
        groups = min(1 + sum(file.size_bytes for file in compaction.files) // _GROUP_BYTES, 256)
    mapping = mapping or _NO_MAPPING
    return tuple(
        tuple(PrefixRun(*prefixes_of(first, last, mapping.vnode_count)) for first, last in group.runs)
        for group in groups_of(mapping, groups)
    )


@dataclass(frozen=True, slots=True)
class Merge:
    """What one task does: the rows of some prefixes."""

    compaction: Compaction
    prefixes: tuple[PrefixRun, ...]


def write_compacted(
    spark: SparkSession,
    merges: Sequence[Merge],
    root: str,
    everything: Selection,
    target_bytes: int,
) -> tuple[tuple[WrittenFile, int], ...]:
    """The files that show the same rows, and their sequences: one task for each merge.

    Raises `NotCommitted` where the disk is full.
    """
    options = everything.storage_options

    def write(batches: Iterable[pa.RecordBatch]) -> Outcome:
        (at,) = (number for batch in batches for number in batch["id"].to_pylist())
        selection = replace(everything, runs=merges[at].prefixes)
        files = merges[at].compaction.files
        first = np.array([file.first_prefix for file in files])
        last = np.array([file.last_prefix for file in files])
        touched = [files[number] for number in np.flatnonzero(selection.touches(first, last))]
        written: list[WrittenFile] = []
        for kind in Kind:
            rows = in_row_groups(_rows(touched, selection, kind, whole=merges[at].compaction.whole))
            written += write_sorted(rows, root, f"compacted-{kind}", kind, target_bytes, options)
        return Outcome(tuple(written))

    outcomes = run(spark.range(0, len(merges), 1, len(merges)), write, root, "a compaction", options)
    return tuple(
        (file, merge.compaction.sequence_of(file.kind))
        for merge, outcome in zip(merges, outcomes, strict=True)
        for file in outcome.files
    )


def _rows(
    files: Sequence[DataFile], selection: Selection, kind: Kind, *, whole: bool
) -> Iterator[pa.RecordBatch]:
    """What is left of one kind. The kinds are read one after the other, since each fills files of its own."""
    names = selection.schema.names
    if whole:
        return merged(sorted_rows(files, selection), names) if kind is Kind.ROWS else iter(())
    if all(file.kind is not kind for file in files):
        return iter(())
    return (batch for found, batch in compacted(sorted_rows(files, selection), names) if found is kind)
