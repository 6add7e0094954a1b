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


def drawn(dice: random.Random, row_count: int) -> list[Row]:
    """Rows of few keys, so that they hide each other."""
    return [
        (dice.randbytes(30).hex(), dice.choice([None, *range(12)]), dice.choice([None, "", "a"]))
        for _ in range(row_count)
    ]


def done(rows: list[Row], what: str, found: list[Row]) -> tuple[list[Row], list[Row]]:
    """Those of the `found` rows that can be written at once, and what a table of `rows` has then."""
    if what == "append":
        return found, rows + found
    if what == "overwrite":
        return found, found
    of_key = {(row[1], row[2]): row for row in found}
    left = [row for row in rows if (row[1], row[2]) not in of_key]
    found = list(of_key.values())
    return found, left if what == "delete" else left + found


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
        found, wanted = done(self.newest, what, drawn(self.dice, row_count))
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
