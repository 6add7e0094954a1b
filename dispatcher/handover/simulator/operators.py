from dataclasses import dataclass
from random import Random

from dispatcher.handover.simulator.options import Options


@dataclass(frozen=True, slots=True)
class Operators:
    """Of each unit, as far as a protocol asks about them.

    `chain`: the keys whose state is with each, one behind the other; without any, one has all. The state of a
    `fleeting` key ends with the record that finds it, and begins anew with the next one.
    """

    chain: tuple[frozenset[int], ...] = ()
    fleeting: frozenset[int] = frozenset()

    def having(self, keys: frozenset[int]) -> tuple[frozenset[int], ...]:
        """Which of `keys` each has state of, where there are several."""
        return tuple(keys & of_one for of_one in self.chain)


def drawn(options: Options, random: Random) -> Operators:
    """Several share a key's state, or one has it; half of the keys are fleeting."""
    if options.operators == 1:
        return Operators()
    keys, places = range(options.vnodes), range(options.operators)
    having = [random.sample(places, random.choice(places) + 1) for _ in keys]
    chain = tuple(frozenset(key for key in keys if place in having[key]) for place in places)
    return Operators(chain, frozenset(key for key in keys if random.random() < 0.5))
