"""A real query against a real service: one mapping version for each micro-batch."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dispatcher.streaming import Batch, each_batch
from dispatcher.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tests.dispatcher.conftest import Fragment

Write = Callable[["DataFrame", Batch], None]


class Query:
    """A query over files that appear in a folder."""

    def __init__(self, spark: "SparkSession", folder: Path, subscription: Subscription, write: Write) -> None:
        self._folder = folder
        self._input = folder / "input"
        self._input.mkdir()
        rows = spark.readStream.schema("tailnum string, flight int").json(str(self._input))
        self.running = (
            rows.writeStream.foreachBatch(each_batch(subscription, ["tailnum"], write))
            .option("checkpointLocation", str(folder / "checkpoint"))
            .start()
        )

    def feed(self, *tailnums: str | None) -> None:
        """One micro-batch."""
        lines = [
            json.dumps({"tailnum": tailnum, "flight": flight}) for flight, tailnum in enumerate(tailnums)
        ]
        draft = self._folder / "draft"
        draft.write_text("\n".join(lines))
        # In one step, since the query may look at any moment.
        draft.rename(self._input / f"{uuid.uuid4()}.json")
        self.running.processAllAvailable()


def test_each_batch_is_routed_by_one_version_and_a_rescale_comes_between_two(
    spark: "SparkSession", fragment: "Fragment", tmp_path: Path
) -> None:
    from pyspark.sql import functions as sf  # noqa: PLC0415

    # The one in the middle leaves, so ids are no slots any more.
    remaining = [unit for unit in fragment.units if unit != fragment.units[1]]
    batches: list[Batch] = []
    in_the_batch: list[Any] = []

    def write(rows: "DataFrame", batch: Batch) -> None:
        if not batches:
            fragment.rescale(remaining)
            subscription.wait_for(batch.version + 1, 10_000)
            in_the_batch.append(fragment.progress())
        batches.append(batch)
        seen = rows.select("_unit", "_mapping_version", sf.spark_partition_id().alias("slot")).collect()
        assert seen
        for row in seen:
            assert row["_mapping_version"] == batch.version
            assert row["_unit"] == batch.mapping.mapping.units[row["slot"]]

    with Subscription(fragment.service_url, fragment.name, name="a query") as subscription:
        query = Query(spark, tmp_path, subscription, write)
        query.feed("N1", "N2", None, "N3", "", "ÅÄÖ")
        query.feed("N1", "N2", None, "N4")
        query.running.stop()
        history = [adoption.version for adoption in subscription.history]

    first, second = batches
    assert (first.id, second.id) == (0, 1)
    assert second.version == first.version + 1
    assert list(second.mapping.mapping.units) == remaining
    (progress,) = in_the_batch
    assert (progress["version"], progress["phase"]) == (second.version, "rescaling")
    assert history == [first.version, second.version]


def test_a_batch_that_fails_leaves_no_pin(
    spark: "SparkSession", fragment: "Fragment", tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    def write(rows: "DataFrame", batch: Batch) -> None:
        raise RuntimeError("the sink is full")

    with Subscription(fragment.service_url, fragment.name, name="a query") as subscription:
        query = Query(spark, tmp_path, subscription, write)
        with pytest.raises(Exception, match="the sink is full"):
            query.feed("N1")
        version = subscription.latest.mapping.version
        fragment.rescale(fragment.units[:2])
        subscription.wait_for(version + 1, 10_000)
        with subscription.pin() as pinned:
            assert pinned.version == version + 1
