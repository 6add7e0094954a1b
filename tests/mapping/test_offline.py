import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import PlanError
from meta.mapping.offline import plan_offline

NAMES = {"no-units", "no-capacity", "more-units-than-vnodes", "malformed"}


def test_the_document_of_the_manual() -> None:
    units = [{"id": 0, "worker": "a", "weight": 1.0}, {"id": 2, "worker": "b"}]
    answer = json.loads(json.dumps(plan_offline({"previous": [0, 0, None, 5, 0, 2], "units": units})))
    assert answer["owners"] == [0, 0, 2, 2, 0, 2]
    assert answer["moves"] == [
        {"vnode": 3, "from": 5, "to": 2, "reason": "unit 5 is gone; unit 2 has 1 and its share is 3"}
    ]
    assert [unit["after"] for unit in answer["summary"]["by_unit"]] == [3, 3, 0]
    del answer["owners"], answer["moves"], answer["summary"]
    assert answer == {
        "assigned": 1,
        "lower_bound": 1,
        "gap": 0,
        "spread": 0,
        "runs": 4,
        "cross_worker_moves": 1,
        "remaining_moves": 0,
    }


def test_a_first_mapping() -> None:
    answer = plan_offline({"vnode_count": 5, "units": [{"id": 7}, {"id": 3}]})
    assert answer["owners"] == [3, 3, 3, 7, 7]
    assert (answer["moves"], answer["assigned"], answer["gap"]) == ([], 5, 0)


def test_without_names_each_unit_is_a_worker_of_its_own() -> None:
    units = [{"id": 0}, {"id": 1}]
    assert plan_offline({"previous": [0, 0], "units": units})["cross_worker_moves"] == 1
    named = [{"id": 0, "worker": "a"}, {"id": 1, "worker": "a"}]
    assert plan_offline({"previous": [0, 0], "units": named})["cross_worker_moves"] == 0


def test_optional_fields_may_be_null_or_agree() -> None:
    document = {"previous": [0], "vnode_count": 1, "units": [{"id": 0}], "level": "units"}
    document |= {"loads": None, "budget": None, "defragment": None, "comment": "ours"}
    assert plan_offline(document)["owners"] == [0]


def test_a_budget_gives_the_first_step_and_says_what_remains() -> None:
    document = {"previous": [0] * 8 + [9, None], "units": [{"id": 0}, {"id": 1}], "budget": 2}
    answer = plan_offline(document)
    assert None not in answer["owners"]
    assert 9 not in answer["owners"]
    assert [move["from"] for move in answer["moves"]] == [0, 0, 9]
    assert answer["remaining_moves"] == 1
    last = plan_offline(document | {"previous": answer["owners"]})
    assert (len(last["moves"]), last["remaining_moves"]) == (1, 0)


def test_defragmentation_spends_its_moves_on_fewer_runs() -> None:
    document = {"previous": [0, 1] * 4, "units": [{"id": 0}, {"id": 1}]}
    assert (plan_offline(document)["runs"], plan_offline(document)["gap"]) == (8, 0)
    answer = plan_offline(document | {"defragment": 4})
    assert answer["runs"] == 2
    assert answer["gap"] == len(answer["moves"]) == 4


def test_workers_too_can_be_levelled() -> None:
    previous = [unit for unit in range(32) for _ in range(8)]
    document = {
        "previous": previous,
        "units": [{"id": unit, "worker": f"w{unit // 8}"} for unit in range(40)],
    }
    assert plan_offline(document)["lower_bound"] == 48
    answer = plan_offline(document | {"level": "workers"})
    assert (len(answer["moves"]), answer["lower_bound"], answer["gap"]) == (51, 51, 0)
    assert [worker["after"] for worker in answer["summary"]["by_worker"]] in (
        [51, 51, 51, 51, 52],
        [52, 51, 51, 51, 51],
    )


def test_loads_are_levelled_within_the_slack_of_counts() -> None:
    document = {"previous": [0, 0, 1, 1], "units": [{"id": 0}, {"id": 1}], "loads": [6, 5, 1, 0]}
    answer = plan_offline(document)
    assert (answer["max_load"], answer["lower_bound"], answer["gap"]) == (6, 0, None)
    assert answer["max_load_before"] == 11
    assert 6 >= answer["max_load_lower_bound"] > 0
    none = plan_offline(document | {"count_slack": 0, "budget": 1})
    assert (none["max_load"], none["moves"]) == (11, []), "an exchange is two moves"


ONE = [{"id": 0}]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({"previous": [0], "units": []}, "no-units"),
        ({"previous": [0], "units": [{"id": 0, "weight": 0}]}, "no-capacity"),
        ({"previous": [0], "units": [{"id": 0}, {"id": 1}]}, "more-units-than-vnodes"),
        ([], "malformed"),
        (None, "malformed"),
        ({}, "malformed"),
        ({"units": ONE}, "malformed"),
        ({"previous": [0]}, "malformed"),
        ({"previous": [], "units": ONE}, "malformed"),
        ({"previous": {}, "units": ONE}, "malformed"),
        ({"previous": "0", "units": ONE}, "malformed"),
        ({"previous": [False], "units": ONE}, "malformed"),
        ({"previous": [0.0], "units": ONE}, "malformed"),
        ({"previous": [-1], "units": ONE}, "malformed"),
        ({"previous": ["0"], "units": ONE}, "malformed"),
        ({"previous": [[0]], "units": ONE}, "malformed"),
        ({"previous": [2**64], "units": ONE}, "malformed"),
        ({"vnode_count": 0, "units": ONE}, "malformed"),
        ({"vnode_count": True, "units": ONE}, "malformed"),
        ({"vnode_count": 1.0, "units": ONE}, "malformed"),
        ({"vnode_count": "1", "units": ONE}, "malformed"),
        ({"vnode_count": 10**12, "units": ONE}, "malformed"),
        ({"vnode_count": 2, "previous": [0], "units": ONE}, "malformed"),
        ({"vnode_count": True, "previous": [0], "units": ONE}, "malformed"),
        ({"previous": [0], "units": {"id": 0}}, "malformed"),
        ({"previous": [0], "units": [0]}, "malformed"),
        ({"previous": [0], "units": [{}]}, "malformed"),
        ({"previous": [0], "units": [{"id": True}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0.0}]}, "malformed"),
        ({"previous": [0], "units": [{"id": "0"}]}, "malformed"),
        ({"previous": [0], "units": [{"id": -1}]}, "malformed"),
        ({"previous": [0], "units": [{"id": None}]}, "malformed"),
        ({"previous": [0, 0], "units": [{"id": 0}, {"id": 0}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "worker": 3}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "worker": ""}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "worker": None}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": float("nan")}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": float("inf")}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": -0.5}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": True}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": "1"}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": 10**400}]}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "weight": None}]}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": [1.0, 2.0]}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": [-1]}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": "1"}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": [1], "count_slack": -1}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": [1], "level": "workers"}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": [1], "defragment": 3}, "malformed"),
        ({"previous": [0], "units": ONE, "loads": [1], "defragment": False}, "malformed"),
        ({"previous": [0], "units": ONE, "count_slack": 0.5}, "malformed"),
        ({"previous": [0], "units": ONE, "budget": 0}, "malformed"),
        ({"previous": [0], "units": ONE, "bugdet": 1}, "malformed"),
        ({"previous": [0], "units": ONE, "Level": "workers"}, "malformed"),
        ({"previous": [0], "units": [{"id": 0, "wieght": 2}]}, "malformed"),
        ({"previous": [0], "units": ONE, "budget": True}, "malformed"),
        ({"previous": [0], "units": ONE, "defragment": -1}, "malformed"),
        ({"previous": [0], "units": ONE, "level": "worker"}, "malformed"),
        ({"previous": [0], "units": ONE, "level": {}}, "malformed"),
    ],
)
def test_documents_that_are_refused(document: Any, name: str) -> None:
    with pytest.raises(PlanError) as error:
        plan_offline(document)
    assert error.value.name == name
    assert str(error.value)


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
almost_owner = st.integers(-1, 4) | st.none() | junk
almost_unit = st.fixed_dictionaries(
    {"id": st.integers(0, 4) | junk},
    optional={"worker": st.sampled_from("ab") | junk, "weight": st.floats() | junk},
)
almost_document = st.fixed_dictionaries(
    {"units": st.lists(almost_unit, max_size=4) | junk},
    optional={
        "previous": st.lists(almost_owner, max_size=8) | st.lists(st.integers(0, 5), max_size=8) | junk,
        "vnode_count": st.integers(-1, 20) | junk,
        "level": st.sampled_from(["units", "workers"]) | junk,
        "budget": st.integers(1, 9) | junk,
        "defragment": st.integers(0, 9) | junk,
        "loads": st.lists(st.floats(0, 9) | junk, max_size=8),
        "count_slack": st.floats(0, 1) | junk,
    },
)


def answer_or_name(document: Any) -> dict[str, Any] | str:
    try:
        return plan_offline(document)
    except PlanError as error:
        return error.name


@given(junk | almost_document)
def test_any_json_is_planned_or_refused_by_name(document: Any) -> None:
    answer = answer_or_name(document)
    if isinstance(answer, str):
        assert answer in NAMES
    elif answer["gap"] is not None:
        assert len(answer["moves"]) == answer["lower_bound"] + answer["gap"]


@pytest.mark.parametrize("name", ["previous", "vnode_count", "units", "level", "loads"])
def test_numbers_too_long_to_print_and_depths_too_deep_to_print_are_refused(name: str) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for junk in (10**5000, [10**5000], [{"id": 10**5000}], deep, [deep], [{"id": deep}]):
        assert answer_or_name({"previous": [0], "units": ONE} | {name: junk}) == "malformed"
