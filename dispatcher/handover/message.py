"""What units say to each other. A frame is one message on the ordered stream of a pair of units."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Generic

from dispatcher.handover.clock import Times
from dispatcher.handover.version import K


class Path(Enum):
    """Which way a batch left its origin, and which credit of the unit there it is counted against."""

    ORDINARY = "ordinary"
    """By the mapping, or to the old owner of a moved key."""
    DIRECT = "direct"
    """To the new owner of a moved key, past the old one."""


@dataclass(frozen=True, slots=True)
class Batch(Generic[K]):
    """Records of one key from one source partition, in its order: `sequences` are their numbers there.

    `size_bytes` is at least 1.
    """

    key: K
    source: str
    sequences: tuple[int, ...]
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Records(Generic[K]):
    """`origin` is the unit whose distributor sent the batch first, and `granter` the unit to which it sent it.

    They are the sender and the receiver, too, but where an old owner forwards: then that is the granter.
    """

    batch: Batch[K]
    origin: int
    granter: int
    path: Path


@dataclass(frozen=True, slots=True)
class Acquire(Generic[K]):
    """Chunk `index` of the `count` that a key's state is cut into; an absent state is one empty chunk.

    `times`: how far the giver was with event time when it collected the state; with the last chunk.
    """

    key: K
    index: int
    count: int
    state: bytes
    times: Times = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Done:
    """The sender is upgraded; Acquire and all held records of all its moved keys are on their streams."""


@dataclass(frozen=True, slots=True)
class Flush:
    """The last of the sender's old traffic to this unit."""


@dataclass(frozen=True, slots=True)
class Flushed:
    """The sender, a giver, has forwarded all old traffic of `origin`."""

    origin: int


@dataclass(frozen=True, slots=True)
class Shutdown:
    """The sender, a distributor, is upgraded; the receiver gives all its keys. The sender's records of them wait."""


@dataclass(frozen=True, slots=True)
class Scaleup:
    """As `Shutdown`, for a node that stays: it gives the keys that the next mapping gives to others."""


@dataclass(frozen=True, slots=True)
class Sets(Generic[K]):
    """The keys that the sender, a node, gives and has state of: those to send to it, and those to hold."""

    whitelist: frozenset[K]
    hold: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class Final(Generic[K]):
    """The last record of `keys` from the sender, a distributor, is in front of this."""

    keys: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class Redistribute(Generic[K]):
    """Chunk `index` of the `count` of a key's state, for its new owner; of no chunk, where there is no state.

    `next`: the keys to hold next, if any, with the last chunk of the last key of a FINAL; otherwise None.
    """

    key: K
    index: int
    count: int
    state: bytes
    next: tuple[K, ...] | None = None


@dataclass(frozen=True, slots=True)
class Watermark:
    """The sender has sent all records of `source` that are older than `time`."""

    source: str
    time: int


@dataclass(frozen=True, slots=True)
class RelayedWatermark:
    """The sender, a giver, has forwarded all records of `source` that are older than `time`."""

    source: str
    time: int


@dataclass(frozen=True, slots=True)
class Credit:
    """A batch that was counted against what `granter` gives for `path` has been applied."""

    granter: int
    path: Path
    source: str
    size_bytes: int


Control = (
    Done
    | Flush
    | Flushed
    | RelayedWatermark
    | Shutdown
    | Scaleup
    | Sets[Any]
    | Final[Any]
    | Redistribute[Any]
)
Message = Records[K] | Acquire[K] | Control | Credit | Watermark


@dataclass(frozen=True, slots=True)
class Frame(Generic[K]):
    """`version` and `digest` are the mapping's by which the sender goes; `number` counts on the stream, from 0."""

    execution: int
    version: int
    digest: str
    number: int
    message: Message[K]
