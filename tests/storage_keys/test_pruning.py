"""What is read for a filter: the rules of the ranges, and the edge cases that bit others."""

import datetime
import math
import struct
from collections.abc import Sequence
from decimal import Decimal as Number
from typing import Literal

import numpy as np
import pytest

from storage_keys.column import Order
from storage_keys.errors import MalformedKey
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import Comparison, In, IsNotNull, IsNull, Like, Predicate, between
from storage_keys.pruning import Pruned, prune
from storage_keys.range import ALL_PREFIXES, KeyRange, PrefixRun, prefix_range
from storage_keys.type_name import parse_type
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    STRING,
    TINYINT,
    Decimal,
    Field,
    KeyType,
    Struct,
)
from storage_keys.vnode import prefix_of, prefixes_of

ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]
PAIR = Struct((Field("n", INT), Field("s", STRING)))


def single(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


K, S = KeyColumn("k", INT), KeyColumn("s", STRING)


def table(*columns: KeyColumn, distribution: Sequence[str] = ()) -> KeySchema:
    return KeySchema(7, columns, tuple(distribution))


def below(schema: KeySchema, pruned: Pruned) -> list[tuple[str, str | None]]:
    """The ranges as hex below the only prefix that they are in; None: up to the end of it."""
    (run,) = pruned.prefixes
    assert run.first == run.last
    whole = prefix_range(schema.table_id, run)
    for one in pruned.ranges:
        assert one.intersection(whole) == one
    return [
        (one.start[6:].hex(), None if one.end == whole.end or one.end is None else one.end[6:].hex())
        for one in pruned.ranges
    ]


def is_nothing(pruned: Pruned) -> bool:
    return (pruned.ranges, pruned.prefixes, pruned.residual) == ((), (), ())


def test_without_predicates_the_runs_asked_for_are_read_adjacent_ones_as_one() -> None:
    schema = table(K, distribution=["k"])
    assert prune(schema).ranges == (KeyRange(bytes.fromhex("000000070000"), bytes.fromhex("00000008")),)
    halves = [PrefixRun(0x8000, 0xFFFF), PrefixRun(0, 0x7FFF)]
    assert prune(schema, prefixes=halves).ranges == prune(schema).ranges
    apart = [PrefixRun(3, 4), PrefixRun(6, 6), PrefixRun(4, 5)]
    assert prune(schema, prefixes=apart).prefixes == (PrefixRun(3, 6),)
    assert is_nothing(prune(schema, prefixes=[]))


def test_an_equality_on_the_whole_distribution_key_is_one_prefix_and_one_key() -> None:
    schema = table(K, S, distribution=["k"])
    prefix = prefix_of(hash_row([INT], [5]))
    pruned = prune(schema, [Comparison("k", "=", 5)])
    assert prune(schema, [Comparison("k", "=", np.uint8(5))]).ranges == pruned.ranges
    assert pruned.prefixes == (PrefixRun(prefix, prefix),)
    assert below(schema, pruned) == [("0180000005", "0180000006")]
    assert pruned.residual == ()
    assert pruned.why[0] == "the distribution key (k) is fixed: 1 of 65536 prefixes are read"
    assert is_nothing(prune(schema, [Comparison("k", "=", 5)], [PrefixRun(prefix + 1, 0xFFFF)]))


def test_the_distribution_key_may_be_anywhere_in_the_key_and_in_its_own_order() -> None:
    schema = table(K, S, KeyColumn("d", DATE), distribution=["d", "s"])
    day = datetime.date(2013, 1, 31)
    pruned = prune(schema, [Comparison("s", "=", "x"), Comparison("d", "=", day)])
    prefix = prefix_of(hash_row([DATE, STRING], [day, "x"]))
    assert pruned.prefixes == (PrefixRun(prefix, prefix),)
    # Below it, the first column is free: both predicates are left to the reader.
    assert pruned.ranges == (prefix_range(7, PrefixRun(prefix, prefix)),)
    assert pruned.residual == (Comparison("s", "=", "x"), Comparison("d", "=", day))
    with_k = prune(schema, [*pruned.residual, In("k", (3, 4, 9))])
    assert [len(with_k.ranges), with_k.residual] == [3, ()]


def test_null_in_the_distribution_key_is_a_prefix_too() -> None:
    schema = table(K, S, distribution=["s", "k"])
    for null in (IsNull("s"), Comparison("s", "<=>", None)):
        pruned = prune(schema, [null, Comparison("k", "=", 5)])
        prefix = prefix_of(hash_row([STRING, INT], [None, 5]))
        assert pruned.prefixes == (PrefixRun(prefix, prefix),)
        assert below(schema, pruned) == [("018000000500", "018000000501")]


def test_short_ranges_and_booleans_fix_the_distribution_key_long_ones_do_not() -> None:
    days = table(KeyColumn("d", DATE), KeyColumn("b", BOOLEAN), distribution=["d", "b"])
    week = between("d", datetime.date(2013, 1, 28), datetime.date(2013, 2, 3))
    pruned = prune(days, week)
    expected = {
        prefix_of(hash_row([DATE, BOOLEAN], [datetime.date(2013, 1, 28) + datetime.timedelta(day), truth_]))
        for day in range(7)
        for truth_ in (None, False, True)
    }
    assert {prefix for run in pruned.prefixes for prefix in run.prefixes} == expected
    assert pruned.residual == ()
    long = between("d", datetime.date(1913, 1, 28), datetime.date(2013, 2, 3))
    assert prune(days, long).prefixes == (ALL_PREFIXES,)
    assert prune(days, long).residual == long


def test_a_singleton_is_one_prefix_with_key_bounds() -> None:
    schema = table(K, S)
    assert below(schema, prune(schema)) == [("", None)]
    assert below(schema, prune(schema, between("k", 3, 5))) == [("0180000003", "0180000006")]
    mixed = [In("k", (3, 4)), Comparison("s", ">", "a")]
    assert below(schema, prune(schema, mixed)) == [
        ("01800000030101610000000000000002", "018000000302"),
        ("01800000040101610000000000000002", "018000000402"),
    ]


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (Order(descending=False, nulls="first"), [("0180000006", "02")]),
        (Order(descending=False, nulls="last"), [("0080000006", "01")]),
        (Order(descending=True, nulls="last"), [("fe", "fe7ffffffa")]),
        (Order(descending=True, nulls="first"), [("ff", "ff7ffffffa")]),
    ],
)
def test_a_comparison_never_reads_the_nulls_and_desc_swaps_the_ends(
    order: Order, expected: list[tuple[str, str]]
) -> None:
    # Phoenix 4322, 4841, 5318, 6960.
    schema = table(KeyColumn("k", INT, order))
    assert below(schema, prune(schema, [Comparison("k", ">", 5)])) == expected


@pytest.mark.parametrize(
    ("type_", "value", "start"),
    [
        (INT, -(2**31), "ffffffffff"),
        (STRING, "", "ffff"),
        (BOOLEAN, False, "ffff"),
        (BIGINT, -(2**63), "ff" * 9),
    ],
)
def test_what_encodes_to_all_ff_is_read_to_the_end_of_its_prefix(
    type_: KeyType, value: object, start: str
) -> None:
    schema = table(KeyColumn("k", type_, Order(descending=True, nulls="first")))
    for predicate in (Comparison("k", "=", value), Comparison("k", "<=", value)):
        pruned = prune(schema, [predicate])
        assert below(schema, pruned) == [(start, None)]
        assert pruned.ranges[0].end == bytes.fromhex("000000070001")
    last = KeySchema(2**32 - 1, schema.columns, ())
    assert prune(last, [Comparison("k", "=", value)]).ranges[0].end == bytes.fromhex("ffffffff0001")
    assert is_nothing(prune(schema, [Comparison("k", "<", value)]))


def test_null_under_desc_nulls_last_is_read_to_the_end_of_its_prefix() -> None:
    schema = table(KeyColumn("k", INT, Order(descending=True)), S)
    assert below(schema, prune(schema, [IsNull("k")])) == [("ff", None)]
    assert below(schema, prune(schema, [IsNull("k"), Comparison("s", "=", "")])) == [("ff0100", "ff0101")]
    # Below k = 5, FF is the end of k = 5 only.
    two = table(KeyColumn("k", INT), KeyColumn("j", INT, Order(descending=True)))
    assert below(two, prune(two, [Comparison("k", "=", 5), IsNull("j")])) == [("0180000005ff", "0180000006")]


def test_like_takes_the_successor_of_the_raw_bytes() -> None:
    schema = table(S, K)
    texts = ["abc", "abcd", "abcdefgh", "abcdefghi", "abc\0", "abb", "abd", "ab", "abcé"]
    pruned = prune(schema, [Like("s", "abc%")])
    assert pruned.residual == ()
    (only,) = pruned.ranges
    for text in texts:
        key = schema.storage_key({"s": text, "k": 1})
        assert only.contains(key) == text.startswith("abc")
    assert prune(schema, [Like("s", "abc")]).ranges == prune(schema, [Comparison("s", "=", "abc")]).ranges
    assert prune(schema, [Like("s", "%")]).ranges == prune(schema, [IsNotNull("s")]).ranges
    half = prune(schema, [Like("s", "abc%d")])
    assert (half.ranges, half.residual) == (pruned.ranges, (Like("s", "abc%d"),))


def test_empty_string_null_and_a_zero_byte_are_three() -> None:
    schema = table(KeyColumn("b", BINARY))
    assert below(schema, prune(schema, [Comparison("b", "=", b"")])) == [("0100", "0101")]
    assert below(schema, prune(schema, [IsNull("b")])) == [("00", "01")]
    zero = "0101" + "00" * 8
    assert below(schema, prune(schema, [Comparison("b", "=", b"\0")])) == [(zero + "01", zero + "02")]


def test_nothing_is_between_two_neighbours() -> None:
    number, real = KeyColumn("n", Decimal(5, 2)), KeyColumn("x", DOUBLE)
    gaps = [
        (number, Number("1.00"), Number("1.01")),
        (number, Number("1.001"), Number("1.009")),
        (real, 0.0, 5e-324),
        (real, math.inf, math.nan),
        (S, "a", "a\0"),
    ]
    for column, low, high in gaps:
        assert is_nothing(
            prune(table(column), [Comparison(column.name, ">", low), Comparison(column.name, "<", high)])
        )
    only = [Comparison("x", ">", math.inf)]
    assert len(prune(table(real, distribution=["x"]), only).prefixes[0].prefixes) == 1


CONTRADICTIONS: list[list[Predicate]] = [
    [Comparison("k", "=", 1), Comparison("k", "=", 2)],
    [In("k", ())],
    [In("k", (None,))],
    [*between("k", 5, 3)],
    [*between("k", 5, None)],
    [Comparison("k", "=", None)],
    [Comparison("k", "=", 300)],
    [Comparison("k", ">", 127)],
    [Comparison("k", "<", -128)],
    [Comparison("k", ">", 1), Comparison("k", "<", 2)],
    [Comparison("k", ">", -1), Comparison("k", "<", 0)],
    [Comparison("k", "=", Number("1.5"))],
    [IsNull("k"), IsNotNull("k")],
    [IsNull("k"), Comparison("k", "<", 300)],
    [Comparison("other", "=", None)],
    [In("other", ())],
]


@pytest.mark.parametrize("distribution", [(), ("k",), ("s",)])
@pytest.mark.parametrize("predicates", CONTRADICTIONS)
@pytest.mark.parametrize("order", ORDERS)
def test_contradictions_read_nothing(
    predicates: list[Predicate], distribution: tuple[str, ...], order: Order
) -> None:
    schema = table(KeyColumn("k", TINYINT, order), S, distribution=distribution)
    assert is_nothing(prune(schema, predicates))


@pytest.mark.parametrize("order", ORDERS)
def test_a_value_beyond_the_type_is_a_bound_that_holds_all_but_null(order: Order) -> None:
    schema = table(KeyColumn("k", TINYINT, order))
    values = prune(schema, [IsNotNull("k")])
    for bound in (
        Comparison("k", "<", 300),
        Comparison("k", ">=", -129),
        Comparison("k", "<=", Number("1e9")),
    ):
        assert prune(schema, [bound]) == values


def test_bounds_that_the_type_cannot_hold_are_rounded_to_the_correct_side() -> None:
    schema = table(KeyColumn("n", Decimal(5, 2)))

    def same_as(one: Comparison, other: Comparison) -> bool:
        return prune(schema, [one]).ranges == prune(schema, [other]).ranges

    assert same_as(Comparison("n", "<", Number("1.005")), Comparison("n", "<=", Number("1.00")))
    assert same_as(Comparison("n", "<=", Number("-1.005")), Comparison("n", "<=", Number("-1.01")))
    assert is_nothing(prune(schema, [Comparison("n", "=", Number("1.005"))]))
    schema = table(KeyColumn("n", FLOAT))
    assert single(0.1) > 0.1
    assert same_as(Comparison("n", ">", 0.1), Comparison("n", ">=", single(0.1)))
    assert same_as(Comparison("n", "<", -1e-50), Comparison("n", "<=", -(2.0**-149)))
    assert same_as(Comparison("n", ">", 1e300), Comparison("n", ">=", math.inf))
    assert is_nothing(prune(schema, [Comparison("n", "=", 0.1)]))
    assert is_nothing(prune(schema, [Comparison("n", ">", math.nan)]))
    schema = table(KeyColumn("n", Decimal(5, 2)))
    assert same_as(Comparison("n", "=", 7), Comparison("n", "=", Number("7.0")))
    assert same_as(Comparison("n", "=", 0), Comparison("n", "=", Number("-0e500")))
    # Neither many digits nor a far exponent takes time.
    assert is_nothing(prune(schema, [Comparison("n", ">", Number("1e999999999"))]))
    assert same_as(Comparison("n", ">", Number("1e-999999999")), Comparison("n", ">=", Number("0.01")))
    assert same_as(Comparison("n", "<", Number(f"1.{'0' * 5000}1")), Comparison("n", "<=", Number(1)))


def test_a_whole_number_is_the_float_that_it_is() -> None:
    schema = table(KeyColumn("n", FLOAT))
    zeros = [prune(schema, [Comparison("n", "=", zero)]) for zero in (0, 0.0, -0.0)]
    assert zeros[0].ranges == zeros[1].ranges == zeros[2].ranges


def test_ranges_max_gives_up_columns_first_then_prefixes_then_leaves_the_runs() -> None:
    schema = table(K, S, KeyColumn("j", INT), distribution=["k"])
    predicates = [In("k", (1, 2, 3)), In("s", ("a", "b")), In("j", (1, 3, 5, 7))]
    seen = {}
    for ranges_max in (1, 2, 3, 5, 6, 23, 24):
        pruned = prune(schema, predicates, ranges_max=ranges_max)
        assert len(pruned.ranges) <= ranges_max
        seen[ranges_max] = (len(pruned.ranges), [one.column for one in pruned.residual])
    assert seen == {
        1: (1, ["k", "s", "j"]),
        2: (1, ["k", "s", "j"]),
        3: (3, ["s", "j"]),  # one range from 'a' to 'b' in each
        5: (3, ["s", "j"]),
        6: (6, ["j"]),  # from 1 to 7
        23: (6, ["j"]),
        24: (24, []),
    }
    assert prune(schema, predicates, ranges_max=2).prefixes == (ALL_PREFIXES,)
    assert (
        prune(schema, predicates, ranges_max=3)
        .ranges[0]
        .start.endswith(bytes.fromhex("010161" + "00" * 7 + "01"))
    )


def test_few_prefixes_get_key_bounds_though_the_distribution_key_is_free() -> None:
    schema = table(K, S, distribution=["s"])
    vnode = PrefixRun(*prefixes_of(3, 3, 256))
    pruned = prune(schema, between("k", 3, 5), [vnode])
    assert [len(pruned.ranges), pruned.residual, pruned.prefixes] == [256, (), (vnode,)]
    fine = PrefixRun(*prefixes_of(700, 700, 65536))
    assert below(schema, prune(schema, between("k", 3, 5), [fine])) == [("0180000003", "0180000006")]
    several = prune(schema, [In("k", (1, 3, 5, 7, 9))], [vnode])
    # 1,280 exact ranges are too many, 256 from the first to the last key are not.
    assert [len(several.ranges), len(several.residual)] == [256, 1]
    assert len(prune(schema, between("k", 3, 5), [vnode], ranges_max=255).ranges) == 1
    assert len(prune(schema, between("k", 3, 5)).ranges) == 1


def test_a_key_of_the_wrong_prefix_is_never_read_though_it_is_between() -> None:
    # The same NULL-blind hash: (NULL, 'a') and ('a', NULL) share a prefix, and only one of them is asked for.
    schema = table(S, KeyColumn("t", STRING), distribution=["s", "t"])
    pruned = prune(schema, [IsNull("s"), Comparison("t", "=", "a")])
    inside = [{"s": None, "t": "a"}, {"s": "a", "t": None}]
    assert schema.prefix(inside[0]) == schema.prefix(inside[1])
    assert [pruned.ranges[0].contains(schema.storage_key(row)) for row in inside] == [True, False]


def test_a_free_boolean_is_passed_over_a_free_number_is_not() -> None:
    five = Comparison("k", "=", 5)
    flag = table(KeyColumn("b", BOOLEAN), K)
    expected = [(f"{one}0180000005", f"{one}0180000006") for one in ("00", "0100", "0101")]
    assert below(flag, prune(flag, [five])) == expected
    # 257 ranges would cost more than the one prefix that they are in.
    number = table(KeyColumn("b", TINYINT), K)
    assert below(number, prune(number, [five])) == [("", None)]
    assert prune(number, [five]).residual == (five,)


def test_neighbouring_keys_below_one_prefix_are_one_range() -> None:
    schema = table(K)
    assert below(schema, prune(schema, [In("k", (0, 2, -1, 1))])) == [("017fffffff", "0180000003")]
    desc = table(KeyColumn("k", INT, Order(descending=True)))
    assert below(desc, prune(desc, [In("k", (0, 2, -1, 1))])) == [("fe7ffffffd", "fe80000001")]


def test_structs_and_arrays_are_looked_for_and_not_compared() -> None:
    schema = table(KeyColumn("p", PAIR))
    assert below(schema, prune(schema, [Comparison("p", "=", (1, None))])) == [
        ("01018000000100", "01018000000101")
    ]
    pruned = prune(schema, [Comparison("p", "<", (1, None))])
    assert below(schema, pruned) == [("01", "02")]
    assert len(pruned.residual) == 1


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (INT, "5"),
        (INT, True),
        (INT, 5.0),
        (STRING, 5),
        (DATE, 5),
        (DOUBLE, "1"),
        (Decimal(5, 2), Number("NaN")),
    ],
)
def test_a_value_that_cannot_be_compared_is_refused_by_the_columns_name(
    type_: KeyType, value: object
) -> None:
    for predicate in (Comparison("k", "<", value), In("k", (None, value))):
        with pytest.raises(MalformedKey, match=r"^column 'k': "):
            prune(table(KeyColumn("k", type_)), [predicate])


@pytest.mark.parametrize("nulls", ["first", "last"])
@pytest.mark.parametrize(
    ("type_name", "smallest"),
    [
        ("struct<b:boolean>", (False,)),
        ("struct<x:tinyint,y:string>", (1, "")),
        ("struct<a:array<int>>", ((),)),
    ],
)
def test_a_descending_struct_equal_to_one_of_a_smallest_field_is_not_the_one_of_null(
    type_name: str, smallest: tuple[object, ...], nulls: Literal["first", "last"]
) -> None:
    schema = KeySchema(7, (KeyColumn("s", parse_type(type_name), Order(descending=True, nulls=nulls)),), ())
    found = prune(schema, [Comparison("s", "=", smallest)])
    assert found.residual == ()
    assert any(one.contains(schema.storage_key({"s": smallest})) for one in found.ranges)
    with_null = (*smallest[:-1], None)
    assert not any(one.contains(schema.storage_key({"s": with_null})) for one in found.ranges)
