"""What a reader sees of files that replace rows of each other: a merge of sorted streams, in pure Arrow.

For a storage key, let s be the greatest sequence among its changes: shown are that change's row, unless it deletes,
and the rows whose sequence is greater than s. Where no change has the key, all its rows are shown.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dispatcher.table.arrays import Flags, Numbers
from dispatcher.table.file import DELETED, STORAGE_KEY, Kind

_NEVER: Final = -1
"""The sequence of a change that there is not: smaller than all others."""

_ENTIRE_BYTES_MAX: Final = 32 << 20
"""Of sources that are one batch: up to so much they are held together, and then merged in one step."""


@dataclass(frozen=True, slots=True)
class SortedRows:
    """Rows of one sequence in the order of their storage keys; `batches` are taken once, when their turn comes.

    All sources of a merge have the same columns, `_storage_key` among them; changes have `_deleted` as well, and
    no key twice. No key is smaller than `starts_at`: until the merge is there, no batch is taken.
    """

    batches: Iterable[pa.RecordBatch]
    sequence: int
    kind: Kind
    starts_at: bytes = b""


def merged(sources: Iterable[SortedRows], columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows that a reader sees, `columns` of them (at least one), in the order of their storage keys.

    Held is one batch of each source that overlaps, and one more where a source begins, however often a key comes; of
    sources that are one batch, those that begin behind them too, up to 32 MiB.
    """
    for step in _steps(sources, columns):
        yield from step.table.take(np.flatnonzero(~step.deleted)).to_batches()


def compacted(sources: Iterable[SortedRows], columns: Sequence[str]) -> Iterator[tuple[Kind, pa.RecordBatch]]:
    """The same for readers of older files too: the newest change of each key, and the rows that it leaves.

    Each kind is in the order of its keys. CHANGES have `_deleted` after `columns`. They must get a sequence smaller
    than that of the ROWS, which they would hide otherwise.
    """
    for step in _steps(sources, columns):
        changes = step.table.append_column(DELETED, pa.array(step.deleted))
        for batch in changes.take(np.flatnonzero(step.changes)).to_batches():
            yield Kind.CHANGES, batch
        for batch in step.table.take(np.flatnonzero(~step.changes)).to_batches():
            yield Kind.ROWS, batch


@dataclass(frozen=True, slots=True)
class _Step:
    """The rows of some range of keys that no change hides, and newest changes, in the order of keys."""

    table: pa.Table
    changes: Flags
    deleted: Flags


@dataclass(frozen=True, slots=True)
class _Newest:
    """The greatest sequence among the changes of a key."""

    key: bytes
    sequence: int


class _Held:
    """A batch of a source, and the batches that come after it, if any do for all that is known."""

    def __init__(
        self, source: SortedRows, batch: pa.RecordBatch, rest: Iterator[pa.RecordBatch] | None
    ) -> None:
        self.source = source
        self.goes_on = rest is not None
        self.first, self.last = _key(batch, 0), _key(batch, len(batch) - 1)
        self._batch = batch
        self._rest = rest

    @property
    def size_bytes(self) -> int:
        size: int = self._batch.nbytes
        return size

    def split(self, cut: bytes) -> tuple[pa.RecordBatch, "_Held | None"]:
        """The rows up to `cut` and those of its key, as far as the batch has them; and what is left then."""
        end = bisect_right(range(len(self._batch)), cut, key=lambda at: _key(self._batch, at))
        rest = self._batch.slice(end)
        left = _Held(self.source, rest, self._rest) if len(rest) else _next(self.source, self._rest)
        return self._batch.slice(0, end), left


class _Reach:
    """Up to which key what is held may be merged: behind it, more rows may come of a source that goes on.

    Entire sources end nothing until they are too many to wait for others.
    """

    def __init__(self, held: Iterable[_Held]) -> None:
        self._going_on: bytes | None = None
        self._entire: bytes | None = None
        self._entire_bytes = 0
        for one in held:
            self.add(one)

    def add(self, one: _Held) -> None:
        if one.goes_on:
            self._going_on = _smaller(self._going_on, one.last)
        else:
            self._entire = _smaller(self._entire, one.last)
            self._entire_bytes += one.size_bytes

    @property
    def end(self) -> bytes | None:
        """None where there is none."""
        if self._entire is None or self._entire_bytes <= _ENTIRE_BYTES_MAX:
            return self._going_on
        return _smaller(self._going_on, self._entire)


def _smaller(one: bytes | None, other: bytes) -> bytes:
    return other if one is None else min(one, other)


def _begun(source: SortedRows) -> _Held | None:
    """With a second look, so that of a source of one batch nothing stays open, and it limits no step."""
    batches = (batch for batch in source.batches if len(batch))
    first = next(batches, None)
    if first is None:
        return None
    second = next(batches, None)
    return _Held(source, first, None if second is None else chain((second,), batches))


def _next(source: SortedRows, batches: Iterator[pa.RecordBatch] | None) -> _Held | None:
    found = None if batches is None else next(batches, None)
    return None if found is None else _Held(source, found, batches)


def _key(batch: pa.RecordBatch, at: int) -> bytes:
    found: bytes = batch[STORAGE_KEY][at].as_py()
    return found


def _steps(sources: Iterable[SortedRows], columns: Sequence[str]) -> Iterator[_Step]:
    """Up to the smallest key that a held batch ends with behind which its source goes on, again and again.

    Rows of that very key may follow, but no change of it: a source of changes that had one would have it in its
    batch, and no key twice. So the last key's newest change is all that a step has to know of those before it.
    """
    waiting = sorted(sources, key=lambda source: source.starts_at, reverse=True)
    held: list[_Held] = []
    before: _Newest | None = None
    while waiting or held:
        reach = _Reach(held)
        while waiting and (reach.end is None or waiting[-1].starts_at <= reach.end):
            begun = _begun(waiting.pop())
            if begun is not None:
                held.append(begun)
                reach.add(begun)
        if not held:
            break
        cut = max(one.last for one in held) if reach.end is None else reach.end
        split = [(one.source, *one.split(cut)) for one in held if one.first <= cut]
        held = [one for one in held if one.first > cut] + [left for _, _, left in split if left is not None]
        step, before = _step([(source, head) for source, head, _ in split], columns, before)
        yield step


def _step(
    heads: Sequence[tuple[SortedRows, pa.RecordBatch]], columns: Sequence[str], before: _Newest | None
) -> tuple[_Step, _Newest]:
    keys = pa.chunked_array([head[STORAGE_KEY] for _, head in heads])
    order = _order(keys)
    keys = keys.take(order)
    lengths = [len(head) for _, head in heads]
    sequences = np.repeat([source.sequence for source, _ in heads], lengths)[order]
    changes = np.repeat([source.kind is Kind.CHANGES for source, _ in heads], lengths)[order]
    deleted = np.concatenate([_deleted(source, head) for source, head in heads])[order]
    newest = _newest(keys, np.where(changes, sequences, _NEVER), before)
    live = np.where(changes, sequences == newest, sequences > newest)
    table = pa.Table.from_batches([head.select(columns) for _, head in heads])
    step = _Step(table.take(order[live]), changes[live], deleted[live])
    return step, _Newest(keys[-1].as_py(), int(newest[-1]))


def _order(keys: pa.ChunkedArray) -> Numbers:
    if keys.num_chunks == 1:
        return np.arange(len(keys))
    # As a table, since only then do the sorted chunks stay what they are, and are merged.
    order: Numbers = (
        pc.sort_indices(pa.table({"key": keys}), [("key", "ascending")]).to_numpy().astype(np.int64)
    )
    return order


def _deleted(source: SortedRows, head: pa.RecordBatch) -> Flags:
    if source.kind is Kind.ROWS:
        return np.zeros(len(head), dtype=bool)
    found: Flags = head[DELETED].fill_null(pa.scalar(value=False)).to_numpy(zero_copy_only=False)
    return found


def _newest(keys: pa.ChunkedArray, changed: Numbers, before: _Newest | None) -> Numbers:
    """For each of the sorted keys the greatest of its `changed`."""
    starts = np.ones(len(keys), dtype=bool)
    starts[1:] = pc.not_equal(keys.slice(1), keys.slice(0, len(keys) - 1)).to_numpy()
    newest = np.maximum.reduceat(changed, np.flatnonzero(starts))
    if before is not None and keys[0].as_py() == before.key:
        newest[0] = max(newest[0], before.sequence)
    found: Numbers = newest[np.cumsum(starts) - 1]
    return found
