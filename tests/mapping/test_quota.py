"""The exact part of the planner, against a closed form and a solver that share nothing with it."""

import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from fractions import Fraction
from math import ceil, floor

import numpy as np
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp

from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Level, Plan, plan
from meta.mapping.unit import Unit
from tests.mapping.closed_form import fewest_moves, shares_of

LEVELS: tuple[Level, ...] = ("units", "workers")


def random_rescale(seed: int, vnodes_max: int = 512, units_max: int = 64) -> tuple[VnodeMapping, list[Unit]]:
    """Runs or single vnodes of live units, gone ones and nobody; equal or mixed weights; few or many workers."""
    draw = random.Random(seed)
    vnode_count = draw.randint(1, vnodes_max)
    unit_count = draw.randint(1, min(units_max, vnode_count))
    workers = draw.choice([1, 2, 3, 8, unit_count])
    weights = draw.choice([[1.0], [1.0], [0.0, 1.0], [0.1, 0.2, 0.7], [0.0, 0.5, 1.0, 1.0, 3.0, 4.25]])
    ids = draw.sample(range(2 * unit_count), unit_count)
    units = [Unit(number, f"w{draw.randrange(workers)}", draw.choice(weights)) for number in ids]
    if not any(unit.weight for unit in units):
        units[0] = Unit(units[0].id, units[0].worker)
    owners: list[int | None] = []
    owning = draw.choice([range(2 * unit_count), ids, ids[: unit_count // 2 + 1], range(unit_count)])
    run_max = draw.choice([1, 4, 30])
    while len(owners) < vnode_count:
        owner = None if draw.random() < draw.choice([0, 0.1]) else draw.choice(owning)
        owners += [owner] * draw.randint(1, run_max)
    return VnodeMapping(tuple(owners[:vnode_count])), units


def worker_shares(previous: VnodeMapping, units: Sequence[Unit]) -> dict[str, Fraction]:
    totals: dict[str, Fraction] = defaultdict(Fraction)
    shares = shares_of(previous, units)
    for unit in units:
        totals[unit.worker] += shares[unit.id]
    return totals


def check(previous: VnodeMapping, units: Sequence[Unit], answer: Plan, level: Level) -> None:
    after = answer.mapping.owners
    counts = Counter(after)
    assert counts.keys() <= {unit.id for unit in units}
    for unit, share in shares_of(previous, units).items():
        assert floor(share) <= counts[unit] <= ceil(share)
    changed = sum(a is not None and a != b for a, b in zip(previous.owners, after, strict=True))
    certificate = answer.certificate
    assert len(answer.moves) == changed == certificate.moves == certificate.lower_bound
    assert certificate.gap == 0
    if level == "units":
        assert changed == fewest_moves(previous, units)
    else:
        for worker, share in worker_shares(previous, units).items():
            total = sum(counts[unit.id] for unit in units if unit.worker == worker)
            assert floor(share) <= total <= ceil(share)


def test_random_rescales_make_the_fewest_moves() -> None:
    for seed in range(5_000):
        previous, units = random_rescale(seed)
        level = LEVELS[seed % 5 == 0]
        check(previous, units, plan(previous, units, level=level), level)


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_very_many_random_rescales_make_the_fewest_moves() -> None:
    for seed in range(5_000, 105_000):
        previous, units = random_rescale(seed)
        for level in LEVELS:
            check(previous, units, plan(previous, units, level=level), level)


def solved(previous: VnodeMapping, units: Sequence[Unit], level: Level) -> tuple[int, int]:
    """The fewest moves, and with as few the fewest that leave their worker, by HiGHS.

    Variables: for each unit its quota and what it keeps, for each worker how many vnodes stay on it.
    """
    count = len(units)
    shares = shares_of(previous, units)
    have = Counter(owner for owner in previous.owners if owner is not None)
    totals = worker_shares(previous, units)
    workers = sorted(totals)
    size = 2 * count + len(workers)
    quota, kept, staying = np.eye(size)[:count], np.eye(size)[count : 2 * count], np.eye(size)[2 * count :]
    of_worker = {w: [n for n, unit in enumerate(units) if unit.worker == w] for w in workers}
    lower = [*(floor(shares[u.id]) for u in units), *[0] * (count + len(workers))]
    upper = [
        *(ceil(shares[u.id]) for u in units),
        *(have[u.id] for u in units),
        *(sum(have[units[n].id] for n in of_worker[w]) for w in workers),
    ]
    totals_of = np.array([quota[of_worker[w]].sum(axis=0) for w in workers])
    rules = [
        LinearConstraint(quota.sum(axis=0), previous.vnode_count, previous.vnode_count),
        LinearConstraint(kept - quota, -np.inf, 0),
        LinearConstraint(staying - totals_of, -np.inf, 0),
    ]
    if level == "workers":
        rules.append(
            LinearConstraint(
                totals_of, [floor(totals[w]) for w in workers], [ceil(totals[w]) for w in workers]
            )
        )

    def most(of: np.ndarray, *more: LinearConstraint) -> int:
        found = milp(-of, integrality=np.ones(size), bounds=Bounds(lower, upper), constraints=[*rules, *more])
        assert found.success, found.message
        return round(-found.fun)

    keeps = most(kept.sum(axis=0))
    stays = most(staying.sum(axis=0), LinearConstraint(kept.sum(axis=0), keeps, keeps))
    return have.total() - keeps, have.total() - stays


@pytest.mark.parametrize("level", LEVELS)
def test_no_solver_finds_fewer_moves_nor_fewer_between_workers(level: Level) -> None:
    for seed in range(100):
        previous, units = random_rescale(10**6 + seed, vnodes_max=150, units_max=24)
        certificate = plan(previous, units, level=level).certificate
        found = (certificate.moves, certificate.cross_worker_moves)
        assert found == solved(previous, units, level), seed


def test_one_more_worker_of_eight_units_at_both_levels() -> None:
    units = [Unit(number, f"w{number // 8}") for number in range(40)]
    previous = plan(VnodeMapping.unowned(256), units[:32]).mapping
    by_unit = plan(previous, units)
    by_worker = plan(previous, units, level="workers")
    assert (by_unit.certificate.moves, by_worker.certificate.moves) == (48, 51)
    assert by_worker.certificate.lower_bound == 51
    totals = Counter(owner // 8 for owner in by_worker.mapping.owners if owner is not None)
    assert sorted(totals.values()) == [51, 51, 51, 51, 52]
