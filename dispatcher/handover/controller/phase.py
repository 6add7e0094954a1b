"""The phases of a unit, beside those that every protocol has; while it is `Moving`, it is a distributor and a node."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Self

from dispatcher.handover.controller.arrivals import Arrivals
from dispatcher.handover.message import Records, Sets
from dispatcher.handover.phase import Gone, Leaving
from dispatcher.handover.protocol import Transition as TransitionOf
from dispatcher.handover.version import K, Rescale, Version


@dataclass(frozen=True, slots=True)
class Distributor(Generic[K]):
    """An X: the sets of each node that has sent them, and the own records that wait, by key and in order."""

    sets: Mapping[int, Sets[K]] = field(default_factory=dict)
    held: Mapping[K, tuple[Records[K], ...]] = field(default_factory=dict)

    def with_sets(self, node: int, sets: Sets[K]) -> Self:
        return replace(self, sets={**self.sets, node: sets})

    def with_held(self, records: Records[K]) -> Self:
        key = records.batch.key
        return replace(self, held={**self.held, key: (*self.held.get(key, ()), records)})

    def without_held(self, keys: frozenset[K]) -> tuple[Self, tuple[Records[K], ...]]:
        """And those of `keys`."""
        others = {key: some for key, some in self.held.items() if key not in keys}
        released = tuple(records for key, some in self.held.items() if key in keys for records in some)
        return replace(self, held=others), released


@dataclass(frozen=True, slots=True)
class Asked:
    """A node that waits for SHUTDOWN or SCALEUP of all distributors."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Interrogates its operators for the sets (step 2)."""


@dataclass(frozen=True, slots=True)
class Holding(Generic[K]):
    """Waits for FINAL of `keys` of all distributors; `finals` has those whose has come. `left` are whitelisted."""

    keys: tuple[K, ...]
    left: tuple[K, ...]
    finals: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Passing(Generic[K]):
    """FINAL of `keys` passes through the operators (step 5)."""

    keys: tuple[K, ...]
    left: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class Cutting(Generic[K]):
    """The states of `keys` are cut out; REDISTRIBUTE of the last one names `next`."""

    keys: frozenset[K]
    next: tuple[K, ...]
    left: tuple[K, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """A node that has given all there was, or had nothing to give."""


Node = Asked | Listing | Holding[K] | Passing[K] | Cutting[K] | Given


@dataclass(frozen=True, slots=True)
class Settled(Generic[K]):
    """Routes by `version`. `arrivals` are of the next, should one be under way elsewhere."""

    version: Version[K]
    arrivals: Arrivals[K] = field(default_factory=Arrivals)


@dataclass(frozen=True, slots=True)
class Moving(Generic[K]):
    """Upgraded."""

    rescale: Rescale[K]
    arrivals: Arrivals[K]
    node: Node[K]
    distributor: Distributor[K] = field(default_factory=Distributor)


@dataclass(frozen=True, slots=True)
class Acknowledged(Generic[K]):
    """Nothing of the base version is left here, and others may not be so far. `arrivals` are of the version after."""

    rescale: Rescale[K]
    arrivals: Arrivals[K] = field(default_factory=Arrivals)


Phase = Settled[K] | Moving[K] | Acknowledged[K] | Leaving[K] | Gone[K]
Transition = TransitionOf[Phase[K], K]


def version_of(phase: Phase[K]) -> Version[K]:
    """By which the unit goes: the next one from INTENT on."""
    match phase:
        case Moving(rescale=rescale) | Acknowledged(rescale=rescale):
            return rescale.next
        case Settled(version=version) | Leaving(version=version) | Gone(version=version):
            return version
