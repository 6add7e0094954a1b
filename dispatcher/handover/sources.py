from dataclasses import dataclass, field, replace
from typing import Self


@dataclass(frozen=True, slots=True)
class Flowing:
    """Reads."""


@dataclass(frozen=True, slots=True)
class Draining:
    """Reads nothing, for a snapshot, and waits until its own records are applied."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Still:
    """Has said so, and waits for `Resume`."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The source partitions that a unit reads, and those that it reads no longer but has records of under way."""

    reading: frozenset[str] = frozenset()
    releasing: frozenset[str] = frozenset()
    flow: Flowing | Draining | Still = field(default_factory=Flowing)

    @property
    def none(self) -> bool:
        return not self.reading and not self.releasing

    @property
    def epoch(self) -> int | None:
        """Of the snapshot that it drains for."""
        return self.flow.epoch if isinstance(self.flow, Draining) else None

    def opened(self, source: str) -> Self:
        return replace(self, reading=self.reading | {source})

    def releasing_too(self, source: str) -> Self:
        return replace(self, reading=self.reading - {source}, releasing=self.releasing | {source})

    def released(self, source: str) -> Self:
        return replace(self, releasing=self.releasing - {source})

    def draining(self, epoch: int) -> Self:
        return replace(self, flow=Draining(epoch))

    def drained(self) -> Self:
        return replace(self, flow=Still())

    def resumed(self) -> Self:
        return replace(self, flow=Flowing())
