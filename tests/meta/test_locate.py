"""Where a key is, over HTTP: the same as by hand."""

import json

import httpx
import pytest

from meta.mapping.publication import decode_body
from storage_keys import offline
from tests.meta.story import Story, problem, told_on_sqlite


@pytest.fixture
def keyed(http: httpx.Client, name: str) -> Story:
    """By airline, number and day, with two tables."""
    story = Story(http, name)
    columns = [("carrier", "string"), ("flight", "int"), ("day", "date"), ("fare", "decimal(10,2)")]
    story.begin(
        distribution_key=[{"name": column, "type": type_} for column, type_ in columns], table_ids=[7, 9]
    )
    return story


KEY = ["UA", 1545, "2013-01-31", "12.50"]


def test_a_key_is_where_vnodectl_key_says(keyed: Story) -> None:
    found = keyed.http.post(f"{keyed.path}/locate", json={"key": KEY}).raise_for_status().json()
    types = ("string", "int", "date", "decimal(10,2)")
    columns = [{"type": type_, "value": value} for type_, value in zip(types, KEY, strict=True)]
    said = offline.vnode({"columns": columns, "vnode_count": 256})
    assert {name: found[name] for name in said} == said
    body = decode_body(keyed.http.get(f"{keyed.path}/versions/2/body").content)
    assert found["unit"] == body.mapping.owners[found["vnode"]]
    assert (found["worker"], found["version"]) == (keyed.name, 2)
    assert [one["table_id"] for one in found["ranges"]] == [7, 9]
    for one in found["ranges"]:
        document = {"table_id": one["table_id"], "columns": columns, "distribution": [0, 1, 2, 3]}
        key = str(offline.storage({**document, "vnode_count": 256})["hex"])
        assert one["start"] <= key < one["end"]
        assert one["start"] == f"{one['table_id']:08x}{found['prefix']:04x}"


@told_on_sqlite
def test_of_one_table_that_need_not_be_the_fragments(keyed: Story) -> None:
    found = keyed.http.post(f"{keyed.path}/locate", json={"key": KEY, "table_id": 2**32 - 1}).json()
    assert [one["table_id"] for one in found["ranges"]] == [2**32 - 1]
    nulls = keyed.http.post(f"{keyed.path}/locate", json={"key": [None] * 4}).raise_for_status().json()
    assert nulls["hash"] == 42


@told_on_sqlite
@pytest.mark.parametrize(
    ("key", "words"),
    [
        ([], "it has 0 values and the distribution key 4 columns; give carrier, flight, day, fare"),
        ([*KEY, 1], "it has 5 values"),
        ([1, *KEY[1:]], "carrier"),
        (["UA", 2**31, *KEY[2:]], "flight"),
        (["UA", 1, "yesterday", "1"], "day"),
        (["UA", 1, "2013-01-31", 1.5], "fare"),
        (["\ud800", 1, "2013-01-31", "1"], "carrier"),
        ([["UA"], 1, "2013-01-31", "1"], "carrier"),
    ],
)
def test_a_key_that_is_none_of_this_fragments(keyed: Story, key: list[object], words: str) -> None:
    # httpx would refuse half a surrogate itself.
    body = json.dumps({"key": key})
    answer = keyed.http.post(
        f"{keyed.path}/locate", content=body, headers={"content-type": "application/json"}
    )
    problem(answer, 422, "bad-key", words)


@told_on_sqlite
@pytest.mark.parametrize("table_id", [-1, 2**32, "7", True])
def test_a_table_id_is_four_bytes(keyed: Story, table_id: object) -> None:
    answer = keyed.http.post(f"{keyed.path}/locate", json={"key": KEY, "table_id": table_id})
    problem(answer, 422, "invalid-request", "table_id")
