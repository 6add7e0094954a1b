from dataclasses import dataclass

from dispatcher.handover import rules
from dispatcher.handover.version import K, Rescale


@dataclass(frozen=True, slots=True)
class Rules(rules.Rules):
    """The parameters of `controller`, and its mends, which are left out in the mutation check of the simulator alone.

    `distributors`: only the units below this number have records of their own; None: all have. `at_once`: how many keys
    of a node are held at a time.
    """

    distributors: int | None = None
    at_once: int = 1
    hears_early: bool = True
    """a: SHUTDOWN or SCALEUP counts at a node that has no INTENT yet."""
    holds_all: bool = True
    """b: records of moved keys wait until the sets of their node are there."""
    copies_everywhere: bool = True
    """c: every distributor sends the state on, in front of its own records."""
    first_copy: bool = True
    """d: the target installs the first copy of a state only."""
    unites: bool = True
    """e: the sets are those of all operators of a node."""
    answers: bool = True
    """f: a FINAL is answered where no operator has state."""
    consults_giver: bool = True
    """g: moved means F(K) != F'(K), and the sets of the node F(K) count."""
    awaits_done: bool = True
    """h: a target has all when every distributor has said so."""
    names_ended: bool = True
    """i: a key whose state has ended since the sets is named, too."""


Here = rules.Here[Rules]


def distributors(here: Here, rescale: Rescale[K]) -> frozenset[int]:
    """The X: units of W u W' with own records."""
    count = here.rules.distributors
    return rescale.units if count is None else frozenset(unit for unit in rescale.units if unit < count)


def nodes(rescale: Rescale[K]) -> frozenset[int]:
    """The units that are sent SHUTDOWN or SCALEUP: those that leave, and those that give."""
    return (rescale.base.units - rescale.next.units).union(rescale.receivers)


def joining(rescale: Rescale[K]) -> frozenset[int]:
    return rescale.next.units - rescale.base.units
