import itertools
import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from meta.mapping.errors import Malformed, PlanError
from meta.mapping.expansion_document import expand_offline

NAMES = {
    "not-a-multiple",
    "previous-task-gone",
    "joined-streams-disagree",
    "partition-vanished",
    "malformed",
}


def clicks(*partitions: object) -> list[Any]:
    return [["kafka", "clicks", partition] for partition in partitions]


FIRST = {"grouper": "partition", "partitions": clicks(0, 1)}
PREVIOUS = {"Partition 0": clicks(0), "Partition 1": clicks(1)}
GROWN = {"grouper": "partition", "partitions": clicks(0, 1, 2, 3), "previous": PREVIOUS}


def answer_or_name(document: Any) -> dict[str, Any] | str:
    try:
        return expand_offline(document)
    except PlanError as error:
        return error.name


def test_the_document_of_the_manual() -> None:
    orders = [["kafka", "orders", 1], ["kafka", "orders", 0]]
    answer = expand_offline(
        {
            "grouper": "partition",
            "stateful": True,
            "previous": {"Partition 0": [*clicks(0), orders[1]], "Partition 1": [*clicks(1), orders[0]]},
            "partitions": [*clicks(3, 2, 1, 0), *orders],
            "algorithm": "modulo",
            "joined": [[["kafka", "clicks"], ["kafka", "orders"]]],
            "broadcast": [["kafka", "rules", 0]],
        }
    )
    assert answer == {
        "tasks": {
            "Partition 0": [*clicks(0, 2), ["kafka", "orders", 0], ["kafka", "rules", 0]],
            "Partition 1": [*clicks(1, 3), ["kafka", "orders", 1], ["kafka", "rules", 0]],
        }
    }
    assert json.loads(json.dumps(answer)) == answer


def test_the_answer_is_the_previous_assignment_of_the_next_run() -> None:
    tasks = expand_offline(FIRST)["tasks"]
    for count in (4, 8):
        tasks = expand_offline({**FIRST, "partitions": clicks(*range(count)), "previous": tasks})["tasks"]
    assert tasks == {"Partition 0": clicks(0, 2, 4, 6), "Partition 1": clicks(1, 3, 5, 7)}


def test_a_stateless_job_is_grouped_anew_whatever_its_past() -> None:
    expected = {f"Partition {number}": clicks(number) for number in range(4)}
    assert expand_offline({**GROWN, "stateful": False}) == {"tasks": expected}
    both = {"a": clicks(0), "b": clicks(0)}
    assert expand_offline({**GROWN, "stateful": False, "previous": both}) == {"tasks": expected}


def test_optional_fields_may_be_null_or_left_out() -> None:
    names = ("stateful", "algorithm", "joined", "broadcast")
    assert expand_offline({**FIRST, "comment": "ours"} | dict.fromkeys(names)) == expand_offline(FIRST)


def test_a_previous_of_null_is_no_first_run() -> None:
    with pytest.raises(Malformed, match="if this is the job's first run"):
        expand_offline({**FIRST, "previous": None})
    assert expand_offline({**FIRST, "previous": {}}) == expand_offline(FIRST)
    stateless = {**FIRST, "previous": None, "stateful": False}
    assert expand_offline(stateless) == expand_offline(FIRST)


def test_names_may_be_any_text() -> None:
    odd = [["", "x"], ["käfka", "☃\n"], ["a, b]", "\ud800"]]
    partitions = [[system or "-", stream, 0] for system, stream in odd]
    answer = expand_offline({"grouper": "system-stream-partition", "partitions": partitions})
    assert sorted(held for (held,) in answer["tasks"].values()) == sorted(partitions)
    assert "SystemStreamPartition [käfka, ☃\n, 0]" in answer["tasks"]


@pytest.mark.parametrize(
    ("document", "name"),
    [
        ({**GROWN, "partitions": clicks(0, 1, 2)}, "not-a-multiple"),
        ({**GROWN, "partitions": clicks(0)}, "partition-vanished"),
        ({**GROWN, "partitions": []}, "partition-vanished"),
        ({**GROWN, "partitions": [["kafka", "orders", 0]]}, "partition-vanished"),
        ({**GROWN, "previous": {"Partition 1": clicks(1)}}, "previous-task-gone"),
        (
            {
                **FIRST,
                "partitions": [*clicks(0, 1), ["kafka", "orders", 0]],
                "joined": [[["kafka", "clicks"], ["kafka", "orders"]]],
            },
            "joined-streams-disagree",
        ),
        ([], "malformed"),
        (None, "malformed"),
        ({}, "malformed"),
        ({"partitions": clicks(0)}, "malformed"),
        ({"grouper": "partition"}, "malformed"),
        ({**FIRST, "grouper": "task"}, "malformed"),
        ({**FIRST, "grouper": None}, "malformed"),
        ({**FIRST, "grouper": ["partition"]}, "malformed"),
        ({**FIRST, "algorithm": "range"}, "malformed"),
        ({**FIRST, "algorithm": {}}, "malformed"),
        ({**FIRST, "stateful": 1}, "malformed"),
        ({**FIRST, "stateful": "false"}, "malformed"),
        ({**FIRST, "partitions": {}}, "malformed"),
        ({**FIRST, "partitions": [0]}, "malformed"),
        ({**FIRST, "partitions": ["abc"]}, "malformed"),
        ({**FIRST, "partitions": [["kafka", "clicks"]]}, "malformed"),
        ({**FIRST, "partitions": [["kafka", "clicks", 0, 0]]}, "malformed"),
        ({**FIRST, "partitions": [[["kafka"], "clicks", 0]]}, "malformed"),
        ({**FIRST, "partitions": [["", "clicks", 0]]}, "malformed"),
        ({**FIRST, "partitions": [["kafka", "clicks", False]]}, "malformed"),
        ({**FIRST, "partitions": clicks(0.0)}, "malformed"),
        ({**FIRST, "partitions": clicks("0")}, "malformed"),
        ({**FIRST, "partitions": clicks(-1)}, "malformed"),
        ({**FIRST, "partitions": clicks(2**31)}, "malformed"),
        ({**FIRST, "partitions": clicks(0, 0)}, "malformed"),
        ({**FIRST, "partitions": clicks(0, 2)}, "malformed"),
        ({**GROWN, "partitions": clicks(0, 1, 3)}, "malformed"),
        ({**GROWN, "previous": [clicks(0)]}, "malformed"),
        ({**GROWN, "previous": {"": clicks(0)}}, "malformed"),
        ({**GROWN, "previous": {"Partition 0": None}}, "malformed"),
        ({**GROWN, "previous": {"Partition 0": [0]}}, "malformed"),
        ({**GROWN, "previous": {"a": clicks(0, 1), "b": clicks(1)}}, "malformed"),
        ({**FIRST, "joined": {}}, "malformed"),
        ({**FIRST, "joined": [["kafka", "clicks"]]}, "malformed"),
        ({**FIRST, "joined": [[["kafka", "clicks", 0]]]}, "malformed"),
        ({**FIRST, "joined": [[["kafka", "orders"]]]}, "malformed"),
        ({**FIRST, "broadcast": {}}, "malformed"),
        ({**FIRST, "broadcast": [["kafka", "clicks"]]}, "malformed"),
        ({**FIRST, "broadcast": clicks(0, 1)}, "malformed"),
        ({**FIRST, "statefull": False}, "malformed"),
    ],
)
def test_documents_that_are_refused(document: Any, name: str) -> None:
    assert answer_or_name(document) == name


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
streams = st.tuples(st.just("kafka"), st.sampled_from(["clicks", "orders"])).map(list)
whole = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=2).map(
    lambda counts: [
        ["kafka", name, n]
        for name, count in zip(["clicks", "orders"], counts, strict=False)
        for n in range(count)
    ]
)
some = st.lists(st.builds(lambda stream, n: [*stream, n], streams, st.integers(0, 4)), max_size=6)
almost_document = st.fixed_dictionaries(
    {
        "grouper": st.sampled_from(["partition", "partition", "system-stream-partition"]) | junk,
        "partitions": whole | whole | some | junk,
    },
    optional={
        "previous": whole.map(lambda held: {f"Partition {item[2]}": [item] for item in held})
        | st.dictionaries(st.sampled_from("ab"), some, max_size=2)
        | junk,
        "stateful": st.booleans() | junk,
        "algorithm": st.just("modulo") | junk,
        "joined": st.lists(st.lists(streams, max_size=2), max_size=2) | junk,
        "broadcast": some | junk,
    },
)


@given(junk | almost_document)
def test_any_json_is_assigned_once_or_refused_by_name(document: Any) -> None:
    answer = answer_or_name(document)
    if isinstance(answer, str):
        assert answer in NAMES
        return
    shared = document.get("broadcast") or []
    held = [item for task in answer["tasks"].values() for item in task if item not in shared]
    assert sorted(held) == sorted(item for item in document["partitions"] if item not in shared)
    assert all(item in task for item in shared for task in answer["tasks"].values())
    assert all(task == sorted(task) for task in answer["tasks"].values())


@pytest.mark.parametrize(
    "name", ["grouper", "stateful", "previous", "partitions", "algorithm", "joined", "broadcast"]
)
def test_numbers_too_long_to_print_and_depths_too_deep_to_print_are_refused(name: str) -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    long = 10**5000
    for value in (long, [long], [["kafka", "clicks", long]], {"a": [long]}, deep, [deep], {"a": deep}):
        assert answer_or_name({**FIRST, name: value}) == "malformed"


def test_the_time_for_a_hundred_thousand_partitions_is_not_quadratic() -> None:
    before = {f"Partition {number}": clicks(number) for number in range(50_000)}
    document = {**FIRST, "previous": before, "partitions": clicks(*range(100_000))}
    started = time.process_time()
    tasks = expand_offline(document)["tasks"]
    # It takes 2 to 3 s on a busy machine; anything quadratic would take minutes.
    assert time.process_time() - started < 8
    assert len(tasks) == 50_000
    assert tasks["Partition 49999"] == clicks(49_999, 99_999)


CHAIN = [["kafka", f"s{number:05}"] for number in range(10_000)]


@pytest.mark.parametrize(
    ("joined", "known"),
    [
        ([[stream] for stream in CHAIN], 5_000),
        (list(map(list, itertools.pairwise(CHAIN))), 5_000),
        ([CHAIN], 5_000),
        ([[CHAIN[0], stream] for stream in reversed(CHAIN)], 1),
    ],
    ids=["each alone", "in pairs", "all at once", "one by one"],
)
def test_the_time_for_ten_thousand_joined_streams_is_not_quadratic(joined: list[Any], known: int) -> None:
    document = {
        "grouper": "partition",
        "previous": {"Partition 0": [[*stream, 0] for stream in CHAIN[:known]]},
        "partitions": [[*stream, 0] for stream in CHAIN],
        "joined": joined,
    }
    started = time.process_time()
    tasks = expand_offline(document)["tasks"]
    # It takes about 1 s on a busy machine; what is quadratic takes more than a minute.
    assert time.process_time() - started < 4
    assert tasks == {"Partition 0": document["partitions"]}
