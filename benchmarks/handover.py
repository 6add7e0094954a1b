"""The protocols of a handover beside each other, under the same seeds: what each costs, and how that grows.

A line is the mean of many simulated runs. `hops`: streams that a record crosses. `control`: frames that are neither
records nor credit nor watermarks from a source, of the whole handover. `held, %`: of the records, those that had to
wait somewhere. Growth is of one rescale by one unit. `icadd` and `controller` begin without state of half of their
vnodes, `ordered` with all. The last line is one JSON document.

    python benchmarks/handover.py --seeds 1000
"""

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import replace

from benchmarks.figure import Figure
from dispatcher.handover.message import Credit, Records, Watermark
from dispatcher.handover.simulator.machine import FAMILIES
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Tally, run

TOPOLOGIES = ((2, 3), (1, 2), (3, 2), (3, 3), (2, 2), (3, 5), (5, 2))
UNITS = (2, 4, 8, 16, 32)
VNODES = (16, 64, 256)
GROWTH_SEEDS = 5
DATA = (Records, Credit, Watermark)


def main() -> None:
    asked = _arguments()
    figures = []
    for figure in _figures(asked.seeds):
        figures.append(figure)
        print(figure, flush=True)
    documents = [figure.document() for figure in figures]
    print(json.dumps({"benchmark": "handover", "seeds": asked.seeds, "figures": documents}))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=200, help="for each protocol and topology")
    return parser.parse_args()


def _figures(seeds: int) -> Iterator[Figure]:
    topologies = [
        Options(units_before=before, units_after=after, remap=before == after) for before, after in TOPOLOGIES
    ]
    for topology in topologies:
        for protocol in FAMILIES:
            yield _cost(replace(topology, protocol=protocol), seeds)
    for protocol in FAMILIES:
        for units in UNITS:
            yield _growth(Options(protocol, units, units + 1, vnodes=64, records=200))
        for vnodes in VNODES:
            yield _growth(Options(protocol, 4, 5, vnodes=vnodes, records=200))


def _cost(options: Options, seeds: int) -> Figure:
    tally, _ = _tallied(options, seeds)
    records = tally.hops.total()
    return Figure(
        f"{_topology(options)}: {options.protocol}",
        {
            "hops": tally.hops_mean,
            "most": tally.hops_max,
            "control": round(_control(tally) / tally.runs, 1),
            "held, %": round(100 * tally.held / records, 1),
        },
        {},
    )


def _growth(options: Options) -> Figure:
    tally, seconds = _tallied(options, GROWTH_SEEDS)
    return Figure(
        f"{options.protocol}: {_topology(options)}, {options.vnodes} vnodes",
        {
            "control": round(_control(tally) / tally.runs),
            "held, %": round(100 * tally.held / tally.hops.total(), 1),
            "us a step": round(1e6 * seconds / tally.steps),
        },
        {},
    )


def _tallied(options: Options, seeds: int) -> tuple[Tally, float]:
    """And the processor time in seconds."""
    tally, began = Tally(), time.process_time()
    for seed in range(seeds):
        tally.add(run(options, seed))
    return tally, time.process_time() - began


def _control(tally: Tally) -> int:
    return sum(count for form, count in tally.messages.items() if form not in DATA)


def _topology(options: Options) -> str:
    remap = " remap" if options.remap else ""
    return f"{options.units_before} -> {options.units_after}{remap}"


if __name__ == "__main__":
    main()
