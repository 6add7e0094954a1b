"""What a live unit does with a batch of rows before it is on a stream: by whom each row is wanted, and frames as bytes.

On one core: batches of 10,000 rows sorted by `Ways`, with a settled mapping and in the midst of a handover in which a
third of the vnodes move and half of the old owners have said Done, beside a loop that asks `route` for each row
(where it is slower, a loop of fewer rows). "split" copies the rows into shares, too; "table" is what a phase change
costs. Then whole batches to frames, one for each vnode, and frames to bytes and back, beside `pyarrow.ipc` with the
same rows and nothing else. Rates are medians of processor time. A figure that has a goal says whether it is met; the
last line is one JSON document.

    python benchmarks/routing.py --rows 10000 --repeats 7
"""

import argparse
import json
import os
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from statistics import median

import numpy as np
import pyarrow as pa

from benchmarks.figure import Figure
from dispatcher.handover.message import Batch, Credit, Frame, Path, Records
from dispatcher.handover.ordered.arrivals import Arrivals
from dispatcher.handover.ordered.phase import Given, Phase, Settled
from dispatcher.handover.ordered.records import route
from dispatcher.handover.ordered.rules import Rules
from dispatcher.handover.rules import Here
from dispatcher.handover.version import Rescale, Version
from dispatcher.handover.ways import Positions, Vnodes, Way, Ways
from dispatcher.handover.wire import decode, encode, encode_rows

SEED = 20261122
SIZES = [(256, 4), (256, 32), (4096, 4), (4096, 32)]  # vnodes, units
GOALS = {"settled": 50.0, "mid-handover": 20.0}  # M rows/s
SECONDS_EACH = 0.05
DIGEST = "5f" * 32


def main() -> None:
    asked = _arguments()
    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pa.set_cpu_count(1)
    load, _, _ = os.getloadavg()
    figures = []
    for figure in _figures(asked.rows, asked.repeats):
        print(figure, flush=True)
        figures.append(figure.document())
    settings = {"seed": SEED, **vars(asked), "load_average": round(load, 2)}
    print(json.dumps({"benchmark": "routing", **settings, "figures": figures}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--repeats", type=int, default=7)
    return parser.parse_args()


def _figures(row_count: int, repeats: int) -> Iterator[Figure]:
    rows = _rows(row_count)
    for vnode_count, unit_count in SIZES:
        vnodes = np.random.default_rng(SEED).integers(0, vnode_count, row_count, np.int32)
        for name, phase in _phases(vnode_count, unit_count).items():
            shown = f"{name}, {vnode_count} vnodes, {unit_count} units"
            ways = _ways(phase, vnode_count)
            yield _routed(shown, GOALS[name], phase, ways, rows, vnodes, repeats)
            if name == "mid-handover":
                yield _framed(shown, ways, rows, vnodes, repeats)
    yield _credits(repeats)
    yield _with_rows(rows, repeats)
    yield _with_rows(rows.slice(0, 40), repeats)


def _rows(count: int) -> pa.RecordBatch:
    """About 37 bytes each."""
    source = np.random.default_rng(SEED)
    return pa.record_batch(
        {
            "k": source.integers(0, 2**60, count),
            "g": source.integers(0, 1000, count),
            "s": [f"user-{number}" for number in source.integers(0, 100_000, count)],
            "v": source.random(count),
        }
    )


def _phases(vnode_count: int, unit_count: int) -> dict[str, Phase[int]]:
    source = np.random.default_rng(SEED)
    before = source.integers(0, unit_count, vnode_count)
    moved = source.random(vnode_count) < 1 / 3
    after = np.where(moved, source.integers(0, unit_count, vnode_count), before)
    units = frozenset(range(unit_count))
    old, new = (
        Version(number, DIGEST, dict(enumerate(owners.tolist())), units)
        for number, owners in ((7, before), (8, after))
    )
    rescale = Rescale.between(old, new)
    done = frozenset(sorted(rescale.receivers)[::2])
    return {"settled": Settled(old), "mid-handover": Given(rescale, Arrivals(done=done))}


def _routed(
    name: str, goal: float, phase: Phase[int], ways: Ways, rows: pa.RecordBatch, vnodes: Vnodes, repeats: int
) -> Figure:
    build = partial(_ways, phase, len(ways.ways))
    asked = partial(route, Here(0, Rules()), phase)

    def loop() -> dict[Way, list[int]]:
        places = defaultdict(list)
        for place, vnode in enumerate(vnodes.tolist()):
            places[Way(vnode, *asked(vnode))].append(place)
        return places

    assert loop() == {share.way: share.positions.tolist() for share in ways.split(rows, vnodes)}
    sorting, splitting, looping, building = _seconds(
        repeats, partial(ways.sort, vnodes), partial(ways.split, rows, vnodes), loop, build
    )
    rate = len(vnodes) / sorting / 1e6
    values = {
        "M rows/s": round(rate, 1),
        "split M rows/s": round(len(vnodes) / splitting / 1e6, 2),
        "loop M rows/s": round(len(vnodes) / looping / 1e6, 2),
        "times the loop": round(looping / sorting),
        "table ms": round(building * 1e3, 3),
    }
    return Figure(name, values, {"M rows/s": rate >= goal})


def _ways(phase: Phase[int], vnode_count: int) -> Ways:
    return Ways.by(partial(route, Here(0, Rules()), phase), vnode_count)


def _framed(name: str, ways: Ways, rows: pa.RecordBatch, vnodes: Vnodes, repeats: int) -> Figure:
    work = partial(_frames, ways, rows, vnodes)
    (seconds,) = _seconds(repeats, work)
    values = {"M rows/s": round(len(vnodes) / seconds / 1e6, 2), "frames": len(work())}
    return Figure(f"to frames, {name}", values, {})


def _frames(ways: Ways, rows: pa.RecordBatch, vnodes: Vnodes) -> list[pa.Buffer]:
    return [
        encode_rows(_records(share.way.vnode, share.positions, share.rows), share.rows)
        for share in ways.split(rows, vnodes)
    ]


def _records(vnode: int, positions: Positions, rows: pa.RecordBatch) -> Frame[int]:
    batch = Batch(vnode, "flights-3", tuple(positions.tolist()), rows.nbytes)
    return Frame(4, 8, DIGEST, 1000, Records(batch, 0, 1, Path.ORDINARY))


def _credits(repeats: int) -> Figure:
    frame: Frame[int] = Frame(4, 8, DIGEST, 1000, Credit(1, Path.ORDINARY, "flights-3", 370_000))
    data = encode(frame)
    encoding, decoding = _seconds(repeats, partial(encode, frame), partial(decode, data))
    values = {"encode k/s": round(1e-3 / encoding), "decode k/s": round(1e-3 / decoding), "bytes": len(data)}
    return Figure("frames of Credit", values, {})


def _with_rows(rows: pa.RecordBatch, repeats: int) -> Figure:
    frame = _records(3, np.arange(rows.num_rows), rows)
    data = encode_rows(frame, rows).to_pybytes()
    bare = _arrow_encode(rows)
    seconds = _seconds(
        repeats,
        partial(encode_rows, frame, rows),
        partial(encode, frame),
        partial(_arrow_encode, rows),
        partial(decode, data),
        partial(decode, encode(frame)),
        partial(_arrow_decode, bare),
        lambda: _arrow_decode(bare).validate(full=True),
    )
    names = ["encode", "of it the header", "Arrow alone", "decode", "of it header", "Arrow", "Arrow checked"]
    values = {f"{name} us": round(each * 1e6, 1) for name, each in zip(names, seconds, strict=True)}
    values |= {"bytes": len(data), "Arrow's bytes": bare.size}
    return Figure(f"frames of {rows.num_rows:,} rows", values, {})


def _arrow_encode(rows: pa.RecordBatch) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as stream:
        stream.write_batch(rows)
    return sink.getvalue()


def _arrow_decode(data: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as stream:
        return stream.read_next_batch()


def _seconds(repeats: int, *works: Callable[[], object]) -> list[float]:
    """Of processor time, the median of each; they take turns."""
    times = [_times(work) for work in works]
    taken: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, count, seconds in zip(works, times, taken, strict=True):
            started = time.process_time()
            for _ in range(count):
                work()
            seconds.append((time.process_time() - started) / count)
    return [median(seconds) for seconds in taken]


def _times(work: Callable[[], object]) -> int:
    """So often that it lasts; this also warms up."""
    started = time.process_time()
    work()
    return max(1, int(SECONDS_EACH / max(1e-6, time.process_time() - started)))


if __name__ == "__main__":
    main()
