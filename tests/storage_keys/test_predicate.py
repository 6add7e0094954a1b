"""Predicates as values: their JSON form, and LIKE patterns taken apart."""

import datetime
import math
import re
from decimal import Decimal as Number
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys.errors import MalformedKey
from storage_keys.predicate import (
    Comparison,
    In,
    IsNotNull,
    IsNull,
    Like,
    Predicate,
    between,
    parse_filters,
)
from storage_keys.type_name import parse_type

TYPES = {
    name: parse_type(type_name)
    for name, type_name in {
        "k": "tinyint",
        "s": "string",
        "raw": "binary",
        "f": "float",
        "n": "decimal(5,2)",
        "day": "date",
        "at": "timestamp",
        "ok": "boolean",
        "p": "struct<a:int,b:array<date>>",
    }.items()
}


def test_filters_of_every_form() -> None:
    document = [
        ["k", "=", 5],
        ["k", "<=>", None],
        ["k", ">", 300],
        ["k", "in", [1, None]],
        ["k", "between", 1, 5],
        ["k", "between", [1, 5]],
        ["s", "LIKE", "abc%"],
        ["at", "is null"],
        ["ok", "Is  Not NULL"],
        ["raw", ">=", {"hex": "00ff"}],
        ["f", "<", "Infinity"],
        ["n", "<", "1.005"],
        ["day", "=", "2013-01-31"],
        ["p", "=", [1, ["2013-01-31", None]]],
    ]
    day = datetime.date(2013, 1, 31)
    assert parse_filters(document, TYPES) == (
        Comparison("k", "=", 5),
        Comparison("k", "<=>", None),
        Comparison("k", ">", 300),
        In("k", (1, None)),
        Comparison("k", ">=", 1),
        Comparison("k", "<=", 5),
        *between("k", 1, 5),
        Like("s", "abc%"),
        IsNull("at"),
        IsNotNull("ok"),
        Comparison("raw", ">=", b"\x00\xff"),
        Comparison("f", "<", math.inf),
        Comparison("n", "<", Number("1.005")),
        Comparison("day", "=", day),
        Comparison("p", "=", (1, (day, None))),
    )
    assert parse_filters([], TYPES) == ()


def test_predicates_are_values() -> None:
    parsed = parse_filters([["p", "in", [[1, []], [2, [None]]]], ["k", "=", 5]], TYPES)
    assert len({*parsed, Comparison("k", "=", 5)}) == 2
    assert between("k", 1, 5) == (Comparison("k", ">=", 1), Comparison("k", "<=", 5))


@pytest.mark.parametrize(
    ("document", "refusal"),
    [
        ({"k": 5}, "the filters must be an array of filters, not {'k': 5}"),
        (["k"], "filter 0, 'k': a filter is an array of a column, an operator and its values"),
        ([["k", "=", 1], ["k"]], "filter 1, ['k']: a filter is an array"),
        ([[5, "=", 1]], "filter 0, [5, '=', 1]: a filter is an array"),
        ([["q", "=", 1]], "filter 0, ['q', '=', 1]: no column is named 'q'; the columns are k, s, raw"),
        (
            [["k", "!=", 1]],
            "filter 0, ['k', '!=', 1]: no operator is '!='; use =, <=>, <, <=, >, >=, in, between",
        ),
        ([["k", "="]], "filter 0, ['k', '=']: '=' takes one value"),
        ([["k", "=", 1, 2]], "'=' takes one value"),
        ([["k", "in", 1]], "'in' takes an array of values"),
        ([["k", "between", 1]], "'between' takes two values, the low one first"),
        ([["k", "is null", 1]], "'is null' takes no value"),
        ([["s", "like", 5]], "'like' takes a pattern, which is a string"),
        ([["s", "like", "a\\b"]], "filter 0, ['s', 'like', 'a\\\\b']: the pattern 'a\\\\b' has"),
        ([["k", "=", "five"]], "filter 0, ['k', '=', 'five']: 'five' is no value of type 'tinyint'"),
        ([["k", "in", [1, True]]], "filter 0, ['k', 'in', [1, True]]: True is no value of type 'tinyint'"),
        ([["k", "=", 5.5]], "5.5 is no value of type 'tinyint'"),
        ([["n", "=", 1.5]], "filter 0, ['n', '=', 1.5]: 1.5 is no decimal"),
        ([["day", "=", 5]], "5 is no value of type 'date'"),
        ([["p", "=", [1]]], "a struct of 2 fields cannot have 1 values"),
        ([["s", "=", "a\ud800"]], "lone surrogate"),
    ],
)
def test_what_is_no_filter_is_refused_by_its_place(document: object, refusal: str) -> None:
    with pytest.raises(MalformedKey, match=re.escape(refusal)) as refused:
        parse_filters(document, TYPES)
    assert refused.value.name == "malformed"


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["NaN", "abc%"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["hex", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)
OPERATORS = st.sampled_from(["=", "<=>", "<", ">=", "in", "between", "like", "is null", "is not null", "in "])
FILTERS = st.tuples(st.sampled_from([*TYPES]), OPERATORS, st.lists(JSON, max_size=2))


@given(st.lists(FILTERS.map(lambda of: [of[0], of[1], *of[2]]) | JSON, max_size=3))
def test_any_json_is_predicates_or_refused(document: list[object]) -> None:
    try:
        parsed = parse_filters(document, TYPES)
    except MalformedKey as error:
        message = str(error)
    else:
        message = "filter by filter"
        assert all(isinstance(one, Predicate) for one in parsed)
    assert message.startswith("filter ")


@pytest.mark.parametrize(
    ("pattern", "text", "rest"),
    [
        ("abc", "abc", ""),
        ("", "", ""),
        ("abc%", "abc", "%"),
        ("abc%%", "abc", "%%"),
        ("%abc", "", "%abc"),
        ("a_c", "a", "_c"),
        ("a\\%c", "a%c", ""),
        ("a\\_\\\\%", "a_\\", "%"),
        ("a%\\%", "a", "%\\%"),
    ],
)
def test_a_pattern_is_a_text_and_what_begins_with_a_wildcard(pattern: str, text: str, rest: str) -> None:
    assert Like("s", pattern).split() == (text, rest)


def test_the_escape_may_be_another_character() -> None:
    assert Like("s", "a/%\\%", escape="/").split() == ("a%\\", "%")
    assert Like("s", "a%%", escape="%").split() == ("a%", "")
    for escape in ("", "ab"):
        with pytest.raises(MalformedKey, match="one character as its escape"):
            Like("s", "abc", escape)


@pytest.mark.parametrize("operator", ["==", "!=", "in", "", None, ["="]])
def test_an_unknown_operator_is_refused(operator: Any) -> None:
    with pytest.raises(MalformedKey, match=r"^column 'k': no comparison is .*; use =, <=>, <, <=, >, >=$"):
        Comparison("k", operator, 5)


def test_in_takes_any_iterable_but_text() -> None:
    taken: list[Any] = [[1, None], range(3), {1: 2}, (value for value in "ab")]
    assert [In("k", values).values for values in taken] == [(1, None), (0, 1, 2), (1,), ("a", "b")]
    refused: list[Any] = ["abc", b"abc", bytearray(b"abc"), 5, None]
    for values in refused:
        with pytest.raises(MalformedKey, match=r"^column 's': IN takes a tuple of values, not .*; pass a"):
            In("s", values)


@pytest.mark.parametrize("pattern", ["abc\\", "a\\b", "%\\b", "\\"])
def test_an_escape_before_no_wildcard_is_refused_as_spark_does(pattern: str) -> None:
    with pytest.raises(MalformedKey, match="before what is no wildcard"):
        Like("s", pattern)
