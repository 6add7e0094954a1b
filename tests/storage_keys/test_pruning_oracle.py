"""Pruning against an oracle that evaluates predicates row by row, with SQL's three values."""

import datetime
import math
import random
import re
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal as Number
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage_keys.column import Order, decode_whole, encode_column
from storage_keys.errors import StorageKeyError
from storage_keys.hash import hash_row
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import Comparison, In, IsNotNull, IsNull, Like, Predicate, between
from storage_keys.pruning import Pruned, prune
from storage_keys.range import ALL_PREFIXES, KeyRange, PrefixRun, table_range
from storage_keys.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DAY_TIME_INTERVAL,
    DOUBLE,
    FLOAT,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TIMESTAMP_NTZ,
    TINYINT,
    YEAR_MONTH_INTERVAL,
    Array,
    Decimal,
    Field,
    KeyType,
    Struct,
)
from storage_keys.vnode import prefix_of

Row = dict[str, Any]

ORDERS = [Order(descending, nulls) for descending in (False, True) for nulls in ("first", "last")]


def rank(value: Any) -> Any:
    """What Python compares as Spark orders the values of one type."""
    match value:
        case float():
            return (math.isnan(value), 0.0 if math.isnan(value) else value)
        case str():
            return value.encode()
        case tuple() | list():
            return [(inner is not None, 0 if inner is None else rank(inner)) for inner in value]
    return value


def truth(predicate: Predicate, row: Row) -> bool | None:
    value, found = row[predicate.column], None
    match predicate:
        case IsNull() | IsNotNull():
            found = (value is None) == isinstance(predicate, IsNull)
        case Comparison(_, "<=>", other):
            found = value is other if None in (value, other) else rank(value) == rank(other)
        case Comparison(_, operator, other) if None not in (value, other):
            left, right = rank(value), rank(other)
            below, equal = left < right, left == right
            found = {"=": equal, "<": below, "<=": below or equal, ">": right < left, ">=": not below}[
                operator
            ]
        case In(column, values):
            answers = [truth(Comparison(column, "=", one), row) for one in values]
            found = True if True in answers else None if None in answers else False
        case Like(_, pattern) if value is not None:
            wild = {"%": ".*", "_": "."}
            tokens = re.findall(r"\\.|[^\\]", pattern, re.DOTALL)
            regex = "".join(wild.get(token) or re.escape(token[-1]) for token in tokens)
            found = re.fullmatch(regex, value, re.DOTALL) is not None
    return found


def passes(predicates: Sequence[Predicate], row: Row) -> bool:
    return all(truth(predicate, row) is True for predicate in predicates)


def single(value: float) -> float:
    found: float = struct.unpack("f", struct.pack("f", value))[0]
    return found


def integers(bits: int) -> list[Any]:
    low, high = -(1 << (bits - 1)), (1 << (bits - 1)) - 1
    return [low, low + 1, -2, -1, 0, 1, 2, 3, 4, 7, 127, high - 1, high]


TEXTS = [
    "",
    "\0",
    "a",
    "a\0",
    "ab",
    "abc",
    "abcdefg",
    "abcdefgh",
    "abcdefgh\0",
    "abcdefghi",
    "abd",
    "a%c",
    "z_",
]
TEXTS += ["x" * 16, "x" * 17, "\0" * 7, "\0" * 8, "\0" * 9, "é", "\ufb49", "\U0001f525", "\x7f"]
BYTES = [b"", b"\0", b"\xff", b"\xff" * 7, b"\xff" * 8, b"\xff" * 9, b"abc\0", b"\0" * 16, b"a" * 17]
FLOATS = [-math.inf, -1.5, -0.0, 0.0, 2.0**-149, single(0.1), 1.0, 2.0**127, math.inf, math.nan]
DAYS = [datetime.date(1, 1, 1), datetime.date(1582, 10, 10), datetime.date(9999, 12, 31)]
DAYS += [datetime.date(1970, 1, day) for day in (1, 2, 3)]
PAIR = Struct((Field("n", INT), Field("s", STRING)))


@dataclass(frozen=True)
class Sample:
    """Values that rows have, and further ones that only predicates have."""

    type: KeyType
    values: list[Any]
    others: list[Any]


FAR = [-(10**30), 10**30]
FLAT = [
    Sample(BOOLEAN, [False, True], []),
    Sample(TINYINT, integers(8), [-129, 128, 300, Number("2.5"), Number("-1e99"), *FAR]),
    Sample(SMALLINT, integers(16), [40_000, *FAR]),
    Sample(INT, integers(32), [2**31, Number("0.999"), *FAR]),
    Sample(BIGINT, integers(64), [2**63, -(2**63) - 1, *FAR]),
    Sample(FLOAT, FLOATS, [0.1, -0.1, 1e300, -1e300, 1e-50, -1e-50, 1.0000000001, 5.0]),
    Sample(DOUBLE, [*FLOATS, 0.1, 1e300, 5e-324], [1e-300, 5.0]),
    Sample(Decimal(5, 2), [Number(text) for text in ("-999.99", "-1.01", "-1", "0", "1.00", "1.01", "999.99")],
           [Number("1.005"), Number("-1.005"), Number("1e3"), Number("-1e3"), Number("1e-400"), Number(1)]),
    Sample(Decimal(38, 10), [Number(f"{'9' * 28}.{'9' * 10}"), Number(f"-{'9' * 28}.{'9' * 10}"), Number(0), Number(7)],
           [Number("7.00000000001"), Number("1e28"), Number("-1e999999")]),
    Sample(Decimal(18, 0), [Number(10**18 - 1), Number(-1), Number(0), Number(100)], [Number("0.5"), Number(10**18)]),
    Sample(DATE, DAYS, []),
    Sample(TIMESTAMP, integers(64), FAR),
    Sample(TIMESTAMP_NTZ, integers(64), FAR),
    Sample(YEAR_MONTH_INTERVAL, integers(32), FAR),
    Sample(DAY_TIME_INTERVAL, integers(64), FAR),
    Sample(STRING, TEXTS, ["abcdefgh\0\0", "zz"]),
    Sample(BINARY, BYTES, [b"\xff\xff\0", b"zz"]),
]  # fmt: skip
NESTED = [
    Sample(PAIR, [(1, "a"), (1, None), (None, "a"), (None, None), (2, "")], [(2**40, "a")]),
    Sample(Array(FLOAT), [(), (None,), (1.0,), (1.0, None), (-0.0,), (math.nan,)], [(0.1,), (1.0, 2.0)]),
]
PATTERNS = [
    "abc%",
    "abc",
    "%",
    "",
    "a\\%c",
    "a\\%%",
    "a_c",
    "abcdefgh%",
    "%b%",
    "\0%",
    "\ufb49%",
    "abc%%",
    "z\\_",
]


@dataclass(frozen=True)
class Case:
    schema: KeySchema
    samples: dict[str, Sample]
    rows: list[Row]
    predicates: list[Predicate]
    asked: list[PrefixRun]
    ranges_max: int


def case_of(seed: int) -> Case:
    chance = random.Random(seed)
    names = [f"c{at}" for at in range(chance.randint(1, 4))]
    samples = {name: chance.choice(FLAT if chance.random() < 0.9 else NESTED) for name in names}
    columns = tuple(KeyColumn(name, samples[name].type, chance.choice(ORDERS)) for name in names)
    flat = [name for name in names if samples[name] in FLAT]
    distribution = tuple(chance.sample(flat, chance.randint(0, len(flat))))
    schema = KeySchema(chance.choice([0, 7, 2**32 - 1]), columns, distribution)
    # `plain` is in the table and not in the key.
    samples["plain"] = Sample(INT, [0, 1, 2], [])
    pools = {name: [None, *chance.sample(of.values, min(4, len(of.values)))] for name, of in samples.items()}
    rows = [{name: chance.choice(pool) for name, pool in pools.items()} for _ in range(24)]
    predicates: list[Predicate] = []
    for name in chance.sample([*names, *names, "plain"], chance.randint(0, 2 * len(names) + 1)):
        # Mostly of values that rows have and such as the first row passes, or nothing would ever pass.
        values = (
            pools[name] if chance.random() < 0.6 else [None, *samples[name].values, *samples[name].others]
        )
        tries = [predicates_on(name, samples[name], values, chance) for _ in range(8)]
        lucky = [some for some in tries if passes(some, rows[0])]
        predicates += lucky[0] if lucky and chance.random() < 0.8 else tries[0]
    asked = runs_near([schema.prefix(row) for row in rows], chance)
    return Case(schema, samples, rows, predicates, asked, chance.choice([0, 1, 2, 5, 30, 1024]))


def predicates_on(name: str, sample: Sample, values: list[Any], chance: random.Random) -> list[Predicate]:
    value = chance.choice(values)
    forms: list[list[Predicate]] = [
        [Comparison(name, chance.choice(["=", "<=>"]), value)],
        [Comparison(name, chance.choice(["<", "<=", ">", ">="]), value)],
        [In(name, tuple(chance.choices(values, k=chance.randint(0, 5))))],
        [*between(name, value, chance.choice(values))],
        [IsNull(name)],
        [Like(name, chance.choice(PATTERNS)) if sample.type == STRING else IsNotNull(name)],
    ]
    return chance.choices(forms, weights=[4, 4, 4, 2, 1, 2])[0]


def runs_near(prefixes: list[int], chance: random.Random) -> list[PrefixRun]:
    """All prefixes, or a few runs, most of them of rows; they may overlap."""
    if chance.random() < 0.5:
        return [ALL_PREFIXES]
    runs = []
    for prefix in chance.choices([*prefixes, 0, 0xFFFF], k=chance.randint(0, 4)):
        first, last = prefix - chance.choice([0, 1, 40]), prefix + chance.choice([0, 2, 200])
        runs.append(PrefixRun(max(first, 0), min(last, 0xFFFF)))
    return runs


def check(case: Case, pruned: Pruned) -> None:
    schema = case.schema
    for row in case.rows:
        prefix = schema.prefix(row)
        asked = any(prefix in run.prefixes for run in case.asked)
        inside = any(found.contains(schema.storage_key(row)) for found in pruned.ranges)
        assert asked or not inside, row
        assert inside <= any(prefix in run.prefixes for run in pruned.prefixes), row
        assert (inside and passes(pruned.residual, row)) == (asked and passes(case.predicates, row)), row
    assert len(pruned.ranges) <= max(case.ranges_max, len(case.asked))
    assert set(pruned.residual) <= set(case.predicates)
    for one, following in pairwise(pruned.ranges):
        assert one.end is not None
        assert one.start < one.end < following.start
    whole = table_range(schema.table_id)
    for one in pruned.ranges:
        assert not one.is_empty
        assert one.intersection(whole) == one


def right_prefixes(case: Case) -> set[int] | None:
    """Those of the values that equalities, IN and IS NULL leave of the distribution key; None: one column is free."""
    choices = []
    for name in case.schema.distribution:
        own = [predicate for predicate in case.predicates if predicate.column == name]
        pinned = [value for predicate in own for value in pinned_by(predicate)]
        if not any(
            isinstance(one, In | IsNull) or getattr(one, "operator", None) in ("=", "<=>") for one in own
        ):
            return None
        sample = case.samples[name]
        known = [None, *sample.values, *(value for value in sample.others if is_held(sample.type, value))]
        held = [value for value in known if any(same(value, other) for other in pinned)]
        choices.append([value for value in held if passes(own, {name: value})])
    types = case.schema.distribution_types
    return {prefix_of(hash_row(types, values)) for values in product(*choices)}


def is_held(type_: KeyType, value: Any) -> bool:
    """Whether a row can have it: 0.1 is no float, 300 no tinyint."""
    try:
        return same(decode_whole(type_, encode_column(type_, value)), value)
    except StorageKeyError:
        return False


def pinned_by(predicate: Predicate) -> list[Any]:
    match predicate:
        case Comparison(_, "=" | "<=>", value):
            return [value]
        case In(_, values):
            return list(values)
        case IsNull():
            return [None]
    return []


def same(left: Any, right: Any) -> bool:
    return left is right or (left is not None and right is not None and rank(left) == rank(right))


def check_prefixes(case: Case, pruned: Pruned) -> bool:
    """Nothing but the right prefixes is opened, where the whole distribution key is known and allowed for."""
    right = right_prefixes(case)
    if right is None or len(right) > case.ranges_max:
        return False
    for one in pruned.ranges:
        touched = prefixes_touched(one)
        assert set(touched) <= right, (one, right)
    return True


def prefixes_touched(one: KeyRange) -> range:
    first = int.from_bytes(one.start[4:6].ljust(2, b"\0"), "big")
    head = one.start[:4]
    if one.end is None or not one.end.startswith(head):
        return range(first, 0x10000)
    # An end of exactly the bytes of a prefix is before all its keys.
    rest = one.end[4:]
    return range(first, int.from_bytes(rest[:2].ljust(2, b"\0"), "big") + (len(rest) > 2))


@pytest.mark.parametrize("seeds", [range(300), pytest.param(range(300, 60_000), marks=pytest.mark.slow)])
def test_ranges_and_residual_together_are_the_predicates(seeds: range) -> None:
    narrowed = known = read = 0
    for seed in seeds:
        case = case_of(seed)
        pruned = prune(case.schema, case.predicates, case.asked, case.ranges_max)
        try:
            check(case, pruned)
            known += check_prefixes(case, pruned)
        except AssertionError as error:
            error.add_note(f"seed {seed}: {case}\n{pruned}")
            raise
        narrowed += len(pruned.residual) < len(case.predicates) and bool(pruned.ranges)
        read += any(passes(case.predicates, row) for row in case.rows) and bool(case.predicates)
    # The generator must not have gone dull.
    assert min(narrowed, known, read) > len(seeds) // 6, (narrowed, known, read)


@given(st.floats(width=64), st.sampled_from(["<", "<=", ">", ">=", "="]), st.sampled_from(ORDERS))
def test_any_double_bounds_the_floats_around_it(bound: float, operator: Any, order: Order) -> None:
    schema = KeySchema(7, (KeyColumn("f", FLOAT, order),), ())
    predicate = Comparison("f", operator, bound)
    ranges = prune(schema, [predicate]).ranges
    with np.errstate(over="ignore", invalid="ignore"):
        near = np.float32(bound)
        around = [near, np.nextafter(near, np.float32("-inf")), np.nextafter(near, np.float32("inf"))]
    for value in [*map(float, around), 0.0, -1.5, math.inf, -math.inf, math.nan]:
        key = schema.storage_key({"f": value})
        assert any(one.contains(key) for one in ranges) == passes([predicate], {"f": value}), value


@given(
    st.decimals(allow_nan=False, allow_infinity=False) | st.decimals(-12, 12, places=4),
    st.sampled_from(["<", "<=", ">", ">=", "="]),
    st.sampled_from(ORDERS),
)
def test_any_decimal_bounds_those_of_two_digits(bound: Number, operator: Any, order: Order) -> None:
    schema = KeySchema(7, (KeyColumn("n", Decimal(3, 2), order),), ())
    predicate = Comparison("n", operator, bound)
    ranges = prune(schema, [predicate]).ranges
    near = [int(bound * 100) + step for step in (-2, -1, 0, 1, 2)] if abs(bound) < 12 else []
    for unscaled in [*near, -999, -1, 0, 1, 999]:
        if abs(unscaled) <= 999:
            value = Number(unscaled).scaleb(-2)
            key = schema.storage_key({"n": value})
            assert any(one.contains(key) for one in ranges) == passes([predicate], {"n": value}), value
