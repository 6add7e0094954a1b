"""The planner beside what else maps vnodes to units, all in the same run.

First the walk of 30 rescales (tests/mapping/walk-30.json): moves, runs of adjacent vnodes, load and time, each of the
others starting from its own mapping of the first 16 units; who moves fewer than the planner leaves the load uneven
(max/mean, vnodes of the fullest unit over the mean). Then budgets for fewer runs, levels, loads, and the time
and memory of larger plans. Times are medians of processor time. A figure that has a goal says whether it is met; the
last line is one JSON document.

    python benchmarks/planner.py --repeats 5
    python benchmarks/planner.py --no-sizes

Swift's ring builder takes part where it can be imported. It wants a virtual environment of the same Python:

    python -m venv /tmp/swift && /tmp/swift/bin/pip install swift
    PYTHONPATH=$(echo /tmp/swift/lib/python*/site-packages) python benchmarks/planner.py
"""

import argparse
import json
import os
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from statistics import mean, median
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import xxhash

from benchmarks.figure import Figure
from benchmarks.walk import FIRST, WALK, Owners, Place, alone, ours, ring
from meta.mapping.load import LoadCertificate, plan_by_load
from meta.mapping.mapping import VnodeMapping
from meta.mapping.plan import first_mapping, plan
from meta.mapping.unit import Unit

try:
    from swift.common.ring import RingBuilder
except ImportError:
    RingBuilder = None

SEED = 20261121
MOVES_GOAL = {256: 412, 2048: 3363}
RUNS_GOAL = {256: 135, 2048: 345}
SIZES = [(256, 16), (1024, 64), (4096, 256), (16_384, 1024), (65_536, 4096), (1_048_576, 2000)]
SIZE_WITH_GOAL = (65_536, 4096)
SECONDS_GOAL = 0.1
LOADED = [(256, 16, None), (2048, 64, None), (2048, 64, 40), (2048, 64, 20)]  # vnodes, units, budget
ZIPF_EXPONENT = 0.8  # at 1.1 the largest vnode alone is more than a unit's share, which every mapping meets
BYTES_GOAL = 200_000_000

T = TypeVar("T")


def main() -> None:
    asked = _arguments()
    if sys.platform == "linux":
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    load, _, _ = os.getloadavg()
    figures = []
    for figure in _figures(asked):
        print(figure, flush=True)
        figures.append(figure.document())
    if RingBuilder is None:
        print("swift: not installed; --help says how to have it take part")
    settings = {"seed": SEED, **vars(asked), "load_average": round(load, 2)}
    print(json.dumps({"benchmark": "planner", **settings, "figures": figures}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sizes", action=argparse.BooleanOptionalAction, default=True)
    return parser.parse_args()


def _figures(asked: argparse.Namespace) -> Iterator[Figure]:
    for vnode_count in MOVES_GOAL:
        yield from _walks(vnode_count)
    for vnode_count in MOVES_GOAL:
        yield from _defragmented(vnode_count)
    yield from _levels()
    yield from _loads(asked.repeats)
    if asked.sizes:
        for vnode_count, unit_count in SIZES:
            yield from _of_size(vnode_count, unit_count, asked.repeats)


def _walks(vnode_count: int) -> Iterator[Figure]:
    contestants: dict[str, Callable[[int], Place]] = {
        "ours": ours,
        "uhashring": lambda count: ring(count, {}),
        "uhashring, ketama": lambda count: ring(count, {"hash_fn": "ketama"}),
        "rendezvous": _rendezvous,
        "jump hash": _jump_hash,
        "key-group ranges (Flink)": _key_group_ranges,
    }
    if RingBuilder is not None:
        contestants["Swift's ring builder"] = _swift
    for name, contestant in contestants.items():
        values = _walked(contestant(vnode_count), vnode_count)
        goals = {}
        if name == "ours":
            goals = {
                "moves": values["moves"] == MOVES_GOAL[vnode_count],
                "runs": values["runs"] <= RUNS_GOAL[vnode_count],
            }
        yield Figure(f"walk, {vnode_count} vnodes: {name}", values, goals)


def _walked(place: Place, vnode_count: int) -> dict[str, float]:
    before = place(FIRST)
    moves, milliseconds, runs_per_unit, max_over_mean = 0, [], [], []
    for units in WALK:
        started = time.process_time()
        after = place(units)
        milliseconds.append((time.process_time() - started) * 1e3)
        moves += int(np.count_nonzero(before != after))
        runs_per_unit.append(_runs(after) / len(units))
        # A unit that owns nothing counts in the mean.
        max_over_mean.append(int(np.bincount(after).max()) * len(units) / vnode_count)
        before = after
    return {
        "moves": moves,
        "runs": _runs(before),
        "runs/unit": round(mean(runs_per_unit), 2),
        "max/mean worst": round(max(max_over_mean), 3),
        "max/mean": round(mean(max_over_mean), 3),
        "ms/plan": round(median(milliseconds), 3),
    }


def _runs(owners: Owners) -> int:
    return VnodeMapping.from_array(owners).run_count


def _rendezvous(vnode_count: int) -> Place:
    """Thaler and Ravishankar's highest random weight: each vnode goes to the unit whose hash with it is largest."""

    def place(ids: list[int]) -> Owners:
        return np.array(
            [
                max(ids, key=lambda unit_id: xxhash.xxh64_intdigest(b"%d:%d" % (unit_id, vnode)))
                for vnode in range(vnode_count)
            ]
        )

    return place


def _jump_hash(vnode_count: int) -> Place:
    """Lamping and Veach's buckets, which are numbers: see `_Numbers` for whose they are."""
    numbers = _Numbers()
    keys = [xxhash.xxh64_intdigest(b"vnode-%d" % vnode) for vnode in range(vnode_count)]

    def place(ids: list[int]) -> Owners:
        units = numbers.of(ids)
        return np.array([units[_jump(key, len(units))] for key in keys])

    return place


class _Numbers:
    """Whose the numbers 0 to n - 1 are, for schemes that know no names and of which only the last number may leave.

    A unit that joins takes the number of one that left, else a new one; where more units left, those of the
    last numbers take theirs.
    """

    def __init__(self) -> None:
        self._units: list[int] = []

    def of(self, ids: list[int]) -> list[int]:
        """By number."""
        units = self._units
        joining = [unit_id for unit_id in ids if unit_id not in units]
        for number, unit_id in enumerate(units):
            if unit_id not in ids and joining:
                units[number] = joining.pop(0)
        units.extend(joining)
        while gone := [number for number, unit_id in enumerate(units) if unit_id not in ids]:
            last = units.pop()
            if gone[0] < len(units):
                units[gone[0]] = last
        return units.copy()


def _jump(key: int, buckets: int) -> int:
    bucket, following = -1, 0
    while following < buckets:
        bucket = following
        key = key * 2862933555777941757 + 1 & 0xFFFFFFFFFFFFFFFF
        following = int((bucket + 1) * ((1 << 31) / ((key >> 33) + 1)))
    return bucket


def _key_group_ranges(vnode_count: int) -> Place:
    """Flink's `computeOperatorIndexForKeyGroup`; the operators are numbered as the buckets of jump hash are."""
    numbers = _Numbers()

    def place(ids: list[int]) -> Owners:
        return np.array(numbers.of(ids))[np.arange(vnode_count) * len(ids) // vnode_count]

    return place


def _swift(vnode_count: int) -> Place:
    """One replica, a device for each unit, no cool-down; rebalanced once, as its command does."""
    builder = RingBuilder(vnode_count.bit_length() - 1, 1, 0)
    present: set[int] = set()

    def place(ids: list[int]) -> Owners:
        for unit_id in sorted(present - set(ids)):
            builder.remove_dev(unit_id)
        for unit_id in sorted(set(ids) - present):
            address = {"ip": f"10.0.0.{unit_id}", "port": 6200, "device": f"d{unit_id}"}
            builder.add_dev({"id": unit_id, "region": 1, "zone": unit_id, "weight": 100.0, **address})
        present.clear()
        present.update(ids)
        builder.pretend_min_part_hours_passed()
        builder.rebalance(seed=SEED)
        return np.array([builder.get_part_devices(part)[0]["id"] for part in range(vnode_count)])

    return place


def _defragmented(vnode_count: int) -> Iterator[Figure]:
    for more in (0, 4, 8):
        values = _walked(ours(vnode_count, more), vnode_count)
        few = {name: values[name] for name in ("moves", "runs", "runs/unit", "ms/plan")}
        yield Figure(f"walk, {vnode_count} vnodes: defragment +{more}", few, {})


def _levels() -> Iterator[Figure]:
    units = [Unit(unit_id, f"w{unit_id // 8}") for unit_id in range(40)]
    previous = first_mapping(256, units[:32])
    units_only = plan(previous, units).certificate
    both = plan(previous, units, level="workers").certificate
    values = {
        "units alone, moves": units_only.moves,
        "units and workers, moves": both.moves,
        "between workers": both.cross_worker_moves,
    }
    goals = {"units alone, moves": units_only.moves == 48, "units and workers, moves": both.moves == 51}
    yield Figure("4 x 8 to 5 x 8 units, 256 vnodes", values, goals)


def _loads(repeats: int) -> Iterator[Figure]:
    for vnode_count, unit_count, budget in LOADED:
        by_rank = np.arange(1, vnode_count + 1, dtype=np.float64) ** -ZIPF_EXPONENT
        scattered = np.random.default_rng(SEED).permutation(by_rank)
        for where, loads in (("scattered", scattered), ("side by side", by_rank)):
            yield _loaded(f"{vnode_count} x {unit_count}, {where}", loads, unit_count, budget, repeats)


def _loaded(
    name: str, loads: npt.NDArray[np.float64], unit_count: int, budget: int | None, repeats: int
) -> Figure:
    """Beside the mapping that the plan starts from, which is level by count."""
    units = alone(range(unit_count))
    previous = first_mapping(len(loads), units)
    seconds, planned = _timed(lambda: plan_by_load(previous, units, loads, budget=budget), repeats)
    certificate = planned.certificate
    assert isinstance(certificate, LoadCertificate)
    bound = max(certificate.max_load_lower_bound, float(loads.max()))
    values = {
        "max load/bound": round(certificate.max_load / bound, 4),
        "by count": round(float(np.bincount(previous.array, loads).max()) / bound, 4),
        "moves": certificate.moves,
        "ms": round(seconds * 1e3, 1),
    }
    asked = "" if budget is None else f", budget {budget}"
    return Figure(f"Zipf {name}{asked}", values, {"max load/bound": certificate.max_load <= 1.05 * bound})


def _of_size(vnode_count: int, unit_count: int, repeats: int) -> Iterator[Figure]:
    for name, previous, units in _rescales(vnode_count, unit_count):
        work = partial(plan, previous, units)
        seconds, answer = _timed(work, repeats)
        peak = _peak_bytes(work)
        values = {
            "ms": round(seconds * 1e3, 2),
            "MB": round(peak / 1e6, 2),
            "moves": answer.certificate.moves,
            "runs": answer.certificate.runs,
        }
        goals = {}
        if (vnode_count, unit_count) == SIZE_WITH_GOAL:
            goals = {"ms": seconds < SECONDS_GOAL, "MB": peak < BYTES_GOAL}
        yield Figure(f"{vnode_count:,} x {unit_count:,}: {name}", values, goals)


def _rescales(vnode_count: int, unit_count: int) -> Iterator[tuple[str, VnodeMapping, list[Unit]]]:
    """Of units with 8 on a worker; what one plan leaves is torn enough for the next to have work."""
    every = [Unit(unit_id, f"w{unit_id // 8}") for unit_id in range(2 * unit_count)]
    units = every[:unit_count]
    torn = plan(first_mapping(vnode_count, every[: unit_count // 2]), units).mapping
    yield "one joins", torn, every[: unit_count + 1]
    yield "one leaves", torn, units[1:]
    yield "half replaced", torn, every[unit_count // 2 : unit_count // 2 + unit_count]
    random = np.random.default_rng(SEED).integers(0, unit_count, vnode_count)
    yield "random previous", VnodeMapping.from_array(random), units


def _timed(work: Callable[[], T], repeats: int) -> tuple[float, T]:
    """The median of its seconds, and what it answers."""
    seconds = []
    for _ in range(repeats):
        started = time.process_time()
        answer = work()
        seconds.append(time.process_time() - started)
    return median(seconds), answer


def _peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    main()
