"""The groups of a plan as predicates, on a real PostgreSQL."""

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from deploy.postgres import NoPostgres, PostgresProcess, jdbc_driver
from dispatcher.scan.jdbc import EVENLY, SharedPrefix, predicates
from dispatcher.scan.plan import plan_scan
from dispatcher.table.file import DataFile, Kind
from meta.mapping.mapping import VnodeMapping
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.predicate import In
from storage_keys.pruning import prune
from storage_keys.types import BIGINT

ROWS = 5_000
COLUMN = 'Vnode "prefix"'
SCHEMA = KeySchema(1, (KeyColumn("k", BIGINT),), ("k",))
PREFIX_OF = {key: SCHEMA.prefix({"k": key}) for key in range(ROWS)} | {-1: 0, -2: 65_535}


@pytest.fixture(scope="module")
def database(postgres: PostgresProcess) -> Iterator[psycopg.Connection]:
    with postgres.database("scan_jdbc") as url, psycopg.connect(url, autocommit=True) as connection:
        column = sql.Identifier(COLUMN)
        connection.execute(sql.SQL("CREATE TABLE rows (k bigint, {} integer NOT NULL)").format(column))
        connection.cursor().executemany("INSERT INTO rows VALUES (%s, %s)", list(PREFIX_OF.items()))
        connection.execute(sql.SQL("CREATE INDEX ON rows ({})").format(column))
        connection.execute("ANALYZE rows")
        yield connection


def keys(database: psycopg.Connection, predicate: str) -> list[int]:
    # As Spark puts it beside a filter that it pushes down.
    question = f"SELECT k FROM rows WHERE (k IS NOT NULL) AND ({predicate})"
    return [key for (key,) in database.execute(question.encode())]


def scattered(vnode_count: int, units: int) -> VnodeMapping:
    dice = random.Random(vnode_count)
    return VnodeMapping(tuple(dice.randrange(units) for _ in range(vnode_count)))


@pytest.mark.parametrize(
    ("mapping", "tasks"),
    [
        (scattered(1, 1), None),
        (scattered(1, 1), 7),
        (scattered(12, 3), 20),
        (scattered(100, 4), None),
        (scattered(256, 5), 16),
        (scattered(1000, 3), None),
        (scattered(65_536, 3), None),
        (scattered(65_536, 3), 4),
    ],
    ids=lambda given: f"{given.vnode_count} vnodes" if isinstance(given, VnodeMapping) else f"{given} tasks",
)
@pytest.mark.parametrize("filtered", [False, True], ids=["all", "filtered"])
def test_each_row_satisfies_exactly_one_predicate(
    database: psycopg.Connection, mapping: VnodeMapping, tasks: int | None, filtered: bool
) -> None:
    wanted = tuple(range(0, ROWS, 70))
    pruned = prune(SCHEMA, [In("k", wanted)]) if filtered else None
    plan = plan_scan(mapping, [EVENLY], tasks=tasks, pruned=pruned)
    found = [keys(database, predicate) for predicate in predicates(plan, COLUMN)]
    assert len(found) == (tasks or len(mapping.units))
    times = Counter(key for group in found for key in group)
    assert set(times.values()) == {1}
    assert times.keys() >= set(wanted)
    if not filtered:
        assert times.keys() == PREFIX_OF.keys()
    for group, of_group in zip(plan.groups, found, strict=True):
        lookup = group.lookup
        assert all(lookup[PREFIX_OF[key]] for key in of_group)


def test_thousands_of_ranges_are_one_look_up() -> None:
    for predicate in predicates(plan_scan(scattered(65_536, 2), []), "p"):
        assert len(predicate) < 17_000
        assert predicate.count('"p"') == 2


def test_a_hashed_table_may_be_divided_below_its_vnodes() -> None:
    one_vnode = VnodeMapping.parse("0")
    assert predicates(plan_scan(one_vnode, [], tasks=2), "p") == ['"p" BETWEEN 0 AND 65535', "1 = 0"]
    halves = ['"p" BETWEEN 0 AND 32767', '"p" BETWEEN 32768 AND 65535']
    assert predicates(plan_scan(one_vnode, [EVENLY], tasks=2), "p") == halves


def test_a_range_query_uses_the_index(database: psycopg.Connection) -> None:
    predicate = predicates(plan_scan(scattered(256, 50), [EVENLY]), COLUMN)[7]
    plan = database.execute(f"EXPLAIN SELECT k FROM rows WHERE {predicate}".encode()).fetchall()
    assert any("Index" in line for (line,) in plan)


def test_a_driver_that_is_named_and_not_there_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Tests of Spark's JDBC reader would be skipped otherwise."""
    monkeypatch.setenv("VNODEMAP_POSTGRES_JAR", str(tmp_path / "none.jar"))
    with pytest.raises(NoPostgres, match=r"none\.jar, which is no file"):
        jdbc_driver()


def test_rows_of_one_prefix_cannot_be_told_apart() -> None:
    files = [DataFile(name, 1, 1000, 5, 5, 1, Kind.ROWS) for name in "ab"]
    with pytest.raises(SharedPrefix, match="group 0 reads a part of the files of prefix 5"):
        predicates(plan_scan(VnodeMapping.parse("0"), files, tasks=4), "p")
