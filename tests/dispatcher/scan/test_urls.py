"""Tables that are named by a URL: no part of them may need what Spark knows of it."""

from collections import Counter
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from dispatcher.scan import reader
from dispatcher.table.state_table import StateTable
from tests.dispatcher.table.story import COLUMNS, KEY, MAPPING, Story
from tests.dispatcher.table.visible import visible


def test_spark_knows_no_object_store_without_jars(spark: SparkSession) -> None:
    known = ["/tmp/table", "file:///tmp/table", "s3://bucket/table", "strange+1://table"]
    assert [reader._spark_knows(spark, uri) for uri in known] == [True, True, False, False]


@pytest.mark.parametrize("native", [True, False], ids=["native", "in Arrow"])
def test_a_table_by_url_is_written_compacted_and_scanned(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    if not native:
        monkeypatch.setattr(reader, "_spark_knows", lambda *_: False)
    table = StateTable.create_or_open(f"file://{tmp_path}/table", KEY, COLUMNS, {"timeout": "60s"})
    story = Story(spark, table, seed=1)
    for what in ("append", "upsert"):
        story.write(what, 20)
    story.compact(force=True)
    story.write("append", 20)
    story.check()
    found = reader.scan(spark, table, MAPPING, filters=[("k", ">", 3)])
    assert found.rdd.getNumPartitions() == len(MAPPING.units)
    assert Counter(map(tuple, found.collect())) == Counter(row for row in visible(table) if (row[1] or 0) > 3)


def test_the_options_of_a_table_are_not_shown(tmp_path: Path) -> None:
    table = StateTable.create_or_open(tmp_path, KEY, COLUMNS, {"aws_secret_access_key": "hidden"})
    assert "hidden" not in repr(table)
