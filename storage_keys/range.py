"""Ranges of storage keys: a table, or a run of its vnodes, is one range of bytes."""

from dataclasses import dataclass
from typing import Final

from storage_keys.errors import ValueOutOfRange
from storage_keys.vnode import prefixes_of

_TABLE_ID_MAX: Final = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class KeyRange:
    """The keys from `start` up to, and without, `end`. None is no end; an end of `b""` holds nothing."""

    start: bytes
    end: bytes | None

    def contains(self, key: bytes) -> bool:
        return self.start <= key and (self.end is None or key < self.end)


def successor(data: bytes) -> bytes | None:
    """The smallest bytes above everything that starts with `data`; None where nothing is above."""
    head = data.rstrip(b"\xff")
    return head[:-1] + bytes((head[-1] + 1,)) if head else None


def table_range(table_id: int) -> KeyRange:
    """All keys of one table."""
    start = table_bytes(table_id)
    return KeyRange(start, successor(start))


def vnode_range(table_id: int, first: int, last: int, vnode_count: int) -> KeyRange:
    """The keys of the vnodes `first` to `last` of a table, both inclusive, when it has `vnode_count`."""
    table = table_bytes(table_id)
    first_prefix, last_prefix = prefixes_of(first, last, vnode_count)
    return KeyRange(table + prefix_bytes(first_prefix), successor(table + prefix_bytes(last_prefix)))


def table_bytes(table_id: int) -> bytes:
    """The first 4 bytes of a table's keys."""
    if not 0 <= table_id <= _TABLE_ID_MAX:
        raise ValueOutOfRange("a table id", table_id, 0, _TABLE_ID_MAX)
    return table_id.to_bytes(4, "big")


def prefix_bytes(prefix: int) -> bytes:
    """The 2 bytes of a vnode prefix in a key."""
    return prefix.to_bytes(2, "big")
