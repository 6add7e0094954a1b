"""`vnodectl scan explain`: its documents against keys that are made one by one."""

import json
import random
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.scan.explain import explain
from storage_keys.column import Order
from storage_keys.errors import StorageKeyError
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT, STRING

NAMES = {"malformed", "bad-vnode-count", "unsupported-type", "value-out-of-range"}

TABLE: dict[str, Any] = {
    "vnode_count": 8,
    "owners": [0, 0, 3, 3, 0, 3, 3, 3],
    "schema": [
        {"name": "k", "type": "bigint"},
        {"name": "s", "type": "string"},
        {"name": "x", "type": "double"},
    ],
    "key": [{"name": "s", "descending": True, "nulls": "last"}, {"name": "k"}],
    "distribution": ["k"],
    "table_id": 7,
}
SCHEMA = KeySchema(7, (KeyColumn("s", STRING, Order(descending=True)), KeyColumn("k", BIGINT)), ("k",))
ROWS = [{"k": k, "s": s} for k in range(-5, 60) for s in ("a", "b", "bcd", None)]


def answered(document: dict[str, Any]) -> Any:
    return json.loads(json.dumps(explain(document)))


def groups_with(answer: Any, key: bytes) -> list[int]:
    return [
        at
        for at, group in enumerate(answer["groups"])
        for one in group["ranges"]
        if bytes.fromhex(one["start"]) <= key and (one["end"] is None or key < bytes.fromhex(one["end"]))
    ]


FILTERS = {
    (): bool,
    (("k", "=", 5),): lambda row: row["k"] == 5,
    (("k", "in", (1, 2, 50)), ("s", "like", "b%")): lambda row: (
        row["k"] in (1, 2, 50) and (row["s"] or "").startswith("b")
    ),
    (("k", "between", 3, 9), ("s", "is null")): lambda row: 3 <= row["k"] <= 9 and row["s"] is None,
    (("s", ">=", "b"),): lambda row: row["s"] is not None and row["s"] >= "b",
    (("k", "=", None),): lambda row: not row,
}


@st.composite
def documents(draw: st.DrawFn) -> dict[str, Any]:
    vnode_count = draw(st.sampled_from([1, 12, 100, 256, 1000, 65_536]))
    dice = random.Random(draw(st.integers(0, 1000)))
    units = draw(st.integers(1, 9))
    stats = [
        {"vnode": vnode, "bytes": dice.choice([0, 10, 1000, 10**9]), "rows": 1}
        for vnode in dice.sample(range(vnode_count), min(vnode_count, 30))
    ]
    return {
        **TABLE,
        "vnode_count": vnode_count,
        "owners": [dice.randrange(units) for _ in range(vnode_count)],
        "tasks": draw(st.none() | st.integers(1, 60)),
        "stats": draw(st.sampled_from([None, stats])),
        "filters": draw(st.sampled_from(list(FILTERS))),
    }


@settings(max_examples=40)
@given(documents())
def test_the_key_of_each_row_that_passes_is_in_one_range_of_one_group(document: dict[str, Any]) -> None:
    passes = FILTERS[document["filters"]]
    answer = answered(json.loads(json.dumps(document)))
    vnode_count, owners = document["vnode_count"], document["owners"]
    for row in ROWS:
        found = groups_with(answer, SCHEMA.storage_key(row))
        assert len(found) <= 1
        if passes(row):
            (at,) = found
            vnode = SCHEMA.prefix(row) * vnode_count >> 16
            assert any(first <= vnode <= last for first, last in answer["groups"][at]["vnodes"])
            assert answer["groups"][at]["unit"] in (owners[vnode], None)
    assert len(answer["groups"]) == (document["tasks"] or len(set(owners)))
    assert answer["ranges_opened"] == sum(len(group["ranges"]) for group in answer["groups"])
    read = {
        vnode
        for group in answer["groups"]
        for first, last in group["vnodes"]
        for vnode in range(first, last + 1)
    }
    assert answer["vnodes_pruned"] == vnode_count - len(read)
    if not document["filters"]:
        stats = document["stats"] or []
        assert sum(group["bytes"] for group in answer["groups"]) == sum(one["bytes"] for one in stats)


def test_a_group_for_each_unit() -> None:
    answer = answered(TABLE)
    assert [(group["unit"], group["vnodes"]) for group in answer["groups"]] == [
        (0, [[0, 1], [4, 4]]),
        (3, [[2, 3], [5, 7]]),
    ]
    assert answer["groups"][1]["ranges"] == [
        {"start": "000000074000", "end": "0000000780"},
        {"start": "00000007a000", "end": "00000008"},
    ]
    assert (answer["ranges_opened"], answer["vnodes_pruned"], answer["skew"]) == (4, 0, 1.25)
    assert answer["why"]


def test_the_last_vnode_of_the_last_table_has_no_end() -> None:
    answer = answered(TABLE | {"table_id": 0xFFFFFFFF})
    assert answer["groups"][1]["ranges"][-1] == {"start": "ffffffffa000", "end": None}


def test_tasks_are_balanced_by_bytes_where_there_are_stats() -> None:
    stats = [{"vnode": vnode, "bytes": 10} for vnode in range(8)]
    answer = answered(TABLE | {"tasks": 4, "stats": stats})
    assert [group["bytes"] for group in answer["groups"]] == [20] * 4
    assert answer["groups"][0] == {
        "unit": 0,
        "vnodes": [[0, 1]],
        "ranges": [{"start": "000000070000", "end": "0000000740"}],
        "bytes": 20,
        "needs_lookup": False,
    }
    assert [group["vnodes"] for group in answered(TABLE | {"tasks": 2})["groups"]] == [
        [[0, 2], [4, 4]],
        [[3, 3], [5, 7]],
    ]


def test_more_tasks_than_vnodes_are_empty_groups() -> None:
    answer = answered(TABLE | {"tasks": 20})
    assert [len(group["ranges"]) for group in answer["groups"]] == [1] * 8 + [0] * 12
    assert answer["groups"][-1]["unit"] is None


def test_a_hot_vnode_is_split_and_the_answer_says_so() -> None:
    stats = [{"vnode": vnode, "bytes": 1000 if vnode == 5 else 1} for vnode in range(8)]
    answer = answered(TABLE | {"tasks": 4, "stats": stats})
    assert answer["skew"] < 1.02
    assert sum([5, 5] in group["vnodes"] or [5, 7] in group["vnodes"] for group in answer["groups"]) >= 3
    assert any("split by prefix" in why and "vnode 5 (99.3 %)" in why for why in answer["why"])


def test_optional_fields_may_be_null_and_unknown_ones_are_the_writers_own() -> None:
    document = TABLE | {"tasks": None, "stats": None, "filters": None, "ranges_max": None, "comment": "ours"}
    assert answered(document) == answered(TABLE)


REFUSED: list[tuple[dict[str, Any], str, str]] = [
    ({"vnode_count": 0}, "bad-vnode-count", "1 to 4096"),
    ({"vnode_count": 9}, "malformed", "there are 8 owners"),
    ({"vnode_count": "8"}, "malformed", "must be an integer"),
    ({"owners": None}, "malformed", "must be an array"),
    ({"owners": [0, 0, 3, 3, 0, 3, 3, None]}, "malformed", "vnode 7 has no owner"),
    ({"owners": [0, 0, 3, 3, 0, 3, 3, True]}, "malformed", "not True"),
    ({"schema": [{"name": "k"}]}, "malformed", "'type' is missing"),
    ({"schema": [{"name": "k", "type": "map<int,int>"}]}, "unsupported-type", "column 'k'"),
    ({"schema": [{"name": "k", "type": "int"}] * 2}, "malformed", "twice"),
    ({"key": [{"name": "z"}]}, "malformed", "'z' is no column"),
    ({"key": [{"name": "k", "descending": "yes"}]}, "malformed", "yes"),
    ({"distribution": ["x"]}, "malformed", "not in the key"),
    ({"distribution": [["k"]]}, "malformed", "no column of the schema"),
    ({"table_id": 1 << 32}, "value-out-of-range", "table id"),
    ({"tasks": 0}, "malformed", "from 1 to 65536"),
    ({"tasks": True}, "malformed", "from 1 to 65536"),
    ({"tasks": 2.0}, "malformed", "from 1 to 65536"),
    ({"stats": {}}, "malformed", "must be an array"),
    ({"stats": [{"vnode": 8, "bytes": 1}]}, "value-out-of-range", "a vnode must be in 0..7"),
    ({"stats": [{"vnode": 0, "bytes": -1}]}, "value-out-of-range", "bytes"),
    ({"stats": [{"vnode": 0, "bytes": 1 << 61}]}, "value-out-of-range", "bytes"),
    ({"stats": [{"vnode": 0, "bytes": 1.5}]}, "malformed", "integer"),
    ({"stats": [{"vnode": 0, "bytes": 1}] * 2}, "malformed", "twice"),
    ({"filters": [["z", "=", 5]]}, "malformed", "no column is named 'z'"),
    ({"filters": [["k", "=", "five"]]}, "malformed", "filter 0"),
    ({"filters": {}}, "malformed", "array of filters"),
    ({"ranges_max": 0}, "value-out-of-range", "ranges_max"),
    ({"task": 4}, "malformed", 'did you mean "tasks"?'),
]


@pytest.mark.parametrize(("fields", "name", "words"), REFUSED, ids=lambda given: str(given)[:40])
def test_what_cannot_be_planned_is_refused_by_name(fields: dict[str, Any], name: str, words: str) -> None:
    with pytest.raises(StorageKeyError) as refused:
        explain(TABLE | fields)
    assert refused.value.name == name
    assert words in str(refused.value)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.sampled_from([*TABLE, "tasks", "stats", "filters", "ranges_max"]), json_values, max_size=3
    )
)
def test_whatever_stands_in_a_field_is_answered_or_refused_by_name(fields: dict[str, Any]) -> None:
    try:
        explain(TABLE | fields)
    except StorageKeyError as error:
        refused = error.name
    else:
        refused = None
    assert refused in {*NAMES, None}


@pytest.mark.parametrize("document", [None, 5, [], "{}", {}, {1: 2}])
def test_no_document_is_refused(document: object) -> None:
    with pytest.raises(StorageKeyError):
        explain(document)


def test_the_command_answers_and_refuses_line_by_line() -> None:
    lines = [json.dumps(TABLE), json.dumps(TABLE | {"vnode_count": 5000}), json.dumps(TABLE | {"tasks": 3})]
    command = [sys.executable, "-m", "meta.vnodectl", "scan", "explain"]
    done = subprocess.run(
        [*command, "--lines"], input="\n".join(lines), capture_output=True, text=True, check=True
    )
    first, second, third = map(json.loads, done.stdout.splitlines())
    assert (first, third) == (answered(TABLE), answered(TABLE | {"tasks": 3}))
    assert second["error"] == "bad-vnode-count"
    refused = subprocess.run(command, input=lines[1], capture_output=True, text=True, check=False)
    assert (refused.returncode, json.loads(refused.stdout)["error"], refused.stderr) == (
        2,
        "bad-vnode-count",
        "",
    )
