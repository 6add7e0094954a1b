"""Where files end, for rows of all sizes, beside the rule."""

from itertools import groupby, pairwise

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.table.cutting import cut

ROW_BYTES = 16


def table(prefixes: list[int], first: int) -> pa.Table:
    return pa.table(
        {
            "_vnode_prefix": pa.array(prefixes, pa.int32()),
            "_storage_key": pa.array(
                [b"%08d" % n for n in range(first, first + len(prefixes))], pa.binary(8)
            ),
            "v": pa.array([0] * len(prefixes), pa.int32()),
        }
    )


@st.composite
def sorted_prefixes(draw: st.DrawFn) -> list[int]:
    sizes = draw(st.lists(st.sampled_from([1, 1, 2, 3, 7, 40]), max_size=25))
    return [prefix for prefix, size in enumerate(sizes) for _ in range(size)]


@given(sorted_prefixes(), st.sampled_from([1, 2, 5, 11, 100]), st.sampled_from([1, 3, 10, 16, 300]))
def test_files_end_at_prefix_boundaries_and_large_prefixes_have_their_own(
    prefixes: list[int], rows_of_table: int, target_rows: int
) -> None:
    starts = range(0, len(prefixes), rows_of_table)
    tables = [table(prefixes[start : start + rows_of_table], start) for start in starts]
    pieces = list(cut(tables, target_rows * ROW_BYTES))
    files = [
        pa.concat_tables(group) for ended, group in groupby(pieces, lambda piece: piece is None) if not ended
    ]
    assert not pieces or pieces[-1] is None
    assert len(files) == pieces.count(None)
    if not files:
        assert prefixes == []
        return
    assert pa.concat_tables(files).equals(pa.concat_tables(tables))
    held = [file["_vnode_prefix"].to_pylist() for file in files]
    for last, first in pairwise(held):
        # The end of a file is the end of a prefix, except inside a large one.
        assert last[-1] != first[0] or prefixes.count(first[0]) > target_rows
    for at, file in enumerate(held):
        large = {prefix for prefix in file if prefixes.count(prefix) > target_rows}
        if large:
            assert len(set(file)) == 1
            assert len(file) <= target_rows
            continue
        # Not much larger than the target: without its last prefix (and what was looked at with it) it was too small.
        without_last = len(file) - prefixes.count(file[-1])
        assert without_last < target_rows * 17 / 16
        # Not needlessly small: it is large enough, or a large prefix or nothing follows.
        follows = held[at + 1][0] if at + 1 < len(held) else None
        assert len(file) >= target_rows or follows is None or prefixes.count(follows) > target_rows
