"""Types by Spark's SQL names: what operators and metadata write, and what nobody should."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys.errors import StorageKeyError, UnsupportedType, ValueOutOfRange
from storage_keys.type_name import parse_type
from storage_keys.types import (
    BIGINT,
    DAY_TIME_INTERVAL,
    INT,
    PLAIN_TYPES,
    SMALLINT,
    STRING,
    TINYINT,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    Field,
    KeyType,
    Struct,
)

HOSTILE_NAMES = [
    "",
    " ",
    " a ",
    "a b",
    "`",
    "``",
    "a`b",
    "a:b",
    "a,b",
    "a>",
    "<a",
    "struct<x:int>",
    "é",
    "K",
    "\n",
    "\\",
    "1a",
    "日本",
]

DECIMALS = st.integers(1, 38).flatmap(
    lambda precision: st.builds(Decimal, st.just(precision), st.integers(0, precision))
)
TYPES: st.SearchStrategy[KeyType] = st.recursive(
    st.sampled_from(PLAIN_TYPES) | DECIMALS,
    lambda inner: (
        st.builds(Array, inner)
        | st.lists(
            st.builds(Field, st.sampled_from(HOSTILE_NAMES) | st.text(max_size=4), inner), max_size=4
        ).map(lambda fields: Struct(tuple(fields)))
    ),
    max_leaves=6,
)


@given(TYPES)
def test_every_type_comes_back_from_its_sql_name(type_: KeyType) -> None:
    assert parse_type(type_.sql_name) == type_


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_field_may_have_any_name(name: str) -> None:
    type_ = Struct((Field(name, INT), Field("z", Array(Struct((Field(name, STRING),))))))
    assert parse_type(type_.sql_name) == type_


@pytest.mark.parametrize(
    ("name", "type_"),
    [
        ("byte", TINYINT),
        ("short", SMALLINT),
        ("INTEGER", INT),
        (" LONG ", BIGINT),
        ("decimal( 10 , 2 )", Decimal(10, 2)),
        ("Interval  Day   to Second", DAY_TIME_INTERVAL),
        ("interval hour", DAY_TIME_INTERVAL),
        ("interval minute to second", DAY_TIME_INTERVAL),
        ("interval month", YEAR_MONTH_INTERVAL),
        ("array< array<int> >", Array(Array(INT))),
        ("STRUCT< A : int , `b``c`:\tdecimal(3,1)>", Struct((Field("A", INT), Field("b`c", Decimal(3, 1))))),
        ("struct<a b:int>", Struct((Field("a b", INT),))),
        ("struct<>", Struct(())),
    ],
)
def test_names_are_read_as_spark_and_people_write_them(name: str, type_: KeyType) -> None:
    assert parse_type(name) == type_


@pytest.mark.parametrize(
    "name",
    [
        "",
        "map<string,int>",
        "array<map<int,int>>",
        "variant",
        "void",
        "interval",
        "interval second to day",
        "string collate UTF8_LCASE",
        "varchar(3)",
        "decimal",
        "decimal(10)",
        "decimal(-1,0)",
        "decimal(\u0661,0)",
        "array<>",
        "array<int",
        "array<int>>",
        "array<int,int>",
        "struct<int>",
        "struct<a:int,>",
        "struct<,a:int>",
        "struct<a:int>,b:array<int>",
        "struct<`a:int>",
        "struct<a`b:int>",
        "struct<a:int> not null",
    ],
)
def test_what_has_no_place_in_a_key_is_refused_by_name(name: str) -> None:
    with pytest.raises(UnsupportedType, match=r"cannot be part of a storage key; use boolean, tinyint, "):
        parse_type(name)


@pytest.mark.parametrize("name", ["decimal(39,0)", "decimal(0,0)", "decimal(2,3)", "array<decimal(9999,0)>"])
def test_decimals_of_no_possible_size_are_refused(name: str) -> None:
    with pytest.raises(ValueOutOfRange, match=r"the (precision|scale) of a decimal must be in "):
        parse_type(name)


def test_types_are_nested_32_deep_at_most() -> None:
    deepest = "array<" * 32 + "int" + ">" * 32
    assert parse_type(deepest).sql_name == deepest
    for depth in (33, 100_000):
        with pytest.raises(UnsupportedType) as refused:
            parse_type("array<" * depth + "int" + ">" * depth)
        assert str(refused.value).endswith("nested more than 32 deep; flatten it")
        assert len(str(refused.value)) < 400


TOKENS = ["struct<", "array<", "decimal(", "int", "9", "a", "`", ":", "<", ">", ",", ")", " ", "\n"]


@given(st.lists(st.sampled_from(TOKENS)))
def test_any_text_is_a_type_or_refused(tokens: list[str]) -> None:
    try:
        type_ = parse_type("".join(tokens))
    except StorageKeyError:
        return
    assert parse_type(type_.sql_name) == type_


@pytest.mark.parametrize(
    "name",
    [
        "struct<" + " " * 20_000 + "x" + " " * 20_000 + ">",
        "struct<" + "`" * 40_001 + ":int>",
        "struct<" + "`a" * 20_001 + ">",
        "struct<" + "a:int," * 10_000 + ">",
        "struct<" * 20_000,
        "decimal(" + " " * 40_000 + "x",
    ],
)
def test_a_long_name_takes_no_longer_for_being_hostile(name: str) -> None:
    began = time.process_time()
    with pytest.raises(UnsupportedType):
        parse_type(name)
    assert time.process_time() - began < 1
