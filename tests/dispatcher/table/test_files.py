"""Files as they are written from sorted rows, whole or not at all. No Spark."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import Schema
from pyspark.sql.types import StructType

from dispatcher.table.columns import logged
from dispatcher.table.file import Kind
from dispatcher.table.files import GROUP_ROWS, in_row_groups, write_sorted
from dispatcher.table.log import Log

ROWS = 150_000


def rows(first: int = 0, last: int = ROWS) -> Iterator[pa.RecordBatch]:
    """In batches of Spark's size; seven rows have one prefix."""
    for start in range(first, last, 10_000):
        numbers = np.arange(start, min(start + 10_000, last), dtype=np.int32)
        yield pa.record_batch({"_vnode_prefix": numbers // 7, "v": numbers})


def test_row_groups_are_full_whatever_batches_the_rows_come_in(tmp_path: Path) -> None:
    (written,) = write_sorted(in_row_groups(rows()), str(tmp_path), "rows-3", Kind.ROWS, 1 << 30)
    parquet = pq.ParquetFile(tmp_path / written.name)
    groups = [parquet.metadata.row_group(at).num_rows for at in range(parquet.num_row_groups)]
    assert groups == [GROUP_ROWS, GROUP_ROWS, ROWS - 2 * GROUP_ROWS]
    assert parquet.read()["v"].to_pylist() == list(range(ROWS))
    assert written.name.startswith("rows-3-")
    assert (written.rows, written.first_prefix, written.last_prefix) == (ROWS, 0, (ROWS - 1) // 7)
    assert written.size_bytes == (tmp_path / written.name).stat().st_size


def test_of_rows_that_fail_on_their_way_no_file_is_left(tmp_path: Path) -> None:
    def failing() -> Iterator[pa.RecordBatch]:
        yield from rows()
        assert len(list(tmp_path.iterdir())) > 2
        raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        write_sorted(in_row_groups(failing()), str(tmp_path), "rows", Kind.ROWS, 100_000)
    assert list(tmp_path.iterdir()) == []


def die_while_writing(folder: str) -> None:
    def dying() -> Iterator[pa.RecordBatch]:
        yield from rows()
        os.kill(os.getpid(), signal.SIGKILL)

    write_sorted(in_row_groups(dying()), folder, "rows", Kind.ROWS, 100_000)


def test_what_a_killed_writer_leaves_nobody_sees_and_a_vacuum_removes(tmp_path: Path) -> None:
    log = Log(str(tmp_path), {})
    log.create(Schema.from_json(logged(StructType().add("v", "integer")).json()), {})
    program = f"from tests.dispatcher.table.test_files import die_while_writing as die; die({log.uri!r})"
    done = subprocess.run([sys.executable, "-c", program], cwd=Path(__file__).parents[3], check=False)
    assert done.returncode == -signal.SIGKILL
    left = sorted(path.name for path in tmp_path.glob("*.parquet"))
    assert len(left) > 2
    assert log.snapshot().files == ()
    assert list(log.vacuum(0, dry_run=False)) == left
    assert list(tmp_path.glob("*.parquet")) == []
