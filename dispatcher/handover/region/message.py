"""What a distributor says to the operators of its region. `effect.Interrogate`, `Collect` and `Drop` go as they are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic

from dispatcher.handover.effect import Collect, Drop, Interrogate
from dispatcher.handover.version import K


@dataclass(frozen=True, slots=True)
class Acquire(Generic[K]):
    """The key's state, by the operator that has it; those that have none are not in it."""

    key: K
    states: Mapping[str, bytes]


Message = Interrogate | Collect[K] | Acquire[K] | Drop[K]


@dataclass(frozen=True, slots=True)
class Copy(Generic[K]):
    """One of the copies of a message; `number` is the message's, from 1, in the order in which the head sends."""

    number: int
    message: Message[K]


@dataclass(frozen=True, slots=True)
class Met:
    """An acknowledgement: a copy from `source` has come to `operator`, which has copied it to `targets`."""

    number: int
    source: str
    operator: str
    targets: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetWithKeys(Generic[K]):
    """`add_keys` of the seed: the keys of which the operator has state."""

    met: Met
    keys: frozenset[K]


@dataclass(frozen=True, slots=True)
class MetWithState:
    """`add_state` of the seed. None: the operator has no state of the key."""

    met: Met
    state: bytes | None


Answer = Met | MetWithKeys[K] | MetWithState
