"""The Spark of a benchmark: two cores, nothing outside of the machine, nothing left behind."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from pyspark.sql import SparkSession


@contextmanager
def session(name: str) -> Iterator[tuple[SparkSession, Path]]:
    """And a folder, which goes with it."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with TemporaryDirectory() as folder:
        spark = (
            SparkSession.builder.master("local[2]")
            .appName(f"benchmark: {name}")
            .config("spark.driver.host", "127.0.0.1")
            .config("spark.driver.bindAddress", "127.0.0.1")
            .config("spark.driver.memory", "4g")
            .config("spark.local.dir", f"{folder}/local")
            .config("spark.sql.warehouse.dir", f"{folder}/warehouse")
            .config("spark.ui.enabled", "false")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
        try:
            yield spark, Path(folder)
        finally:
            spark.stop()
