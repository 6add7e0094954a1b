"""The operators of a node, one behind the other, and what passes through them: FINAL, and REDISTRIBUTE as it grows."""

from dataclasses import dataclass
from typing import Generic, Self

from dispatcher.handover.message import Final, Sets
from dispatcher.handover.version import K

Keys = frozenset[K]


@dataclass(frozen=True, slots=True)
class Package(Generic[K]):
    """REDISTRIBUTE on its way: `parts` are the operators that have added state of each key, by their place."""

    parts: tuple[tuple[K, tuple[int, ...]], ...]
    next: tuple[K, ...] = ()

    def added(self, place: int, state: Keys[K]) -> Self:
        parts = tuple((key, (*places, place) if key in state else places) for key, places in self.parts)
        return type(self)(parts, self.next)

    def named(self, keys: tuple[K, ...], at_once: int) -> Self:
        """With `keys` in the slots for next keys that are free."""
        free = tuple(key for key in keys if key not in self.next)
        return type(self)(self.parts, (*self.next, *free)[:at_once])


def sets(operators: tuple[Keys[K], ...], keys: tuple[K, ...], at_once: int) -> Sets[K]:
    """Step 2: of `keys`, those that any operator has state of. The first are held."""
    known: Keys[K] = frozenset().union(*operators)
    listed = tuple(key for key in keys if key in known)
    return Sets(frozenset(listed[at_once:]), listed[:at_once])


def through(
    operators: tuple[Keys[K], ...], final: Final[K], left: tuple[K, ...], at_once: int
) -> Final[K] | Package[K]:
    """Step 5: what comes out of the last operator; FINAL itself, where none has state of its keys."""
    message: Final[K] | Package[K] = final
    for place, state in enumerate(operators):
        message = passed(place, state, message, left, at_once)
    return message


def passed(
    place: int, state: Keys[K], message: Final[K] | Package[K], left: tuple[K, ...], at_once: int
) -> Final[K] | Package[K]:
    """What one operator makes of it; `left` are the whitelisted keys."""
    if isinstance(message, Final):
        if state.isdisjoint(message.keys):
            return message
        message = Package(tuple((key, ()) for key in message.keys))
    return message.added(place, state).named(tuple(key for key in left if key in state), at_once)
