"""Every filter on every type against Python's own comparisons, in Spark, in its Parquet reader and in Arrow."""

import datetime
import math
import random
import re
from decimal import Decimal
from functools import reduce
from operator import eq, ge, gt, le, lt
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from dispatcher.scan.filters import conditions
from storage_keys.arrow import arrow_type
from storage_keys.errors import StorageKeyError
from storage_keys.predicate import Comparison, In, IsNotNull, IsNull, Like, Predicate
from storage_keys.type_name import parse_type

NAN, INF = float("nan"), float("inf")
DAY = 86_400_000_000
INSTANTS = [-62135596800000000, -12219724799000000, -1, 0, 1, 1359590400000001, 253402300799999999]
LENGTHS = ["", "\0", "abc", "abcd", "abcdefgh", "abd", "a%c", "é", "\U0001f600", "￿"]
# The values that are in the column, and others to compare them with.
VALUES: dict[str, tuple[list[Any], list[Any]]] = {
    "boolean": ([True, False], []),
    "tinyint": ([-128, -1, 0, 5, 127], [300, -1000, Decimal("4.5"), Decimal("5.0")]),
    "bigint": ([-(2**63), -1, 0, 77, 2**63 - 1], [2**70, -(2**70), Decimal("76.9")]),
    "float": ([0.0, -0.0, NAN, INF, -INF, 0.10000000149011612, -1.5], [0.1, 1e300, -1e300, 1e-300]),
    "double": ([0.0, -0.0, NAN, INF, -INF, 0.1, -1.5], [1e300, 5e-324]),
    "decimal(5,2)": ([Decimal("-999.99"), Decimal("0.00"), Decimal("1.01")], [7, 10**9, Decimal("1.005")]),
    "decimal(38,10)": ([Decimal("-2e-10"), Decimal("1e20"), Decimal("0")], [Decimal("1e-20"), Decimal("1e60")]),
    "date": (
        [datetime.date.min, datetime.date(1582, 10, 10), datetime.date(1969, 12, 31), datetime.date.max],
        [datetime.date(2013, 1, 31), datetime.date(1582, 10, 4), datetime.date(1900, 1, 1)],
    ),
    "timestamp": (INSTANTS, [DAY, -12219724799000001, 2**63 - 1]),
    "timestamp_ntz": (INSTANTS, [DAY, -12219724799000001, 1359590400000000]),
    "string": (LENGTHS, ["ab", "abcdefghi", "zz"]),
    "binary": ([text.encode() for text in LENGTHS] + [b"\xff", b"\xff\xff"], [b"ab", b"\xff\0"]),
}  # fmt: skip
NAMES = {name: re.sub(r"[(),]", " ", name).strip() for name in VALUES}
TYPES = {NAMES[name]: parse_type(name) for name in VALUES}
ROWS = max(len(values) for values, _ in VALUES.values()) + 1
CELLS = {NAMES[name]: [*values, *[None] * (ROWS - len(values))] for name, (values, _) in VALUES.items()}
COMPARE = {"=": eq, "<=>": eq, "<": lt, "<=": le, ">": gt, ">=": ge}


@pytest.fixture(scope="module")
def stored() -> pa.Table:
    columns = {name: pa.array(cells, arrow_type(TYPES[name])) for name, cells in CELLS.items()}
    return pa.table({"id": list(range(ROWS)), **columns})


@pytest.fixture(scope="module")
def columns(stored: pa.Table) -> StructType:
    return from_arrow_schema(stored.schema)


@pytest.fixture(scope="module")
def rows(
    spark: SparkSession, stored: pa.Table, columns: StructType, tmp_path_factory: pytest.TempPathFactory
) -> DataFrame:
    """Each in a row group of its own, to skip by its statistics and its dictionary."""
    path = tmp_path_factory.mktemp("filters") / "rows.parquet"
    pq.write_table(stored, path, row_group_size=1, store_schema=False)
    return spark.read.schema(columns).parquet(str(path))


def everything(dice: random.Random, values_max: int = 99) -> list[Predicate]:
    """With each operator so many values of the column, and so many others."""
    found: list[Predicate] = []
    for written, (inside, outside) in VALUES.items():
        name, values = NAMES[written], [*inside, *outside]
        found += [IsNull(name), IsNotNull(name), Comparison(name, "<=>", None)]
        for operator in COMPARE:
            chosen = [*some(dice, inside, values_max), *some(dice, outside, values_max)]
            found += [Comparison(name, operator, value) for value in chosen]
        found += [In(name, (*dice.sample(values, k=min(len(values), 3)), None)) for _ in range(3)]
    patterns = ["abc%", "%c", "a_c", "", "%", "a\\%c", "abc", "é%", "abcd%h", "_"]
    return [*found, *(Like("string", pattern) for pattern in patterns), Like("date", "1969-%")]


def some(dice: random.Random, values: list[Any], most: int) -> list[Any]:
    return dice.sample(values, min(len(values), most))


def passes(predicate: Predicate, value: object) -> bool:
    match predicate:
        case IsNull() | Comparison(operator="<=>", value=None):
            return value is None
        case _ if value is None:
            return False
        case IsNotNull():
            return True
        case Comparison(operator=operator, value=other):
            return bool(COMPARE[operator](ordered(value), ordered(other)))
        case In(values=others):
            return any(other is not None and ordered(value) == ordered(other) for other in others)
        case Like():
            text, rest = predicate.split()
            wild = "".join(
                {"%": ".*", "_": "."}.get(char, re.escape(char)) for char in rest.replace("\\", "")
            )
            return re.fullmatch(re.escape(text) + wild, str(value), re.DOTALL) is not None
    raise AssertionError(predicate)


def ordered(value: Any) -> Any:
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value)
    return value.encode() if isinstance(value, str) else value


def expected(predicates: tuple[Predicate, ...]) -> list[int]:
    return [row for row in range(ROWS) if all(passes(one, CELLS[one.column][row]) for one in predicates)]


@pytest.mark.parametrize("values_max", [1, pytest.param(99, marks=pytest.mark.slow)])
def test_a_filter_passes_in_spark_the_rows_that_it_passes_in_python(
    rows: DataFrame, columns: StructType, values_max: int
) -> None:
    asked = [conditions(columns, [predicate]) for predicate in everything(random.Random(1), values_max)]
    found = [one for one in asked if not one.are_never_met]
    tests = [one.as_column().alias(f"c{at}") for at, one in enumerate(found)]
    flags = rows.sort("id").select(*tests).collect()
    for at, one in enumerate(found):
        assert [row for row in range(ROWS) if flags[row][at]] == expected(one.predicates), one.predicates
    for one in asked:
        assert not (one.are_never_met and expected(one.predicates)), one.predicates


def test_a_filter_passes_in_arrow_at_least_those_rows_and_hardly_others(
    stored: pa.Table, columns: StructType
) -> None:
    for predicate in everything(random.Random(2)):
        asked = conditions(columns, [predicate])
        if asked.are_never_met:
            continue
        found = stored.filter(asked.as_expression())["id"].to_pylist()
        if isinstance(predicate, Like):
            assert set(found) >= set(expected((predicate,)))
        else:
            assert found == expected((predicate,)), predicate


@pytest.mark.parametrize("filters", [20, pytest.param(100, marks=pytest.mark.slow)])
def test_sparks_parquet_reader_skips_no_row_that_passes(
    rows: DataFrame, columns: StructType, filters: int
) -> None:
    dice = random.Random(3)
    usable = [one for one in everything(dice) if not conditions(columns, [one]).are_never_met]
    asked = [conditions(columns, dice.sample(usable, k=dice.choice([1, 1, 2]))) for _ in range(filters)]
    asked = [one for one in asked if not one.are_never_met]
    found = reduce(
        DataFrame.union,
        [rows.where(one.as_column()).select(sf.lit(at).alias("at"), "id") for at, one in enumerate(asked)],
    )
    ids: dict[int, list[int]] = {}
    for at, row in found.collect():
        ids.setdefault(at, []).append(row)
    for at, one in enumerate(asked):
        assert sorted(ids.get(at, [])) == expected(one.predicates), one.predicates


def test_values_may_be_pythons_own_or_written_as_json() -> None:
    struct = StructType().add("at", "timestamp").add("wall", "timestamp_ntz").add("d", "decimal(5,2)")
    struct = struct.add("day", "date").add("bytes", "binary").add("x", "double")
    noon = datetime.datetime(2013, 1, 1, 12, 0, 0, 7, datetime.timezone(datetime.timedelta(hours=2)))
    micros = 1357034400000007
    written = [
        (("at", "=", noon), micros),
        (("at", "=", micros), micros),
        (("wall", "=", noon.replace(tzinfo=None)), micros + 2 * 3_600_000_000),
        (("d", "=", "1.50"), Decimal("1.50")),
        (("d", "=", Decimal("1.5")), Decimal("1.5")),
        (["day", "=", "2013-01-01"], datetime.date(2013, 1, 1)),
        (("bytes", "=", {"hex": "ff"}), b"\xff"),
        (("bytes", "=", b"\xff"), b"\xff"),
        (("x", "=", "Infinity"), INF),
    ]
    for one, value in written:
        assert conditions(struct, [one]).predicates == (Comparison(str(one[0]), "=", value),)
    assert conditions(struct, [("x", "in", (1.0, NAN))]).columns == ("x",)
    assert (
        conditions(struct, [("day", "between", "2013-01-01", datetime.date(2013, 2, 1))])
        .predicates[1]
        .operator
        == "<="
    )


def test_structs_and_arrays_are_only_looked_for(spark: SparkSession) -> None:
    first, second = (
        "named_struct('a', 1, 'b', 'x'), array(1, NULL)",
        "named_struct('a', NULL, 'b', 'x'), array()",
    )
    rows = spark.sql(f"SELECT * FROM VALUES (1, {first}), (2, {second}), (3, NULL, NULL) AS t(id, s, l)")
    wanted = {
        ("s", "=", (1, "x")): [1], ("s", "in", ((None, "x"), (5, "x"))): [2], ("l", "=", (1, None)): [1],
        ("l", "<=>", None): [3], ("l", "=", ()): [2], ("s", "is not null"): [1, 2],
    }  # fmt: skip
    for one, ids in wanted.items():
        asked = conditions(rows.schema, [one])
        assert [row.id for row in rows.where(asked.as_column()).collect()] == ids
        asked.as_expression()
    for refused in (("s", "<", (1, "x")), ("l", "like", "a%"), ("s", "=", 5), ("z", "=", 1), ("s",), "id"):
        with pytest.raises(StorageKeyError):
            conditions(rows.schema, [refused])


def test_what_excludes_itself_is_never_met(columns: StructType) -> None:
    never: list[list[Any]] = [
        [("tinyint", "=", 300)],
        [("tinyint", "=", 1), ("tinyint", "=", 2)],
        [("string", "is null"), ("string", "is not null")],
        [("double", ">", NAN)],
        [("date", "in", [])],
        [("bigint", "=", None)],
    ]
    assert all(conditions(columns, one).are_never_met for one in never)
    assert not conditions(columns, [("tinyint", "<", 300), ("string", "is null")]).are_never_met
    assert conditions(columns, []).as_column() is None
    assert conditions(columns, []).as_expression() is None
