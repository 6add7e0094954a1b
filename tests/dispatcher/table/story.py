"""Writes at random, and the rows that each version of the table must have then."""

import random
from collections import Counter

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from dispatcher.routing import dispatch
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from storage_keys.key import KeyColumn, KeySchema
from storage_keys.types import BIGINT, STRING
from tests.dispatcher.flights import version_of
from tests.dispatcher.table.visible import Row, visible

COLUMNS = StructType().add("v", "string").add("k", "long").add("s", "string")
KEY = KeySchema(3, (KeyColumn("k", BIGINT), KeyColumn("s", STRING)), ("k",))
MAPPING = VnodeMapping.parse("0*85 2*85 5*86")


def _keys(rows: list[Row]) -> set[tuple[object, object]]:
    return {(row[1], row[2]) for row in rows}


def _without(rows: list[Row], keys: set[tuple[object, object]]) -> list[Row]:
    return [row for row in rows if (row[1], row[2]) not in keys]


class Story:
    """Writes at random, each dispatched or not, and the rows that every version must have."""

    def __init__(self, spark: SparkSession, table: StateTable, seed: int) -> None:
        self.spark = spark
        self.table = table
        self.rows: dict[int, list[Row]] = {0: []}
        self.dice = random.Random(seed)

    @property
    def newest(self) -> list[Row]:
        return self.rows[max(self.rows)]

    def write(self, what: str, row_count: int) -> None:
        found = [
            (
                self.dice.randbytes(30).hex(),
                self.dice.choice([None, *range(12)]),
                self.dice.choice([None, "", "a"]),
            )
            for _ in range(row_count)
        ]
        if what == "append":
            wanted = self.newest + found
        elif what == "overwrite":
            wanted = found
        else:
            found = list({(row[1], row[2]): row for row in found}.values())
            left = _without(self.newest, _keys(found))
            wanted = left if what == "delete" else left + found
        rows = self.spark.createDataFrame(found, COLUMNS)
        if self.dice.random() < 0.5:
            rows = dispatch(rows, version_of(MAPPING, KEY), ["k"])
        commit = getattr(self.table, what)(rows)
        self.rows[commit.version] = wanted

    def check(self) -> None:
        for version, rows in self.rows.items():
            assert Counter(visible(self.table, version)) == Counter(rows)

    def compact(self, *, force: bool = False, mapping: VnodeMapping | None = None) -> None:
        commit = self.table.compact(self.spark, mapping, groups=None if mapping else 3, force=force)
        assert not commit.skipped
        self.rows[commit.version] = self.newest
