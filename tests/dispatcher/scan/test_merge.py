"""The merge of sorted files against a dictionary that is told of every change in turn."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatcher.table.file import Kind
from dispatcher.table.merge import SortedRows, compacted, merged

FIELDS = [pa.field("value", pa.string()), pa.field("_storage_key", pa.binary())]
ROWS, CHANGES = pa.schema(FIELDS), pa.schema([*FIELDS, pa.field("_deleted", pa.bool_())])

Row = tuple[bytes, str, bool]
File = tuple[int, Kind, list[Row], int]
"""Sequence, kind, rows in order, and how many of them are in a batch."""


@st.composite
def tables(draw: st.DrawFn) -> list[File]:
    """Files of a few keys, several of one commit among them; a commit changes a key once at most."""
    dice = random.Random(draw(st.integers(0, 1_000_000)))
    keys = [bytes([0, 0, key]) + b"x" * (key % 4) for key in range(draw(st.sampled_from([1, 3, 20])))]
    files: list[File] = []
    for sequence in range(1, draw(st.integers(0, 7)) + 1):
        kind = draw(st.sampled_from(Kind))
        chosen = dice.sample(keys, dice.randint(0, len(keys)))
        if kind is Kind.ROWS:
            chosen = dice.choices(keys, k=dice.randint(0, 3 * len(keys)))
        odds = 0.4 if kind is Kind.CHANGES else 0
        rows = [(key, f"{sequence}.{at}", dice.random() < odds) for at, key in enumerate(chosen)]
        parts = draw(st.integers(1, 3))
        files += [
            (sequence, kind, sorted(rows[part::parts]), draw(st.integers(1, 5))) for part in range(parts)
        ]
    dice.shuffle(files)
    return files


def source(file: File) -> SortedRows:
    sequence, kind, rows, batch_rows = file
    starts_at = rows[0][0][:2] if rows else b""
    return SortedRows(list(batches(kind, rows, batch_rows)), sequence, kind, starts_at)


def batches(kind: Kind, rows: list[Row], batch_rows: int) -> Iterator[pa.RecordBatch]:
    for at in range(0, len(rows), batch_rows):
        some = [
            {"_storage_key": key, "value": None if deleted else value, "_deleted": deleted}
            for key, value, deleted in rows[at : at + batch_rows]
        ]
        yield pa.RecordBatch.from_pylist(some, schema=ROWS if kind is Kind.ROWS else CHANGES)
        yield pa.RecordBatch.from_pylist([], schema=ROWS if kind is Kind.ROWS else CHANGES)


def seen(files: Iterable[File]) -> list[tuple[bytes, str]]:
    """What a reader sees, by brute force."""
    found: dict[bytes, list[str]] = {}
    for _, kind, rows, _ in sorted(files, key=lambda file: file[0]):
        for key, value, deleted in rows:
            if kind is Kind.CHANGES:
                found[key] = []
            if not deleted:
                found.setdefault(key, []).append(value)
    return sorted((key, value) for key, values in found.items() for value in values)


def pairs(batches: Iterable[pa.RecordBatch]) -> list[tuple[bytes, str]]:
    return [(row["_storage_key"], row["value"]) for batch in batches for row in batch.to_pylist()]


def check_seen(files: list[File]) -> None:
    found = pairs(merged([source(file) for file in files], ["_storage_key", "value"]))
    assert [key for key, _ in found] == sorted(key for key, _ in found)
    assert sorted(found) == seen(files)


@settings(max_examples=100)
@given(tables())
def test_a_reader_sees_the_newest_change_of_a_key_and_the_rows_after_it(files: list[File]) -> None:
    check_seen(files)


@settings(max_examples=60)
@given(tables(), st.integers(1, 7), st.integers(1, 7))
def test_files_of_a_few_sequences_are_compacted_and_every_reader_sees_the_same(
    files: list[File], one: int, other: int
) -> None:
    first, last = min(one, other), max(one, other)
    within = [file for file in files if first <= file[0] <= last]
    rest = [file for file in files if file not in within]
    found: dict[Kind, list[Row]] = {Kind.ROWS: [], Kind.CHANGES: []}
    for kind, batch in compacted([source(file) for file in within], ["_storage_key", "value"]):
        found[kind] += [
            (row["_storage_key"], row["value"], row.get("_deleted", False)) for row in batch.to_pylist()
        ]
    keys = [key for key, _, _ in found[Kind.CHANGES]]
    assert keys == sorted(set(keys))
    # Half a sequence before the last: a change that hid rows of its own sequence would be lost otherwise.
    rewritten = [
        (2 * last - 1, Kind.CHANGES, found[Kind.CHANGES], 3),
        (2 * last, Kind.ROWS, found[Kind.ROWS], 3),
    ]
    check_seen([*((2 * file[0], *file[1:]) for file in rest), *rewritten])
    assert seen([*((2 * file[0], *file[1:]) for file in rest), *rewritten]) == seen(files)


@pytest.mark.slow
@settings(max_examples=5000)
@given(tables())
def test_a_reader_sees_the_newest_change_of_a_key_and_the_rows_after_it_many_times(files: list[File]) -> None:
    check_seen(files)


def test_a_key_of_a_million_rows_is_never_held_whole() -> None:
    """Nor is a file begun before its turn."""
    taken = {"a": 0, "b": 0, "late": 0}

    def counted(name: str, keys: Iterable[bytes]) -> Iterator[pa.RecordBatch]:
        for key in keys:
            taken[name] += 1
            yield pa.RecordBatch.from_pylist([{"_storage_key": key, "value": name}] * 1000, schema=ROWS)

    sources = [
        SortedRows(counted("a", [b"a"] * 1000), 1, Kind.ROWS),
        SortedRows(counted("b", [b"b"] * 10), 2, Kind.ROWS),
        SortedRows(batches(Kind.CHANGES, [(b"a", "", True)], 1), 2, Kind.CHANGES),
        SortedRows(counted("late", [b"late"]), 3, Kind.ROWS, starts_at=b"k"),
    ]
    found = merged(sources, ["value"])
    assert next(found)["value"][0].as_py() == "b"
    assert taken == {"a": 1000, "b": 2, "late": 0}
    assert sum(len(batch) for batch in found) == 9000 + 1000


def test_nothing_is_nothing() -> None:
    assert list(merged([], ["value"])) == []
    assert list(merged([SortedRows([], 1, Kind.ROWS)], ["value"])) == []
    assert list(compacted([replace(SortedRows([], 1, Kind.CHANGES), starts_at=b"z")], ["value"])) == []
