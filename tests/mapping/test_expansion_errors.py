"""The fields of the refusals, which the API sends as they are: `vars(error)` as JSON."""

import json
from typing import Any

import pytest

from meta.mapping.expansion import assign
from meta.mapping.expansion_errors import (
    CannotExpand,
    ExpansionError,
    JoinedStreamsDisagree,
    NotAMultiple,
    PartitionVanished,
    PreviousTaskGone,
)
from meta.mapping.source_partition import SourcePartition, Stream

CLICKS = Stream("kafka", "clicks")
ORDERS = Stream("kafka", "orders")

RAISED: list[tuple[ExpansionError, dict[str, Any]]] = [
    (
        NotAMultiple(CLICKS, 4, 6),
        {"stream": ["kafka", "clicks"], "previous_count": 4, "count": 6, "next_count": 8},
    ),
    (CannotExpand(CLICKS, 2, 6), {"stream": ["kafka", "clicks"], "previous_count": 2, "count": 6}),
    (
        PreviousTaskGone(SourcePartition(CLICKS, 1), SourcePartition(CLICKS, 3)),
        {"partition": ["kafka", "clicks", 1], "highest": ["kafka", "clicks", 3]},
    ),
    (
        PartitionVanished(SourcePartition(CLICKS, 2), "a", whole_stream=False),
        {"partition": ["kafka", "clicks", 2], "task": "a", "whole_stream": False},
    ),
    (
        JoinedStreamsDisagree({ORDERS: 2, CLICKS: 3}, "so it is"),
        {"streams": [["kafka", "orders"], ["kafka", "clicks"]], "initial_counts": [2, 3]},
    ),
]


@pytest.mark.parametrize(("error", "fields"), RAISED, ids=lambda value: getattr(value, "name", ""))
def test_the_fields_of_a_refusal_are_json(error: ExpansionError, fields: dict[str, Any]) -> None:
    assert json.loads(json.dumps(vars(error))) == fields


def test_every_refusal_has_a_name_of_its_own_and_their_base_has_none() -> None:
    assert not hasattr(ExpansionError, "name")
    assert {type(error) for error, _ in RAISED} == set(ExpansionError.__subclasses__())
    assert len({error.name for error, _ in RAISED}) == len(RAISED)


def test_streams_that_read_alike_in_a_message_are_told_apart_in_the_fields() -> None:
    alike = [Stream("a.b", "c"), Stream("a", "b.c")]
    partitions = [SourcePartition(alike[0], 0), *(SourcePartition(alike[1], number) for number in range(2))]
    with pytest.raises(JoinedStreamsDisagree) as error:
        assign(partitions, joined=[alike])
    assert sorted(zip(error.value.streams, error.value.initial_counts, strict=True)) == [
        (["a", "b.c"], 2),
        (["a.b", "c"], 1),
    ]
