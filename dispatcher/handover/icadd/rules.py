from dataclasses import dataclass

from dispatcher.handover import rules


@dataclass(frozen=True, slots=True)
class Rules(rules.Rules):
    """The mends of `icadd`, by letter, all in force but in the builds that show what each is for."""

    takes_from_old_owner: bool = True
    """A: a record of a higher version is taken from F(K) alone."""
    whitelists_taken: bool = True
    """B: and does not skip rule 1.1."""
    relays_until_complete: bool = True
    """E: a removed unit is there until COMPLETE."""
    leaves_received: bool = True
    """F: what has been acquired is not whitelisted."""
    new_units_collect: bool = True
    """G: a new unit waits for Done of all."""
    leaves_unmoved: bool = True
    """H: a key that stays is in no rule."""
    awaits_flushes: bool = True
    """And the one more: a unit acknowledges when nothing of the old rules can come."""


Here = rules.Here[Rules]
