"""Files as sources of a merge: the rows of the prefixes asked for, of no more row groups than have them."""

import random
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dispatcher.table.file import DataFile, Kind
from dispatcher.table.sorted_file import Selection, sorted_rows
from storage_keys.range import PrefixRun

SCHEMA = pa.schema([("value", pa.int64())])


def write(folder: Path, prefixes: list[int], kind: Kind = Kind.ROWS) -> DataFile:
    """Rows of the sorted prefixes, three in a row group."""
    path = folder / f"{kind}.parquet"
    columns = {"value": list(range(len(prefixes))), "_vnode_prefix": pa.array(prefixes, pa.int32())}
    columns["_storage_key"] = [b"\0\0\0\7" + prefix.to_bytes(2, "big") for prefix in prefixes]
    if kind is Kind.CHANGES:
        columns["_deleted"] = [False] * len(prefixes)
    pq.write_table(pa.table(columns), path, row_group_size=3, store_schema=False)
    return DataFile(str(path), len(prefixes), 1, prefixes[0], prefixes[-1], 1, kind)


@pytest.mark.parametrize("seed", range(20))
def test_the_rows_are_those_of_the_runs(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    prefixes = sorted(dice.choices([0, 1, 2, 100, 5000, 65_534, 65_535], k=20))
    ends = sorted(dice.sample(range(8), k=4))
    runs = tuple(PrefixRun(first, last) for first, last in zip(ends[::2], ends[1::2], strict=True)) + (
        (PrefixRun(4000, 65_534),) if dice.random() < 0.5 else ()
    )
    file = write(tmp_path, prefixes)
    (source,) = sorted_rows([file], Selection(7, SCHEMA, tuple(reversed(runs))))
    found = pa.Table.from_batches(source.batches, pa.schema([*SCHEMA, ("_storage_key", pa.binary())]))
    inside = [any(run.first <= prefix <= run.last for run in runs) for prefix in prefixes]
    assert found["value"].to_pylist() == [value for value, wanted in enumerate(inside) if wanted]
    assert source.starts_at == b"\0\0\0\7" + prefixes[0].to_bytes(2, "big")


def test_row_groups_of_other_prefixes_are_not_read(tmp_path: Path) -> None:
    file = write(tmp_path, [1, 1, 1, 2, 2, 2, 3, 3, 3])
    (source,) = sorted_rows([file], Selection(7, SCHEMA, (PrefixRun(2, 2),)))
    data = Path(file.path).read_bytes()
    group = pq.ParquetFile(file.path).metadata.row_group(2).column(0)
    start = group.dictionary_page_offset or group.data_page_offset
    # What is not read may be anything.
    Path(file.path).write_bytes(data[:start] + b"\xee" * 20 + data[start + 20 :])
    assert [row["value"] for batch in source.batches for row in batch.to_pylist()] == [3, 4, 5]


def test_changes_say_which_are_deletions_and_no_run_is_no_row(tmp_path: Path) -> None:
    file = write(tmp_path, [5, 6], Kind.CHANGES)
    (source,) = sorted_rows([file], Selection(7, SCHEMA, (PrefixRun(0, 9),)))
    (batch,) = source.batches
    assert batch.schema.names == ["value", "_storage_key", "_deleted"]
    (source,) = sorted_rows([file], Selection(7, SCHEMA, ()))
    assert list(source.batches) == []
