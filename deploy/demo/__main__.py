"""`make demo`: scale a running Spark job over a year of flights, twice."""

import json
import os
import signal
import sys
import tempfile
import time
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

import pyarrow as pa
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
from dispatcher.scan.table import StateTable
from dispatcher.subscription import Subscription
from meta.mapping.mapping import VnodeMapping
from meta.vnodectl.client import Service
from meta.vnodectl.rescaling import apply_token, show_plan
from meta.vnodectl.session import out
from meta.vnodectl.strip import strip

FRAGMENT = "flights"
RESCALES = {"April": 4, "August": 2}
SETTLE_TIMEOUT_S = 20.0
PLANE = "N14228"


@dataclass(frozen=True, slots=True)
class Rescaled:
    moved: int
    lower_bound: int


def main() -> None:
    started = time.monotonic()
    signal.signal(signal.SIGTERM, _leave)
    set_on_retry_hooks([])
    out.print(
        "[bold]vnodemap demo[/bold]: a Spark job reads a year of New York flights, keyed by tail number, and is "
        "scaled from 3 to 4 and then to 2 parallel units [bold]while it runs[/bold], "
        "without losing or repeating a row.\n"
    )
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="vnodemap-demo-")))
        result = run(folder, opened)
    # Last on standard output, for programs.
    print(json.dumps({**result, "seconds": round(time.monotonic() - started, 1)}), flush=True)


def run(folder: Path, opened: ExitStack) -> dict[str, Any]:
    with out.status("1/5  starting the service"):
        service = opened.enter_context(ServiceProcess(folder / "service"))
    out.print(
        "1/5  `vnodectl serve` runs, with SQLite and an etcd of its own: it owns the mapping of keys to units"
    )
    api = opened.enter_context(closing(Service(service.url)))
    _prepare(api)
    with out.status("2/5  reading the flights and starting Spark, about 10 s"):
        flights = read_flights()
        months = list(write_months(flights, folder))
        spark = _start_spark(folder)
        opened.callback(spark.stop)
    out.print(f"2/5  {flights.num_rows:,} flights wait in 12 monthly files, and Spark has started")
    columns = from_arrow_schema(flights.schema)
    table = open_table(folder / "table", columns)
    with Subscription(service.url, FRAGMENT, name="flights-demo", state_dir=folder / "state") as subscription:
        query = start_query(spark, subscription, table, columns, folder)
        try:
            rescaled = _stream(api, query, months, folder / "input")
        finally:
            query.stop()
        adopted = {adoption.version: adoption.adopted_at_ms for adoption in subscription.history}
    rows_scanned = _scan(api, spark, table)
    result = _report(api, months, read_rows(folder / "table"), rescaled, adopted)
    return {**result, "rows_scanned": rows_scanned}


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
    first = api.get(f"/v1/fragments/{FRAGMENT}/versions")[0]
    out.print(strip(first["owners"]))


def _stream(api: Service, query: StreamingQuery, months: list[Month], incoming: Path) -> list[Rescaled]:
    out.print(
        "3/5  the query runs; each month is one micro-batch, routed so that Spark partition i is unit i"
    )
    rescaled = []
    for month in months:
        began = time.monotonic()
        month.file.rename(incoming / month.file.name)
        with out.status(f"     {month.name}: {month.rows:,} flights"):
            query.processAllAvailable()
        version = api.get(f"/v1/fragments/{FRAGMENT}")["version"]
        out.print(
            f"     {month.name:<9} {month.rows:>7,} flights on mapping version {version}"
            f"  {time.monotonic() - began:4.1f} s"
        )
        if month.name in RESCALES:
            rescaled.append(_rescale(api, RESCALES[month.name]))
    return rescaled


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
    newest = api.get(f"/v1/fragments/{FRAGMENT}/versions")[-1]
    mapping = VnodeMapping(tuple(newest["owners"]))
    out.print(
        "5/5  the table is scanned by vnode group: one Spark partition for each unit, without a shuffle"
    )
    with out.status("     scanning"):
        counted = scan(spark, table, mapping, columns=["tailnum"]).groupBy(sf.spark_partition_id()).count()
        groups = sorted((row[0], row[1]) for row in counted.collect())
        one_plane = scan(spark, table, mapping, equals={"tailnum": PLANE}, columns=["month"]).count()
    for slot, rows in groups:
        out.print(f"     partition {slot} is unit {mapping.units[slot]}: {rows:,} rows")
    out.print(f"     plane {PLANE}: {one_plane} flights, read from its one vnode of 256")
    return sum(rows for _, rows in groups)


def _report(
    api: Service, months: list[Month], table_rows: pa.Table, rescaled: list[Rescaled], adopted: dict[int, int]
) -> dict[str, Any]:
    versions = api.get(f"/v1/fragments/{FRAGMENT}/versions")
    by_version = {
        version["version"]: Owners(version["owners"], [unit["id"] for unit in version["units"]])
        for version in versions
    }
    evidence = examine(table_rows, by_version)
    out.print(_units_table(table_rows))
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


def _start_spark(folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    quiet = folder / "log4j2.properties"
    quiet.write_text("rootLogger.level = error\n")
    return (
        SparkSession.builder.master("local[2]")
        .appName("vnodemap demo")
        .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={quiet}")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder / "spark"))
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .getOrCreate()
    )


def _leave(_signal: int, _frame: FrameType | None) -> NoReturn:
    # As Ctrl-C does: everything that was opened is closed on the way out.
    raise KeyboardInterrupt


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        out.print("\nstopped; everything the demo started has ended, and its files are gone")
        sys.exit(130)
