from random import Random

from dispatcher.handover.simulator.options import Options
from dispatcher.handover.version import Version

VnodeVersion = Version[int]


def first(options: Options, random: Random) -> VnodeVersion:
    units = range(options.units_before)
    return version(1, {vnode: random.choice(units) for vnode in range(options.vnodes)}, frozenset(units))


def following(
    base: VnodeVersion,
    number: int,
    unit_count: int,
    random: Random,
    *,
    remap: bool = False,
    first_units: int = 0,
) -> VnodeVersion:
    """The next mapping, on so many units, of which some join or leave. At least one vnode moves.

    With `remap`, and in half of the cases without, vnodes move between units that stay, too. The first units stay.
    """
    units = _units(base.units, unit_count, first_units, random)
    new = [unit for unit in units if unit not in base.units]
    targets = units if remap or random.random() < 0.5 else new
    stay = random.random()
    owners = {}
    for vnode, owner in base.owners.items():
        if owner not in units:
            owners[vnode] = random.choice(units)
        else:
            owners[vnode] = random.choice(targets) if targets and random.random() > stay else owner
    if owners == base.owners and len(units) > 1:
        vnode = random.choice(sorted(owners))
        owners[vnode] = random.choice([unit for unit in units if unit != owners[vnode]])
    return version(number, owners, frozenset(units))


def renumbered(base: VnodeVersion) -> VnodeVersion:
    """What is published when the version after `base` is aborted."""
    return version(base.number + 2, dict(base.owners), base.units)


def without(
    base: VnodeVersion, number: int, lost: int | None, random: Random, *, first_units: int = 0
) -> VnodeVersion:
    """The mapping less the lost unit, which is started again where it was the last one, or of the first."""
    units = sorted(base.units - {lost} | (base.units & set(range(first_units)))) or sorted(base.units)
    owners = {
        vnode: owner if owner in units else random.choice(units) for vnode, owner in base.owners.items()
    }
    return version(number, owners, frozenset(units))


def version(number: int, owners: dict[int, int], units: frozenset[int]) -> VnodeVersion:
    digest = ".".join(map(str, owners.values()))
    return Version(number, f"{number}: {digest}", owners, units)


def _units(before: frozenset[int], unit_count: int, first_units: int, random: Random) -> list[int]:
    if unit_count <= len(before):
        first, others = sorted(before)[:first_units], sorted(before)[first_units:]
        return sorted([*first, *random.sample(others, unit_count - first_units)])
    # The smallest numbers that are free, so that a unit that was removed comes back.
    new = sorted(set(range(unit_count)) - before)[: unit_count - len(before)]
    return sorted([*before, *new])
