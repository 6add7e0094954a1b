import json
from collections import Counter
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed, UnrelatedVnodeCounts
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import first_mapping, plan
from meta.mapping.summary import (
    Balance,
    UnitFigures,
    UnitFlow,
    WorkerFigures,
    WorkerFlow,
    summary,
)
from meta.mapping.unit import Unit

GONE = 9
owner_lists = st.lists(st.none() | st.integers(0, 4) | st.just(GONE), min_size=6, max_size=6).map(tuple)
unit_lists = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([0.0, 1.0, 2.5])), max_size=5).map(
    lambda rows: [Unit(unit_id, worker, weight) for unit_id, (worker, weight) in enumerate(rows)]
)


def test_a_summary_seen_from_all_sides() -> None:
    units = [Unit(0, "x"), Unit(1, "x"), Unit(2, "y", weight=2.0), Unit(3, "y", weight=0.0)]
    before = VnodeMapping((0, 0, 1, 1, 7, 7, None, None))
    after = VnodeMapping((0, 1, 1, 1, 2, 2, 1, None))
    answer = summary(before, after, units)
    assert (answer.vnode_count, answer.moves, answer.assigned, answer.released) == (8, 3, 1, 0)
    assert (answer.cross_worker_moves, answer.gone) == (2, (7,))
    assert answer.before == Balance(
        vnode_count=8, unowned=2, units=4, fewest=0, most=2, spread=2, max_over_mean=4 / 3, runs=4,
        runs_per_unit_max=1, runs_per_unit_mean=3 / 4,
    )  # fmt: skip
    assert answer.after == Balance(
        vnode_count=8, unowned=1, units=3, fewest=1, most=4, spread=3, max_over_mean=12 / 7, runs=5,
        runs_per_unit_max=2, runs_per_unit_mean=4 / 3,
    )  # fmt: skip
    assert answer.by_unit[1] == UnitFigures(
        unit=1, worker="x", before=2, after=4, gained=2, lost=0, fair_share=2.0, runs_before=1, runs_after=2
    )  # fmt: skip
    assert answer.by_unit[4] == UnitFigures(
        unit=7, worker=None, before=2, after=0, gained=0, lost=2, fair_share=0.0, runs_before=1, runs_after=0
    )  # fmt: skip
    assert answer.by_worker == (
        WorkerFigures("x", units=2, before=4, after=5, gained=1, lost=0, fair_share=4.0),
        WorkerFigures("y", units=2, before=0, after=2, gained=2, lost=0, fair_share=4.0),
        WorkerFigures(None, units=1, before=2, after=0, gained=0, lost=2, fair_share=0.0),
    )
    assert answer.unit_flows == (UnitFlow(0, 1, 1), UnitFlow(7, 2, 2))
    assert answer.worker_flows == (WorkerFlow("x", "x", 1), WorkerFlow(None, "y", 2))


@given(owner_lists, owner_lists, unit_lists)
def test_the_figures_are_those_of_a_count_vnode_by_vnode(
    before: tuple[int | None, ...], after: tuple[int | None, ...], units: list[Unit]
) -> None:
    answer = summary(VnodeMapping(before), VnodeMapping(after), units)
    worker = {unit.id: unit.worker for unit in units}
    moves = [(s, t) for s, t in zip(before, after, strict=True) if s != t and s is not None and t is not None]
    assert Counter(moves) == {(flow.source, flow.target): flow.vnodes for flow in answer.unit_flows}
    between = Counter((worker.get(source), worker.get(target)) for source, target in moves)
    assert between == {(flow.source, flow.target): flow.vnodes for flow in answer.worker_flows}
    assert answer.moves == len(moves)
    assert answer.cross_worker_moves == sum(
        source not in worker or worker[source] != worker.get(target) for source, target in moves
    )
    assert (answer.before.unowned, answer.after.unowned) == (before.count(None), after.count(None))
    assert answer.before.unowned - answer.assigned + answer.released == answer.after.unowned
    assert set(answer.gone) == {*before, *after} - {None} - worker.keys()
    for unit in answer.by_unit:
        assert (unit.before, unit.after) == (before.count(unit.unit), after.count(unit.unit))
        assert unit.lost == sum(s == unit.unit != t for s, t in zip(before, after, strict=True))
        assert unit.before + unit.gained - unit.lost == unit.after
        assert unit.worker == worker.get(unit.unit)
    assert [unit.unit for unit in answer.by_unit] == sorted({*worker, *before, *after} - {None})


@given(owner_lists, owner_lists, unit_lists)
def test_workers_sum_up_their_units(
    before: tuple[int | None, ...], after: tuple[int | None, ...], units: list[Unit]
) -> None:
    answer = summary(VnodeMapping(before), VnodeMapping(after), units)
    for figures in answer.by_worker:
        members = [unit for unit in answer.by_unit if unit.worker == figures.worker]
        assert figures.units == len(members) > 0
        assert figures.before == sum(unit.before for unit in members)
        assert figures.after == sum(unit.after for unit in members)
        assert figures.before + figures.gained - figures.lost == figures.after
        inside = sum(
            f.vnodes for f in answer.worker_flows if f.source == f.target == figures.worker is not None
        )
        assert figures.gained + inside == sum(unit.gained for unit in members)
    assert sum(figures.units for figures in answer.by_worker) == len(answer.by_unit)


@given(owner_lists)
def test_runs_of_each_unit_and_of_all(owners: tuple[int | None, ...]) -> None:
    mapping = VnodeMapping(owners)
    answer = summary(mapping, mapping, [])
    runs = Counter(run.owner for run in mapping.runs())
    assert answer.after.runs == sum(runs.values())
    assert {unit.unit: unit.runs_after for unit in answer.by_unit} == {
        u: n for u, n in runs.items() if u is not None
    }
    of_units = [count for owner, count in runs.items() if owner is not None]
    assert answer.after.runs_per_unit_max == max(of_units, default=0)
    assert answer.after.runs_per_unit_mean * len(of_units) == pytest.approx(sum(of_units))


@pytest.mark.parametrize("seed", range(5))
def test_a_summary_of_a_plan_agrees_with_its_certificate(seed: int) -> None:
    units = [Unit(unit_id, f"w{unit_id // 3}", weight=1.0 + unit_id % 2) for unit_id in range(12)]
    previous = first_mapping(96, units[seed:])
    answer = plan(previous, units[: 12 - seed])
    figures = summary(previous, answer.mapping, units[: 12 - seed])
    certificate = answer.certificate
    assert (figures.moves, figures.cross_worker_moves) == (certificate.moves, certificate.cross_worker_moves)
    assert (figures.after.spread, figures.after.runs) == (certificate.spread, certificate.runs)
    assert all(abs(unit.after - unit.fair_share) < 1 for unit in figures.by_unit if unit.worker)


def test_different_vnode_counts_are_counted_at_the_larger() -> None:
    before = VnodeMapping((0, 1))
    after = VnodeMapping.parse("0*3 1*5")
    answer = summary(before, after, [Unit(0, "a"), Unit(1, "b")])
    assert (answer.vnode_count, answer.moves) == (8, 1)
    assert [(unit.before, unit.after) for unit in answer.by_unit] == [(4, 3), (4, 5)]
    assert (answer.before.vnode_count, answer.before.most, answer.after.vnode_count) == (2, 1, 8)
    assert (answer.before.max_over_mean, answer.after.max_over_mean) == (1.0, 1.25)
    with pytest.raises(UnrelatedVnodeCounts):
        summary(VnodeMapping.unowned(6), VnodeMapping.unowned(9), [])


def test_a_unit_that_is_to_own_something_and_does_not_counts_in_the_balance() -> None:
    mapping = VnodeMapping((0, 0, 1, 1))
    idle = summary(mapping, mapping, [Unit(0, "a"), Unit(1, "a"), Unit(2, "a")])
    assert (idle.after.fewest, idle.after.spread) == (0, 2)
    drained = summary(mapping, mapping, [Unit(0, "a"), Unit(1, "a"), Unit(2, "a", weight=0.0)])
    assert (drained.after.fewest, drained.after.spread) == (2, 0)


@given(owner_lists, unit_lists)
def test_a_mapping_compared_with_itself_has_one_balance(
    owners: tuple[int | None, ...], units: list[Unit]
) -> None:
    answer = summary(VnodeMapping(owners), VnodeMapping(owners), units)
    assert answer.before == answer.after
    assert answer.before.units == len({*owners, *(unit.id for unit in units if unit.weight)} - {None})


@pytest.mark.parametrize("largest", [1e308, 1.0, 5e-324])
def test_fair_shares_of_weights_whose_sum_no_float_holds(largest: float) -> None:
    units = [Unit(0, "a", largest), Unit(1, "a", largest), Unit(2, "b", largest), Unit(3, "b", 0.0)]
    answer = summary(VnodeMapping((0,) * 6), VnodeMapping((0,) * 6), units)
    assert [unit.fair_share for unit in answer.by_unit] == pytest.approx([2.0, 2.0, 2.0, 0.0])
    assert [worker.fair_share for worker in answer.by_worker] == pytest.approx([4.0, 2.0])


def test_nobody_owning_anything_is_no_division_by_zero() -> None:
    answer = summary(VnodeMapping.unowned(4), VnodeMapping.unowned(4), [Unit(0, "a", weight=0.0)])
    assert (answer.after.units, answer.after.most, answer.after.max_over_mean) == (0, 0, 0.0)
    assert answer.by_unit[0].fair_share == 0.0


def test_units_listed_twice_are_refused() -> None:
    with pytest.raises(Malformed, match="listed twice"):
        summary(VnodeMapping((0,)), VnodeMapping((0,)), [Unit(0, "a"), Unit(0, "b")])


def test_a_summary_is_a_json_document_whose_matrix_is_sparse() -> None:
    units = [Unit(unit_id, f"w{unit_id // 8}") for unit_id in range(4096)]
    before = first_mapping(65_536, units[:-1])
    answer = summary(before, plan(before, units).mapping, units)
    assert answer.moves == 16
    assert len(answer.unit_flows) <= 16
    document = asdict(answer)
    assert json.loads(json.dumps(document))["by_unit"][4095]["gained"] == 16
