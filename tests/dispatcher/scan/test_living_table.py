"""Writers and readers on one table, while it is compacted and vacuumed and its fragment rescaled."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from deploy.process import ServiceProcess
from tests.dispatcher.living import LivingTable


@pytest.mark.parametrize(
    ("batches", "rescales", "keepings"),
    [(8, 3, 2), pytest.param(100, 10, 16, marks=[pytest.mark.slow, pytest.mark.timeout(1800)])],
)
def test_each_row_is_read_once_while_a_query_writes_and_its_fragment_is_rescaled(
    spark: SparkSession,
    shared_service: ServiceProcess,
    name: str,
    tmp_path: Path,
    batches: int,
    rescales: int,
    keepings: int,
) -> None:
    living = LivingTable(spark, shared_service.url, name, tmp_path, seed=batches)
    living.live(batches, rescales, keepings)
    print(living.seconds)
    living.check()
