"""The phases of a unit, each with its own data, beside those that every protocol has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic

from dispatcher.handover.clock import Times
from dispatcher.handover.message import Records
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.phase import Gone, Leaving
from dispatcher.handover.protocol import Transition as TransitionOf
from dispatcher.handover.version import K, Rescale, Version


@dataclass(frozen=True, slots=True)
class Settled(Generic[K]):
    """Routes by `version`. `arrivals` are of the next, should one be under way elsewhere."""

    version: Version[K]
    arrivals: Arrivals[K] = field(default_factory=Arrivals)


@dataclass(frozen=True, slots=True)
class Giving(Generic[K]):
    """Upgraded, and still has state to give.

    The state of the keys in `held` is being cut out of the operators, all at once, and their records wait there;
    `times` is event time when that began. `leaving` are the keys of each round; those of rounds after `round` are here,
    and the others are given.
    """

    rescale: Rescale[K]
    arrivals: Arrivals[K]
    leaving: Mapping[int, Sequence[K]]
    round: int
    held: Mapping[K, tuple[Records[K], ...]]
    times: Times


@dataclass(frozen=True, slots=True)
class Given(Generic[K]):
    """Upgraded, and has given all there was; relays each FLUSH as it comes, and takes what others give."""

    rescale: Rescale[K]
    arrivals: Arrivals[K]


@dataclass(frozen=True, slots=True)
class Acknowledged(Generic[K]):
    """Nothing of the base version is left here, and others may not be so far. `arrivals` are of the version after."""

    rescale: Rescale[K]
    arrivals: Arrivals[K] = field(default_factory=Arrivals)


Phase = Settled[K] | Giving[K] | Given[K] | Acknowledged[K] | Leaving[K] | Gone[K]
Transition = TransitionOf[Phase[K], K]


def version_of(phase: Phase[K]) -> Version[K]:
    """By which the unit goes: the next one from INTENT on."""
    match phase:
        case Giving(rescale=rescale) | Given(rescale=rescale) | Acknowledged(rescale=rescale):
            return rescale.next
        case Settled(version=version) | Leaving(version=version) | Gone(version=version):
            return version
