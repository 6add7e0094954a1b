"""The phases that every protocol has. A phase ends by being replaced."""

from dataclasses import dataclass
from typing import Generic

from dispatcher.handover.version import K, Version


@dataclass(frozen=True, slots=True)
class Leaving(Generic[K]):
    """Not of `version`, which is complete; leaves when its sources are gone and what it sent is applied."""

    version: Version[K]


@dataclass(frozen=True, slots=True)
class Gone(Generic[K]):
    """Has left; `version` is the last that it heard of."""

    version: Version[K]
