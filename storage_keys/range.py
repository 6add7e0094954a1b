"""Ranges of storage keys: a table, a run of its vnodes, and bounds on the columns below one prefix."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from storage_keys.errors import MalformedKey, ValueOutOfRange
from storage_keys.vnode import PREFIX_COUNT, prefixes_of

HEAD_BYTES: Final = 6
"""Of a key, before its columns: those of `table_bytes` and of `prefix_bytes`."""

_TABLE_ID_MAX: Final = (1 << 32) - 1
_FLIPPED: Final = bytes(range(255, -1, -1))


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `start` up to, and without, `end`. None is no end; an end of `b""` holds nothing."""

    start: bytes
    end: bytes | None

    @property
    def is_empty(self) -> bool:
        return self.end is not None and self.end <= self.start

    def contains(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)

    def intersection(self, other: "KeyRange") -> "KeyRange":
        """What is in both; it may be empty."""
        return KeyRange(max(self.start, other.start), smaller_end(self.end, other.end))

    def below(self, path: bytes) -> "KeyRange":
        """The keys that are `path` and then bytes of this range; without an end, up to the end of the path."""
        return KeyRange(path + self.start, successor(path) if self.end is None else path + self.end)


@dataclass(frozen=True, slots=True)
class PrefixRun:
    """Vnode prefixes from `first` to `last`, both included."""

    first: int
    last: int

    def __post_init__(self) -> None:
        for prefix in (self.first, self.last):
            if not 0 <= prefix < PREFIX_COUNT:
                raise ValueOutOfRange("a vnode prefix", prefix, 0, PREFIX_COUNT - 1)
        if self.first > self.last:
            problem = f"a run of prefixes cannot go from {self.first} down to {self.last}; swap them"
            raise MalformedKey(problem)

    @property
    def prefixes(self) -> range:
        return range(self.first, self.last + 1)


ALL_PREFIXES: Final = PrefixRun(0, PREFIX_COUNT - 1)


def successor(data: bytes) -> bytes | None:
    """The smallest bytes above everything that starts with `data`; None where nothing is above."""
    head = data.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def flipped(data: bytes) -> bytes:
    """Every bit flipped, which puts bytes of one length in the opposite order."""
    return data.translate(_FLIPPED)


def smaller_end(left: bytes | None, right: bytes | None) -> bytes | None:
    """The end that comes first; None, no end, is after all others."""
    if left is None or right is None:
        return right if left is None else left
    return min(left, right)


def table_range(table_id: int) -> KeyRange:
    """All keys of one table."""
    start = table_bytes(table_id)
    return KeyRange(start, successor(start))


def vnode_range(table_id: int, first: int, last: int, vnode_count: int) -> KeyRange:
    """The keys of the vnodes `first` to `last` of a table, both inclusive, when it has `vnode_count`."""
    return prefix_range(table_id, PrefixRun(*prefixes_of(first, last, vnode_count)))


def vnode_ranges(table_id: int, vnodes: Iterable[int], vnode_count: int) -> tuple[KeyRange, ...]:
    """The keys of some vnodes of a table, in any order: one range for each run of adjacent vnodes."""
    runs = merged_runs(PrefixRun(*prefixes_of(vnode, vnode, vnode_count)) for vnode in vnodes)
    return tuple(prefix_range(table_id, run) for run in runs)


def prefix_range(table_id: int, run: PrefixRun) -> KeyRange:
    """The keys of a table whose vnode prefix is in the run."""
    table = table_bytes(table_id)
    return KeyRange(table + prefix_bytes(run.first), successor(table + prefix_bytes(run.last)))


def merged(ranges: Iterable[KeyRange]) -> tuple[KeyRange, ...]:
    """The same keys in as few ranges as there can be: sorted, none empty, none touching the next."""
    found: list[KeyRange] = []
    for one in sorted((one for one in ranges if not one.is_empty), key=lambda one: one.start):
        last = found[-1] if found else None
        if last is None or (last.end is not None and last.end < one.start):
            found.append(one)
        elif last.end is not None and (one.end is None or one.end > last.end):
            found[-1] = KeyRange(last.start, one.end)
    return tuple(found)


def merged_runs(runs: Iterable[PrefixRun]) -> tuple[PrefixRun, ...]:
    """The same prefixes in as few runs as there can be, sorted."""
    found: list[PrefixRun] = []
    for run in sorted(runs, key=lambda run: run.first):
        if found and run.first <= found[-1].last + 1:
            found[-1] = PrefixRun(found[-1].first, max(found[-1].last, run.last))
        else:
            found.append(run)
    return tuple(found)


def table_bytes(table_id: int) -> bytes:
    """The first 4 bytes of a table's keys."""
    if not 0 <= table_id <= _TABLE_ID_MAX:
        raise ValueOutOfRange("a table id", table_id, 0, _TABLE_ID_MAX)
    return table_id.to_bytes(4, "big")


def prefix_bytes(prefix: int) -> bytes:
    """The 2 bytes of a vnode prefix in a key."""
    return prefix.to_bytes(2, "big")
