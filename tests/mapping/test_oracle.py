"""The planner against every balanced assignment there is, on all small cases."""

from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
import pytest

from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import plan
from meta.mapping.unit import Unit

GONE = 9
NOBODY = -1

Rows = npt.NDArray[np.int64]


class Oracle:
    """Knows all balanced assignments of `vnode_count` vnodes, and scores each against a previous mapping."""

    def __init__(self, vnode_count: int, units: tuple[Unit, ...]) -> None:
        self.units = units
        total = sum(Fraction(str(unit.weight)) for unit in units)
        self.share = {u.id: vnode_count * Fraction(str(u.weight)) / total for u in units}
        self.remainder = {unit: share % 1 for unit, share in self.share.items()}
        every = np.array(list(product([u.id for u in units], repeat=vnode_count)))
        fair = np.ones(len(every), dtype=bool)
        for unit, share in self.share.items():
            count = (every == unit).sum(axis=1)
            fair &= (count == np.floor(float(share))) | (count == np.ceil(float(share)))
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


def check_all(vnode_count: int, units: tuple[Unit, ...]) -> int:
    oracle = Oracle(vnode_count, units)
    cases = 0
    for previous in product([*(unit.id for unit in units), GONE, None], repeat=vnode_count):
        answer = plan(VnodeMapping(previous), units)
        scores = oracle.scores(previous)
        best = scores.min()
        assert scores[oracle.row_of[answer.mapping.owners]] == best, (previous, answer)
        assert len(answer.moves) == answer.certificate.lower_bound == (best + 99) // 10_000
        assert answer.certificate.gap == 0
        cases += 1
    return cases


CASES = [(vnodes, units) for units in (1, 2, 3) for vnodes in range(units, 7)]


@pytest.mark.parametrize(("vnode_count", "unit_count"), CASES)
def test_no_balanced_assignment_is_better_than_the_plan(vnode_count: int, unit_count: int) -> None:
    units = tuple(Unit(unit_id, f"w{unit_id}") for unit_id in range(unit_count))
    assert check_all(vnode_count, units) == (unit_count + 2) ** vnode_count


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
