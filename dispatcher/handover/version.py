from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Generic, Self, TypeVar

from dispatcher.handover.errors import NotFollowing

K = TypeVar("K", bound=Hashable)
"""What is moved: a vnode's number, or a key in the seeds' examples."""


@dataclass(frozen=True)  # Without slots, for what is computed once.
class Version(Generic[K]):
    """A mapping as the protocols see it. A unit of `units` may own nothing."""

    number: int
    digest: str
    owners: Mapping[K, int]
    units: frozenset[int]

    def renumbers(self, base: "Version[K]") -> bool:
        """Whether it is `base` by a higher number, one between having been aborted."""
        return self.number > base.number + 1 and (self.owners, self.units) == (base.owners, base.units)

    @cached_property
    def owning(self) -> frozenset[int]:
        return frozenset(self.owners.values())


@dataclass(frozen=True, slots=True)
class Rescale(Generic[K]):
    """F and F', and what follows from the two. Use `Rescale.between`.

    `units` is W u W', `receivers` has a set for each giver. `rounds`: as INTENT has them; `last` is the last one.
    """

    base: Version[K]
    next: Version[K]
    units: frozenset[int]
    receivers: Mapping[int, frozenset[int]]
    rounds: Mapping[K, int] = field(default_factory=dict)
    last: int = 0

    @classmethod
    def between(cls, base: Version[K], following: Version[K], rounds: Mapping[K, int] | None = None) -> Self:
        """Raises `NotFollowing`."""
        rounds = rounds or {}
        if unfit := _unfit(base, following, rounds):
            raise NotFollowing(base.number, following.number, unfit)
        receivers: dict[int, frozenset[int]] = {}
        for key, giver in base.owners.items():
            receiver = following.owners[key]
            if receiver != giver:
                receivers[giver] = receivers.get(giver, frozenset()) | {receiver}
        units = base.units | following.units
        return cls(base, following, units, receivers, rounds, max(rounds.values(), default=0))

    def giver(self, key: K) -> int:
        return self.base.owners[key]

    def receiver(self, key: K) -> int:
        return self.next.owners[key]

    def moves(self, key: K) -> bool:
        return self.base.owners[key] != self.next.owners[key]

    def round(self, key: K) -> int:
        return self.rounds.get(key, 0)

    def leaving(self, unit: int) -> tuple[K, ...]:
        """The keys that `unit` gives, in the mapping's order."""
        return tuple(key for key, giver in self.base.owners.items() if giver == unit and self.moves(key))

    def givers_to(self, unit: int) -> frozenset[int]:
        return frozenset(giver for giver, receivers in self.receivers.items() if unit in receivers)

    def removes(self, unit: int) -> bool:
        return unit not in self.next.units


def _unfit(base: Version[K], following: Version[K], rounds: Mapping[K, int]) -> str | None:
    """Why it cannot follow."""
    if following.number <= base.number:
        return "it is no newer; read the newest version"
    if following.owners.keys() != base.owners.keys() or not rounds.keys() <= base.owners.keys():
        return "it has other keys; the versions of a fragment all have the same"
    if not following.owning <= following.units:
        return f"units {sorted(following.owning - following.units)} own keys, and are not of it"
    if following.number > base.number + 1 and not following.renumbers(base):
        return f"there is one between; read version {base.number + 1}, or what it was aborted for"
    return None
