"""What happens to a unit. Frames come from other units; orders from the coordinator; the rest from its own engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from dispatcher.handover.message import Batch, Frame, Records
from dispatcher.handover.version import K, Version


@dataclass(frozen=True, slots=True)
class Read(Generic[K]):
    """Own records: from a source of this unit, or from its part of the region upstream."""

    batch: Batch[K]


@dataclass(frozen=True, slots=True)
class Advanced:
    """No record that is older than `time` will be read from `source` any more."""

    source: str
    time: int


@dataclass(frozen=True, slots=True)
class Received(Generic[K]):
    sender: int
    frame: Frame[K]


@dataclass(frozen=True, slots=True)
class Opened:
    """The streams to and from a new unit are there; those of an earlier life of it are at their end."""

    unit: int


@dataclass(frozen=True, slots=True)
class Applied(Generic[K]):
    """The answer to the effect `Apply`: every operator that the records were for has them in its state.

    The answers to several come in any order.
    """

    records: Records[K]


@dataclass(frozen=True, slots=True)
class Interrogated(Generic[K]):
    """The answer to the effect `Interrogate`: the keys whose state was here when each operator was asked.

    `chain`: those of each by itself, where there are several, in the order in which records pass through them.
    """

    keys: frozenset[K]
    chain: tuple[frozenset[K], ...] = ()

    @property
    def operators(self) -> tuple[frozenset[K], ...]:
        return self.chain or (self.keys,)


@dataclass(frozen=True, slots=True)
class Collected(Generic[K]):
    """The answer to the effect `Collect`: the key's state, of at least one chunk."""

    key: K
    chunks: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Intent(Generic[K]):
    """The order to upgrade from the base version to `next`, and to give the keys of round 0.

    `rounds`: of the moved keys, where there are several; without them, all are of round 0.
    """

    base: int
    base_digest: str
    next: Version[K]
    rounds: Mapping[K, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Round:
    """The order to give the keys of this round: the state of all before is where it is to be."""

    version: int
    number: int


@dataclass(frozen=True, slots=True)
class Complete:
    """Every unit has acknowledged `version`."""

    version: int


@dataclass(frozen=True, slots=True)
class OpenSource:
    """The order to read a source partition from now on."""

    source: str


@dataclass(frozen=True, slots=True)
class ReleaseSource:
    """The order to read a source partition no longer, and to say when its last record is applied."""

    source: str


@dataclass(frozen=True, slots=True)
class Barrier:
    """The order to read nothing until `Resume`, and to say when the last own record is applied."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Resume:
    """The snapshot is sealed."""


Order = Intent[K] | Round | Complete | OpenSource | ReleaseSource | Barrier | Resume
Obeyed = Intent[K] | Round | Interrogated[K] | Collected[K] | Complete
"""What a protocol has rules for."""
Event = Read[K] | Advanced | Received[K] | Opened | Applied[K] | Interrogated[K] | Collected[K] | Order[K]
