"""The planner against every balanced assignment there is, on all small cases."""

import math
from fractions import Fraction
from itertools import islice, product

import numpy as np
import numpy.typing as npt
import pytest

from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import Level, plan
from meta.mapping.unit import Unit

GONE = 9
NOBODY = -1

Rows = npt.NDArray[np.int64]


class Oracle:
    """Knows all balanced assignments of `vnode_count` vnodes, and scores each against a previous mapping."""

    def __init__(self, vnode_count: int, units: tuple[Unit, ...], level: Level = "units") -> None:
        self.units = units
        total = sum(Fraction(str(unit.weight)) for unit in units)
        self.share = {u.id: vnode_count * Fraction(str(u.weight)) / total for u in units}
        self.remainder = {unit: share % 1 for unit, share in self.share.items()}
        every = np.array(list(product([u.id for u in units], repeat=vnode_count)))
        fair = np.ones(len(every), dtype=bool)
        for unit, share in self.share.items():
            count = (every == unit).sum(axis=1)
            fair &= (count == np.floor(float(share))) | (count == np.ceil(float(share)))
        for worker in {unit.worker for unit in units} if level == "workers" else ():
            members = [unit.id for unit in units if unit.worker == worker]
            count = np.isin(every, members).sum(axis=1)
            worker_share = sum((self.share[unit] for unit in members), Fraction(0))
            fair &= (count >= math.floor(worker_share)) & (count <= math.ceil(worker_share))
        self.balanced = every[fair]
        self.row_of = {tuple(row): number for number, row in enumerate(self.balanced.tolist())}
        self.has_ceil = np.array([(self.balanced == u.id).sum(axis=1) > self.share[u.id] for u in units]).T
        workers = sorted({unit.worker for unit in units})
        # The worker of each owner; gone owners and nobody are on none.
        self.worker_of = np.full(GONE + 2, -1)
        for member in units:
            self.worker_of[member.id] = workers.index(member.worker)
        self.balanced_workers = self.worker_of[self.balanced]

    def scores(self, previous: tuple[int | None, ...]) -> Rows:
        """Of each balanced row: moves, then moves between workers, then ceils of preferred units."""
        before = np.array([NOBODY if owner is None else owner for owner in previous])
        owned = before != NOBODY
        moves = ((self.balanced != before) & owned).sum(axis=1)
        cross = ((self.balanced_workers != self.worker_of[before]) & owned).sum(axis=1)
        scores: Rows = moves * 10_000 + cross * 100 - self.has_ceil @ self._preference(previous)
        return scores

    def _preference(self, previous: tuple[int | None, ...]) -> Rows:
        """New units weigh more than all others, then those of larger remainder, then of smaller id."""
        owners = set(previous)
        order = sorted(self.units, key=lambda u: (u.id in owners, -self.remainder[u.id], u.id))
        return np.array([1 << (len(order) - order.index(unit)) for unit in self.units])


def check_all(vnode_count: int, units: tuple[Unit, ...], level: Level = "units", *, stride: int = 1) -> int:
    """Every previous mapping, or every `stride`-th; returns how many."""
    oracle = Oracle(vnode_count, units, level)
    cases = 0
    owners = [*(unit.id for unit in units), GONE, None]
    for previous in islice(product(owners, repeat=vnode_count), 0, None, stride):
        answer = plan(VnodeMapping(previous), units, level=level)
        scores = oracle.scores(previous)
        best = scores.min()
        assert scores[oracle.row_of[answer.mapping.owners]] == best, (previous, answer)
        assert len(answer.moves) == answer.certificate.lower_bound == (best + 99) // 10_000
        assert answer.certificate.gap == 0
        cases += 1
    return cases


CASES = [(vnodes, units, 1) for units in (1, 2, 3) for vnodes in range(units, 7) if (vnodes, units) != (6, 3)]
LARGEST = [(6, 3, 7), pytest.param(6, 3, 1, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("vnode_count", "unit_count", "stride"), [*CASES, *LARGEST])
def test_no_balanced_assignment_is_better_than_the_plan(
    vnode_count: int, unit_count: int, stride: int
) -> None:
    units = tuple(Unit(unit_id, f"w{unit_id}") for unit_id in range(unit_count))
    cases = check_all(vnode_count, units, stride=stride)
    assert cases == -(-((unit_count + 2) ** vnode_count) // stride)


@pytest.mark.parametrize("workers", ["aab", "aba", "aaa"])
def test_among_the_fewest_moves_the_fewest_leave_their_worker(workers: str) -> None:
    units = tuple(Unit(unit_id, worker) for unit_id, worker in enumerate(workers))
    for vnode_count in (3, 4):
        check_all(vnode_count, units)


@pytest.mark.parametrize(
    "weights", [(2, 1, 1), (0, 1, 1), (1, 0, 3), (0.1, 0.3, 0.2), (1, 1, 1.5), (5, 1, 0)]
)
@pytest.mark.parametrize("workers", [pytest.param("abc", marks=pytest.mark.slow), "aba"])
def test_with_weights_each_unit_gets_the_floor_or_ceil_of_its_share(
    weights: tuple[float, ...], workers: str
) -> None:
    units = tuple(
        Unit(i, worker, weight) for i, (worker, weight) in enumerate(zip(workers, weights, strict=True))
    )
    for vnode_count in (3, 4):
        check_all(vnode_count, units)


@pytest.mark.parametrize("workers", ["aab", pytest.param("aabb", marks=pytest.mark.slow)])
def test_levelled_workers_cost_no_more_than_they_must(workers: str) -> None:
    units = tuple(Unit(unit_id, worker) for unit_id, worker in enumerate(workers))
    check_all(4, units, "workers")
    check_all(5, units, "workers", stride=1 if len(units) == 4 else 3)


@pytest.mark.parametrize("weights", [(2, 1, 1), (1, 0, 3), (0.1, 0.3, 0.2), (1, 1, 1.5)])
def test_levelled_workers_of_unequal_units_cost_no_more_than_they_must(weights: tuple[float, ...]) -> None:
    units = tuple(Unit(i, "aba"[i], weight) for i, weight in enumerate(weights))
    check_all(4, units, "workers")
