"""The planner by load against an exact solver (HiGHS) on small cases, within the same bounds and budget."""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array

from meta.mapping.load import LoadCertificate, plan_by_load
from meta.mapping.load_bound import CountBounds, count_bounds, speeds_of
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Plan
from meta.mapping.unit import Unit

GONE = 99
# HiGHS's own: at seed 1638 its optimum is 1.1e-6 above what we found.
TOLERANCE = 1e-5


@dataclass(frozen=True)
class Case:
    previous: VnodeMapping
    units: tuple[Unit, ...]
    loads: tuple[float, ...]
    slack: float
    budget: int | None

    @property
    def speeds(self) -> npt.NDArray[np.float64]:
        return speeds_of(np.array([unit.weight for unit in self.units]))

    @property
    def bounds(self) -> CountBounds:
        return count_bounds(self.speeds, len(self.loads), self.slack)

    def planned(self) -> Plan:
        return plan_by_load(self.previous, self.units, self.loads, count_slack=self.slack, budget=self.budget)


def drawn(seed: int) -> Case:
    random = np.random.default_rng(seed)
    unit_count = int(random.integers(2, 5))
    vnode_count = int(random.integers(unit_count, 13))
    weights = random.choice([1.0, 2.0, 3.0], unit_count) if seed % 3 == 0 else np.ones(unit_count)
    units = tuple(Unit(unit, f"w{unit % 2}", float(weight)) for unit, weight in enumerate(weights))
    loads = random.permutation(np.arange(1, vnode_count + 1) ** -random.uniform(0.3, 1.5))
    owners = random.choice([*range(unit_count), GONE, None], vnode_count)
    budget = None if seed % 2 else int(random.integers(1, vnode_count))
    return Case(VnodeMapping(tuple(owners)), units, tuple(loads.tolist()), 0.25 + (seed % 4) * 0.5, budget)


def smallest_maximum(case: Case, *, presolve: bool = True) -> float | None:
    """The optimum, None where the count bounds are out of the budget's reach.

    Variables: one for each vnode and unit, 1 where the unit owns it; last the maximum.
    """
    units, vnodes = len(case.units), len(case.loads)
    last = units * vnodes
    rows: list[npt.NDArray[np.float64]] = []
    low: list[float] = []
    high: list[float] = []

    def require(row: npt.NDArray[np.float64], least: float, most: float) -> None:
        rows.append(row)
        low.append(least)
        high.append(most)

    for vnode in range(vnodes):
        row = np.zeros(last + 1)
        row[vnode * units : (vnode + 1) * units] = 1
        require(row, 1, 1)
    for unit, speed in enumerate(case.speeds):
        count, load = np.zeros(last + 1), np.zeros(last + 1)
        count[unit:last:units] = 1
        load[unit:last:units] = case.loads
        load[last] = -speed
        require(count, case.bounds.least[unit], case.bounds.most[unit])
        require(load, -np.inf, 0)
    if case.budget is not None:
        stays = np.zeros(last + 1)
        homes = [(v, owner) for v, owner in enumerate(case.previous.owners) if owner not in (None, GONE)]
        for vnode, owner in homes:
            stays[vnode * units + owner] = 1
        require(stays, len(homes) - case.budget, np.inf)
    cost = np.zeros(last + 1)
    cost[last] = 1
    kinds = np.ones(last + 1)
    kinds[last] = 0
    answer = milp(
        cost,
        constraints=LinearConstraint(csr_array(np.array(rows)), low, high),
        integrality=kinds,
        bounds=Bounds(0, np.append(np.ones(last), np.inf)),
        options={"presolve": presolve},
    )
    return None if answer.x is None else float(answer.fun)


def ratios(seeds: range) -> list[float]:
    found = []
    for seed in seeds:
        case = drawn(seed)
        figures = case.planned().certificate
        assert isinstance(figures, LoadCertificate)
        best = smallest_maximum(case)
        if best is not None:
            assert figures.max_load_lower_bound <= best * (1 + TOLERANCE), seed
            if figures.max_load < best * (1 - TOLERANCE):
                # With presolve, HiGHS calls 1.7858 the optimum of seed 249, and 1.7793 without.
                best = smallest_maximum(case, presolve=False)
            assert best is not None
            assert figures.max_load >= best * (1 - TOLERANCE), seed
            found.append(figures.max_load / best)
    return found


def test_with_few_moves_and_narrow_counts_no_mapping_is_below_the_bound() -> None:
    tight = []
    for seed in range(40):
        random = np.random.default_rng(seed)
        budget, slack = int(random.integers(1, 5)), float(random.choice([0.0, 0.1, 0.25, 0.5]))
        case = replace(drawn(seed), budget=budget, slack=slack)
        figures = case.planned().certificate
        assert isinstance(figures, LoadCertificate)
        best = smallest_maximum(case)
        if best is not None:
            assert figures.max_load_lower_bound <= best * (1 + TOLERANCE), seed
            tight.append(best / figures.max_load_lower_bound)
    assert len(tight) > 20
    assert np.mean(tight) < 1.02


def check(seeds: range, capsys: pytest.CaptureFixture[str], far_max: int = 0) -> None:
    found = ratios(seeds)
    with capsys.disabled():
        print(f" [{len(found)} cases: mean {np.mean(found):.4f}, worst {max(found):.4f}]", end="")
    assert len(found) > len(seeds) // 2
    assert np.mean(found) < 1.01
    assert sum(ratio > 1.25 for ratio in found) <= far_max


def test_the_largest_load_is_near_the_optimum_and_above_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    check(range(100), capsys)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_largest_load_is_near_the_optimum_in_many_cases(capsys: pytest.CaptureFixture[str]) -> None:
    # Both have unequal weights: seed 1260 a budget of one move, which a repair uses up (1.51); seed 1647 stops in a
    # local optimum (1.2502).
    check(range(100, 2_000), capsys, far_max=2)
