"""What a mapping must be, counted by brute force from owners and weights: shares no code with the service."""

from collections import Counter
from collections.abc import Mapping
from fractions import Fraction

Owners = list[int]
Weights = dict[int, float]


def choose(available: Mapping[int, str], owned: Mapping[int, int], count: int) -> list[int]:
    """`count` units: who owns something stays; the fullest workers lose first, the emptiest get first."""
    kept = {unit for unit in available if owned.get(unit)}

    def busy(unit: int) -> int:
        return sum(available[other] == available[unit] for other in kept)

    while len(kept) > count:
        kept.remove(min(kept, key=lambda unit: (-busy(unit), owned[unit], -unit)))
    while len(kept) < count:
        kept.add(min(available.keys() - kept, key=lambda unit: (busy(unit), available[unit], unit)))
    return sorted(kept)


def shares(weights: Weights, vnode_count: int) -> dict[int, Fraction]:
    exact = {unit: Fraction(repr(weight)) for unit, weight in weights.items()}
    return {unit: vnode_count * weight / sum(exact.values()) for unit, weight in exact.items()}


def fewest_moves(before: Owners, weights: Weights) -> int:
    """To where each unit has the floor or the ceil of its share; `weights` are above 0."""
    have, fair = Counter(before), shares(weights, len(before))
    floors = {unit: int(share) for unit, share in fair.items()}
    ceils = len(before) - sum(floors.values())
    may_more = sum(have[unit] > floors[unit] and fair[unit] > floors[unit] for unit in weights)
    return len(before) - sum(min(have[unit], floors[unit]) for unit in weights) - min(ceils, may_more)


def is_level(owners: Owners, weights: Weights) -> bool:
    counts = Counter(owners)
    fair = shares(weights, len(owners))
    return set(counts) <= set(weights) and all(
        int(fair[unit]) <= counts[unit] <= -(-fair[unit] // 1) for unit in weights
    )


def workers_level(owners: Owners, weights: Weights, worker_of: Mapping[int, str]) -> bool:
    counts: Counter[str] = Counter(worker_of[owner] for owner in owners)
    fair: dict[str, Fraction] = {}
    for unit, share in shares(weights, len(owners)).items():
        fair[worker_of[unit]] = fair.get(worker_of[unit], Fraction(0)) + share
    return all(int(share) <= counts[worker] <= -(-share // 1) for worker, share in fair.items())


def stretched(owners: Owners, count: int) -> Owners:
    factor = count // len(owners)
    return [owner for owner in owners for _ in range(factor)]


def moved(before: Owners, after: Owners) -> int:
    count = max(len(before), len(after))
    pairs = zip(stretched(before, count), stretched(after, count), strict=True)
    return sum(source != target for source, target in pairs)
