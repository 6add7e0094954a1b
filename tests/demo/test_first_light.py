"""The whole path with real parts: HTTP API, planner, SQL, etcd, a running query, its table and its scan."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery

from deploy.demo.evidence import Evidence, Owners, examine, read_rows
from deploy.demo.job import open_table, start_query
from deploy.process import ServiceProcess
from dispatcher.scan.reader import scan
from dispatcher.subscription import Subscription
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from meta.vnodectl.client import Service
from meta.vnodectl.waiting import wait_until_settled

ROWS = 300


class Story:
    """A running query over files that appear, and its service."""

    def __init__(self, spark: SparkSession, service: ServiceProcess, api: Service, folder: Path) -> None:
        self.spark = spark
        self.service = service
        self.folder = folder
        self.api = api
        self.rows_in = 0
        for worker in ("east", "west"):
            self.api.put(f"/v1/workers/{worker}", {"parallelism": 2})
        key = [{"name": "tailnum", "type": "string"}]
        self.api.post(
            "/v1/fragments",
            {"name": "flights", "distribution_key": key, "parallelism": 3, "applier_timeout_ms": 5_000},
        )
        columns = from_arrow_schema(self.flights().schema)
        self.table: StateTable = open_table(folder / "table", columns)
        self.subscription = Subscription(
            service.url, "flights", name="test", state_dir=folder / "state", poll_ms=500
        )
        self.query: StreamingQuery = start_query(spark, self.subscription, self.table, columns, folder)

    def flights(self) -> pa.Table:
        first = self.rows_in
        ids = range(first, first + ROWS)
        return pa.table(
            {
                "flight_id": pa.array(ids, pa.int64()),
                "tailnum": [None if number % 10 == 0 else f"N{number * 7919 % 613}" for number in ids],
                "month": pa.array([first // ROWS + 1] * ROWS, pa.int64()),
            }
        )

    def stream_a_month(self) -> None:
        """Returns when the query has committed it."""
        staged = self.folder / f"{self.rows_in}.parquet"
        pq.write_table(self.flights(), staged)
        staged.rename(self.folder / "input" / staged.name)
        self.rows_in += ROWS
        self.query.processAllAvailable()

    def rescale(self, goal: dict[str, object]) -> None:
        token = self.api.post("/v1/fragments/flights/plans", goal)["token"]
        version = self.api.post("/v1/rescales", {"token": token})["version"]
        wait_until_settled(self.api, "flights", version, timeout_s=30)

    def evidence(self) -> Evidence:
        listed = self.api.get("/v1/fragments/flights/versions")["items"]
        versions = [self.api.get(f"/v1/fragments/flights/versions/{each['version']}") for each in listed]
        return examine(
            read_rows(self.folder / "table"),
            {
                version["version"]: Owners(version["owners"], [unit["id"] for unit in version["units"]])
                for version in versions
            },
        )

    def rows_by_partition(self) -> list[tuple[int, int]]:
        newest = self.api.get("/v1/fragments/flights/mapping")
        rows = scan(self.spark, self.table, VnodeMapping(tuple(newest["owners"])), columns=["flight_id"])
        counted = rows.groupBy(sf.spark_partition_id()).agg(sf.countDistinct("flight_id")).collect()
        return sorted((row[0], row[1]) for row in counted)

    def close(self) -> None:
        self.query.stop()
        self.subscription.close()


@pytest.fixture
def story(spark: SparkSession, service: ServiceProcess, tmp_path: Path) -> Iterator[Story]:
    with Service(service.url) as api:
        told = Story(spark, service, api, tmp_path)
        yield told
        told.close()


def test_a_running_query_is_scaled_out_and_in_with_a_unit_leaving_from_the_middle(story: Story) -> None:
    story.stream_a_month()
    story.rescale({"parallelism": 4})
    story.stream_a_month()
    story.rescale({"units": [1, 4]})
    story.stream_a_month()

    found = story.evidence()
    assert (found.rows, found.duplicates, found.misrouted) == (story.rows_in, 0, 0)
    assert found.batches_by_version == {1: 1, 2: 1, 3: 1}
    slots, rows = zip(*story.rows_by_partition(), strict=True)
    assert (slots, sum(rows)) == ((0, 1), story.rows_in)


def test_the_query_goes_on_while_the_service_is_dead_and_no_version_is_lost(story: Story) -> None:
    story.rescale({"parallelism": 4})
    story.service.kill()
    story.stream_a_month()
    story.service.start()

    assert story.api.get("/v1/fragments/flights")["version"] == 2
    story.rescale({"parallelism": 2})
    story.stream_a_month()
    found = story.evidence()
    assert (found.rows, found.duplicates, found.misrouted) == (story.rows_in, 0, 0)
    assert found.batches_by_version == {2: 1, 3: 1}


def test_the_query_goes_on_while_etcd_is_dead_and_follows_it_again(story: Story) -> None:
    etcd = next(
        child
        for child in psutil.Process(story.service.pid).children(recursive=True)
        if "etcd" in child.name()
    )
    etcd.kill()
    story.stream_a_month()
    story.rescale({"parallelism": 4})
    story.stream_a_month()

    found = story.evidence()
    assert (found.rows, found.duplicates, found.misrouted) == (story.rows_in, 0, 0)
    assert found.batches_by_version == {1: 1, 2: 1}


def test_evidence_sees_rows_that_went_astray_or_came_twice() -> None:
    versions = {1: Owners(owners=[5] * 128 + [9] * 128, units=[5, 9])}
    unit, slot = versions[1].place("N1")
    rows = pa.table(
        {
            "flight_id": [1, 2, 2, 3],
            "tailnum": ["N1"] * 4,
            "month": [1] * 4,
            "batch_id": [0] * 4,
            "mapping_version": [1] * 4,
            "unit": [unit, unit, unit, 14 - unit],
            "spark_partition": [slot, slot, 1 - slot, slot],
        }
    )
    found = examine(rows, versions)
    assert (found.rows, found.duplicates, found.misrouted) == (4, 1, 2)
