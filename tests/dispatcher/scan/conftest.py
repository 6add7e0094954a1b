"""A table that has been through everything, for the readers that must agree on it."""

import pytest
from pyspark.sql import SparkSession

from dispatcher.table.state_table import StateTable
from tests.dispatcher.table.story import COLUMNS, KEY, Story


@pytest.fixture(scope="session")
def told(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Story:
    """Several files a commit, rows that hide rows, files of changes that hide nothing, and compacted ones."""
    folder = tmp_path_factory.mktemp("told a=b[c]")
    story = Story(spark, StateTable.create_or_open(folder, KEY, COLUMNS, target_bytes=2000), seed=6)
    story.write("delete", 5)
    story.write("upsert", 20)
    story.write("append", 200)
    story.compact(force=True)
    story.write("append", 10)
    story.write("upsert", 4)
    return story
