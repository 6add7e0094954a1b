from dataclasses import dataclass
from random import Random

from dispatcher.handover.simulator import dataflow
from dispatcher.handover.simulator.dataflow import Dataflow
from dispatcher.handover.simulator.options import Options


@dataclass(frozen=True, slots=True)
class Operators:
    """Of each unit; without any of this it is one, which applies records at once.

    `chain`: the keys whose state is with each, one behind the other. The state of a `fleeting` key ends with the record
    that finds it, and begins anew with the next one. `dataflow`: that they are in, instead of a chain.
    """

    chain: tuple[frozenset[int], ...] = ()
    fleeting: frozenset[int] = frozenset()
    dataflow: Dataflow | None = None

    def having(self, keys: frozenset[int]) -> tuple[frozenset[int], ...]:
        """Which of `keys` each has state of, where there are several."""
        return tuple(keys & of_one for of_one in self.chain)


def drawn(options: Options, random: Random) -> Operators:
    """A dataflow; in a chain, several share a key's state, or one has it, and half of the keys are fleeting."""
    if options.operators == 1:
        return Operators()
    if options.protocol != "controller":
        return Operators(
            dataflow=dataflow.drawn(options.operators, options.vnodes, random, options.rules_inside)
        )
    keys, places = range(options.vnodes), range(options.operators)
    having = [random.sample(places, random.choice(places) + 1) for _ in keys]
    chain = tuple(frozenset(key for key in keys if place in having[key]) for place in places)
    return Operators(chain, frozenset(key for key in keys if random.random() < 0.5))
