"""`make demo`: scale a running Spark job over a year of flights, twice."""

import json
import logging
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Any, NoReturn

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.query import StreamingQuery
from rich.table import Table
from stamina.instrumentation import set_on_retry_hooks

from deploy.demo.evidence import Owners, examine, read_rows, units_by_month
from deploy.demo.flights import MONTHS, Month, read_flights, write_months
from deploy.demo.job import open_table, start_query
from deploy.process import ServiceProcess
from dispatcher.scan.reader import scan
from dispatcher.subscription import Subscription
from dispatcher.table.state_table import StateTable
from meta.mapping.mapping import VnodeMapping
from meta.vnodectl.client import Service
from meta.vnodectl.rescaling import apply_token, show_plan
from meta.vnodectl.session import out
from meta.vnodectl.strip import strip

FRAGMENT = "flights"
RESCALES = {"April": 4, "August": 2}
SETTLE_TIMEOUT_S = 20.0
PLANE = "N14228"


class Stopped(Exception):
    """The user asked the demo to stop."""


@dataclass(frozen=True, slots=True)
class Rescaled:
    moved: int
    lower_bound: int


class Demo:
    """Runs in a thread of its own, so that a signal interrupts no call into the JVM; `stop` comes from another."""

    def __init__(self) -> None:
        self._stopping = Event()
        self._query: StreamingQuery | None = None

    def run(self) -> dict[str, Any]:
        """The result's JSON document. Raises `Stopped`. Everything that was opened is closed either way."""
        started = time.monotonic()
        with ExitStack() as opened:
            folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="vnodemap-demo-")))
            result = self._run(folder, opened)
        return {**result, "seconds": round(time.monotonic() - started, 1)}

    def stop(self) -> None:
        self._stopping.set()
        # Where the JVM was stopped too there is no query any more.
        with suppress(Py4JError, OSError):
            if self._query is not None:
                self._query.stop()

    def _run(self, folder: Path, opened: ExitStack) -> dict[str, Any]:
        with out.status("1/5  starting the service"):
            service = opened.enter_context(ServiceProcess(folder / "service"))
        out.print("1/5  `vnodectl serve` runs, with SQLite and its own etcd: it owns the mapping")
        api = opened.enter_context(Service(service.url))
        _prepare(api)
        with out.status("2/5  reading the flights and starting Spark, about 10 s"):
            flights = read_flights()
            months = list(write_months(flights, folder))
            spark = opened.enter_context(_spark(folder))
        out.print(f"2/5  {flights.num_rows:,} flights wait in 12 monthly files, and Spark has started")
        self._check()
        columns = from_arrow_schema(flights.schema)
        table = open_table(folder / "table", columns)
        with Subscription(
            service.url, FRAGMENT, name="flights-demo", state_dir=folder / "state"
        ) as subscription:
            self._query = start_query(spark, subscription, table, columns, folder)
            try:
                rescaled = self._stream(api, self._query, months, folder / "input")
            finally:
                self._query.stop()
            adopted = {adoption.version: adoption.adopted_at_ms for adoption in subscription.history}
        rows_scanned = _scan(api, spark, table)
        result = _report(api, months, read_rows(folder / "table"), rescaled, adopted)
        return {**result, "rows_scanned": rows_scanned}

    def _stream(
        self, api: Service, query: StreamingQuery, months: list[Month], incoming: Path
    ) -> list[Rescaled]:
        out.print("3/5  the query runs: each month is one micro-batch, and Spark partition i is unit i")
        rescaled = []
        for month in months:
            began = time.monotonic()
            month.file.rename(incoming / month.file.name)
            warming = ", and Spark warms up" if month is months[0] else ""
            with out.status(f"     {month.name}: {month.rows:,} flights{warming}"):
                self._process_all(query)
            version = api.get(f"/v1/fragments/{FRAGMENT}")["version"]
            out.print(
                f"     {month.name:<9} {month.rows:>7,} flights on mapping version {version}"
                f"  {time.monotonic() - began:4.1f} s"
            )
            if month.name in RESCALES:
                rescaled.append(_rescale(api, RESCALES[month.name]))
        return rescaled

    def _process_all(self, query: StreamingQuery) -> None:
        try:
            query.processAllAvailable()
        except PySparkException:
            self._check()
            raise
        self._check()

    def _check(self) -> None:
        if self._stopping.is_set():
            raise Stopped


def main() -> None:
    set_on_retry_hooks([])
    out.print(
        "[bold]vnodemap demo[/bold]: a Spark job reads a year of New York flights, keyed by tail\nnumber, and is "
        "scaled from 3 to 4 and then to 2 parallel units [bold]while it runs[/bold],\n"
        "without losing or repeating a row.\n"
    )
    demo = Demo()
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(demo.run)
        try:
            result = running.result()
        except KeyboardInterrupt:
            _stop(demo, running)
    # Last on standard output, for programs.
    print(json.dumps(result), flush=True)


def _stop(demo: Demo, running: Future[dict[str, Any]]) -> NoReturn:
    """Once more Ctrl-C while it ends changes nothing: what was started must be ended."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    out.print("\nstopping")
    # What a job logs when it is cut off says nothing here.
    logging.disable()
    demo.stop()
    # Whatever a part says that was cut off: it has ended.
    running.exception()
    out.print("stopped: everything that the demo started has ended, and its files are gone")
    sys.exit(130)


def _prepare(api: Service) -> None:
    for worker in ("east", "west"):
        api.put(f"/v1/workers/{worker}", {"parallelism": 2})
    key = [{"name": "tailnum", "type": "string"}]
    api.post(
        "/v1/fragments", {"name": FRAGMENT, "distribution_key": key, "parallelism": 3, "vnode_count": 256}
    )
    out.print(
        "     Each tail number hashes to one of 256 vnodes; each vnode belongs to one unit. The mapping now:"
    )
    first = api.get(f"/v1/fragments/{FRAGMENT}/mapping")
    out.print(strip(first["owners"]))


def _rescale(api: Service, parallelism: int) -> Rescaled:
    """Over HTTP, as an operator's tool would: plan, apply the token, wait until the job acknowledged."""
    plan = api.post(f"/v1/fragments/{FRAGMENT}/plans", {"parallelism": parallelism})
    out.print(f"\n4/5  [bold]the query goes on, and is scaled to {parallelism} units[/bold], over HTTP:")
    show_plan(plan)
    apply_token(api, plan["token"], SETTLE_TIMEOUT_S)
    out.print()
    return Rescaled(plan["certificate"]["moves"], plan["certificate"]["lower_bound"])


def _scan(api: Service, spark: SparkSession, table: StateTable) -> int:
    """Reads the table back, one Spark partition for each unit's vnodes. Returns the rows of the whole scan."""
    newest = api.get(f"/v1/fragments/{FRAGMENT}/mapping")
    mapping = VnodeMapping(tuple(newest["owners"]))
    out.print(
        "5/5  the table is scanned by vnode group: one Spark partition for each unit, without a shuffle"
    )
    with out.status("     scanning"):
        counted = scan(spark, table, mapping, columns=["tailnum"]).groupBy(sf.spark_partition_id()).count()
        groups = sorted((row[0], row[1]) for row in counted.collect())
        one_plane = scan(spark, table, mapping, filters=[("tailnum", "=", PLANE)], columns=["month"]).count()
    for slot, rows in groups:
        out.print(f"     partition {slot} is unit {mapping.units[slot]}: {rows:,} rows")
    out.print(f"     plane {PLANE}: {one_plane} flights, read from its one vnode of 256")
    return sum(rows for _, rows in groups)


def _report(
    api: Service, months: list[Month], table_rows: pa.Table, rescaled: list[Rescaled], adopted: dict[int, int]
) -> dict[str, Any]:
    listed = api.get(f"/v1/fragments/{FRAGMENT}/versions")["items"]
    versions = [api.get(f"/v1/fragments/{FRAGMENT}/versions/{each['version']}") for each in listed]
    by_version = {
        version["version"]: Owners(version["owners"], [unit["id"] for unit in version["units"]])
        for version in versions
    }
    evidence = examine(table_rows, by_version)
    out.print(_units_table(table_rows))
    out.print(
        f"{evidence.rows:,} flights are in the table, {evidence.duplicates} twice, {evidence.misrouted} on a wrong unit"
    )
    return {
        "rows_in": sum(month.rows for month in months),
        "rows_out": evidence.rows,
        "duplicates": evidence.duplicates,
        "misrouted": evidence.misrouted,
        "versions": sorted(by_version),
        "moved": [each.moved for each in rescaled],
        "lower_bounds": [each.lower_bound for each in rescaled],
        "units": [len(version.units) for version in by_version.values()],
        "batches_by_version": {str(version): count for version, count in evidence.batches_by_version.items()},
        "publish_to_pin_ms": [
            adopted[version["version"]] - version["phases"]["rescaling"]
            for version in versions
            if "rescaling" in version["phases"]
        ],
    }


def _units_table(rows: pa.Table) -> Table:
    taken = units_by_month(rows)
    units = sorted({unit for month in taken.values() for unit in month})
    table = Table("month", *(f"unit {unit}" for unit in units), title="rows that each unit took")
    for number, name in enumerate(MONTHS, start=1):
        counts = (f"{taken[number][unit]:,}" if taken[number][unit] else "-" for unit in units)
        table.add_row(name, *counts)
    return table


@contextmanager
def _spark(folder: Path) -> Iterator[SparkSession]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    builder = (
        SparkSession.builder.master("local[2]")
        .appName("vnodemap demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
    )
    with _errors_to(folder / "spark.log"):
        spark = builder.getOrCreate()
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    try:
        yield spark
    finally:
        spark.stop()
        # The JVM clears its folder when it ends, which must come before we remove ours.
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()


@contextmanager
def _errors_to(file: Path) -> Iterator[None]:
    """What is started meanwhile has its standard error there: Spark's log would drown what the demo says."""
    ours = os.dup(sys.stderr.fileno())
    try:
        with file.open("wb") as log:
            os.dup2(log.fileno(), sys.stderr.fileno())
        yield
    except Exception as error:
        error.add_note(f"Spark's log says:\n{file.read_text(errors='replace')[-3000:]}")
        raise
    finally:
        os.dup2(ours, sys.stderr.fileno())
        os.close(ours)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    main()
