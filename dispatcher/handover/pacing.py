"""Which keys move at the same time.

A job that moves few keys at once disturbs few of its records at any moment, and takes longer: each round waits for the
state of the one before.

**Fewest rounds.** A unit that gives, or receives, d keys needs at least d / parallel rounds. As many as the busiest
unit needs are enough for all: deal the keys of each unit out to `parallel` ports, one after the other, so that no port
has more keys than there are rounds. Keys are then the edges between the ports that give and those that receive, and a
round is a colour that no port has twice. By Koenig (1916) a bipartite multigraph needs no more colours than its busiest
vertex has edges; his proof, by alternating paths, is `_Colouring`. It also makes of each round a matching of ports, as
Megaphone (Hoffmann et al., VLDB 2019) plans its migrations, which is what `parallel` of 1 comes to.

**Hottest first** keeps that number. Keys take the first round that both of their ports have left, the hottest choosing
first; then the rounds are sorted. So no key of a round is hotter than the hottest of the round before, and where one
unit gives them all, or receives them all, they go strictly by their load. A greedy that never exchanges two rounds
may need almost twice as many; of random mappings, up to a sixth more. **Hottest last** is the same, backwards.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from math import isnan
from typing import Generic

from dispatcher.handover.errors import BadLoad, BadPacing
from dispatcher.handover.version import K


class Order(StrEnum):
    HOTTEST_FIRST = "hottest-first"
    HOTTEST_LAST = "hottest-last"


@dataclass(frozen=True, slots=True)
class Pacing:
    """`parallel`: how many keys a unit gives at once, and how many it receives; None is all. Raises `BadPacing`.

    All at once is the shortest rescale and the least talk, with records of every moved key waiting at the same time.
    Without an `order` nothing is said of which keys go first.
    """

    parallel: int | None = None
    order: Order | None = None

    def __post_init__(self) -> None:
        if self.parallel is not None and self.parallel < 1:
            raise BadPacing(self.parallel)


@dataclass(frozen=True, slots=True)
class Move(Generic[K]):
    """Of a key. `load` is in any unit that is the same for all, like records a second. Raises `BadLoad`."""

    key: K
    giver: int
    receiver: int
    load: float = 0.0

    def __post_init__(self) -> None:
        if isnan(self.load):
            raise BadLoad(self.key)


def rounds(moves: Iterable[Move[K]], pacing: Pacing) -> tuple[tuple[K, ...], ...]:
    """The keys of each round, as few rounds as there can be. Depends on the order of the moves, and on nothing else."""
    moves = list(moves)
    if pacing.order is not None:
        moves.sort(key=lambda move: -move.load)
    planned = _planned(moves, pacing.parallel)
    if pacing.order is not None:
        planned.sort(key=lambda together: -together[0].load)
    if pacing.order is Order.HOTTEST_LAST:
        planned.reverse()
    return tuple(tuple(move.key for move in together) for together in planned)


def _planned(moves: Sequence[Move[K]], parallel: int | None) -> list[list[Move[K]]]:
    if not moves or parallel is None:
        return [list(moves)] if moves else []
    given = Counter(move.giver for move in moves)
    received = Counter(move.receiver for move in moves)
    count = -(-max(*given.values(), *received.values()) // parallel)
    colouring = _Colouring(count)
    givers, receivers = _Ports(parallel), _Ports(parallel)
    for move in moves:
        colouring.add(("gives", *givers.deal(move.giver)), ("receives", *receivers.deal(move.receiver)))
    planned: list[list[Move[K]]] = [[] for _ in range(count)]
    for move, colour in zip(moves, colouring.colours, strict=True):
        planned[colour].append(move)
    return planned


class _Ports:
    """The ports of each unit on one side, dealt to in turn."""

    def __init__(self, parallel: int) -> None:
        self.parallel = parallel
        self.dealt: Counter[int] = Counter()

    def deal(self, unit: int) -> tuple[int, int]:
        port = self.dealt[unit] % self.parallel
        self.dealt[unit] += 1
        return unit, port


Port = tuple[str, int, int]


class _Colouring:
    """The edges of a bipartite multigraph so far, each with a colour that none beside it has.

    `free` is a set of bits for each port, the colours that it has left; `at` its edge of each colour.
    """

    def __init__(self, count: int) -> None:
        self.ends: list[tuple[Port, Port]] = []
        self.colours: list[int] = []
        self.at: dict[Port, dict[int, int]] = defaultdict(dict)
        self.free: dict[Port, int] = defaultdict(lambda: (1 << count) - 1)

    def add(self, giver: Port, receiver: Port) -> None:
        """In the first colour that both have left; there is none in common only if each has one."""
        common = self.free[giver] & self.free[receiver]
        colour = _first(common or self.free[giver])
        if not common:
            self._exchange(receiver, colour, _first(self.free[receiver]))
        edge = len(self.ends)
        self.ends.append((giver, receiver))
        self.colours.append(colour)
        for port in (giver, receiver):
            self.at[port][colour] = edge
            self.free[port] ^= 1 << colour

    def _exchange(self, port: Port, one: int, other: int) -> None:
        """Two colours along the path of both from `port`, which then has `one` left instead of `other`.

        The path comes to givers by edges of colour `one` alone, so never to a giver that has `one` left.
        """
        path = []
        end, colour = port, one
        while (edge := self.at[end].pop(colour, None)) is not None:
            path.append(edge)
            giver, receiver = self.ends[edge]
            end = giver if end == receiver else receiver
            colour = one + other - colour
        del self.at[end][one + other - colour]
        for edge in path:
            self.colours[edge] = one + other - self.colours[edge]
            for met in self.ends[edge]:
                self.at[met][self.colours[edge]] = edge
        for met in (port, end):
            self.free[met] ^= 1 << one | 1 << other


def _first(bits: int) -> int:
    return (bits & -bits).bit_length() - 1
