"""What the fewest moves are, apart from the planner's own reckoning."""

from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import floor

from meta.mapping.mapping import VnodeMapping
from meta.mapping.unit import Unit


def shares_of(previous: VnodeMapping, units: Sequence[Unit]) -> dict[int, Fraction]:
    counts = Counter(unit.weight for unit in units)
    total = sum(Fraction(str(weight)) * count for weight, count in counts.items())
    share = {weight: previous.vnode_count * Fraction(str(weight)) / total for weight in counts}
    return {unit.id: share[unit.weight] for unit in units}


def fewest_moves(previous: VnodeMapping, units: Sequence[Unit]) -> int:
    """Each unit keeps up to its floor, and one more where it has it and there are ceils enough."""
    have = Counter(owner for owner in previous.owners if owner is not None)
    shares = shares_of(previous, units)
    ceils = previous.vnode_count - sum(floor(share) for share in shares.values())
    above = sum(have[unit] > floor(share) < share for unit, share in shares.items())
    kept = sum(min(have[unit], floor(share)) for unit, share in shares.items())
    return have.total() - kept - min(ceils, above)
