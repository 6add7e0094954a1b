"""The phases of a unit, each with its own data, beside those that every protocol has."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic

from dispatcher.handover.icadd.arrivals import Arrivals
from dispatcher.handover.message import Records
from dispatcher.handover.phase import Gone, Leaving
from dispatcher.handover.protocol import Transition as TransitionOf
from dispatcher.handover.version import K, Rescale, Version


@dataclass(frozen=True, slots=True)
class Settled(Generic[K]):
    """Goes by `version`. `arrivals` are of the next, should one be under way elsewhere."""

    version: Version[K]
    arrivals: Arrivals[K] = field(default_factory=Arrivals)


@dataclass(frozen=True, slots=True)
class Interrogating(Generic[K]):
    """Goes by the base version, and waits for the operators. `whitelist`: the leaving keys that records were met of."""

    rescale: Rescale[K]
    arrivals: Arrivals[K]
    whitelist: frozenset[K] = frozenset()


@dataclass(frozen=True, slots=True)
class Collecting(Generic[K]):
    """Upgraded, and has state to give.

    `whitelist`: the keys with state here that has to leave, and in which `order`. `hold`: those whose state is being
    cut out, with their records.
    """

    rescale: Rescale[K]
    arrivals: Arrivals[K]
    whitelist: frozenset[K]
    order: tuple[K, ...]
    hold: Mapping[K, tuple[Records[K], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Given(Generic[K]):
    """Has said Done, or is new and has nothing to give; goes by the rules of Collection with both sets empty."""

    rescale: Rescale[K]
    arrivals: Arrivals[K]


@dataclass(frozen=True, slots=True)
class Finished(Generic[K]):
    """All of W have said Done: goes by F', and waits for what others sent before they did."""

    rescale: Rescale[K]
    arrivals: Arrivals[K]


@dataclass(frozen=True, slots=True)
class Acknowledged(Generic[K]):
    """Nothing of the base version comes any more. `arrivals` are of the version after."""

    rescale: Rescale[K]
    arrivals: Arrivals[K] = field(default_factory=Arrivals)


Phase = (
    Settled[K]
    | Interrogating[K]
    | Collecting[K]
    | Given[K]
    | Finished[K]
    | Acknowledged[K]
    | Leaving[K]
    | Gone[K]
)
Transition = TransitionOf[Phase[K], K]


def version_of(phase: Phase[K]) -> Version[K]:
    """By which the unit goes: the next one from Collection on."""
    match phase:
        case Settled(version=version) | Leaving(version=version) | Gone(version=version):
            return version
        case Interrogating(rescale=rescale):
            return rescale.base
        case _:
            return phase.rescale.next


def hearers(phase: Phase[K]) -> frozenset[int]:
    """Who is told of watermarks; from FLUSH on nobody who leaves."""
    match phase:
        case Interrogating(rescale=rescale) | Collecting(rescale=rescale) | Given(rescale=rescale):
            return rescale.units
        case _:
            return version_of(phase).units
