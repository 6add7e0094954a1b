"""What goes into etcd and comes out of it.

Keys are text here. A foreign key that is not UTF-8 survives as surrogates (`surrogateescape`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class KeyValue:
    """One key as of `mod_revision`, the revision that wrote it last."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The keys asked for, in key order, all as of `revision` of the whole store; `more`: a limit cut them short."""

    revision: int
    cluster_id: int
    values: tuple[KeyValue, ...]
    more: bool = False


@dataclass(frozen=True, slots=True)
class ModRevisionIs:
    """True if the key was last written at `revision`; 0 means that there is no such key."""

    key: str
    revision: int


@dataclass(frozen=True, slots=True)
class Put:
    """Write `value`; with a lease, until that ends."""

    key: str
    value: bytes
    lease: int = 0


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove the key if it is there, and with `until` all keys from it on that come before `until`."""

    key: str
    until: str = ""


@dataclass(frozen=True, slots=True)
class TxnResult:
    """Whether the comparisons held and so the writes were done, and the store's revision after that."""

    succeeded: bool
    revision: int


@dataclass(frozen=True, slots=True)
class Lease:
    """A lease as etcd granted it; it may give a longer time than was asked for."""

    id: int
    ttl_s: int


@dataclass(frozen=True, slots=True)
class Deleted:
    """The key was removed at `mod_revision`."""

    key: str
    mod_revision: int


@dataclass(frozen=True, slots=True)
class Change:
    """All that one revision did to the watched keys."""

    revision: int
    events: tuple[KeyValue | Deleted, ...]
