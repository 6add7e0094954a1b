"""From a failure to the shortest trace of its kind: fewer records, vnodes and wishes, then fewer of its steps."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from random import Random
from typing import Any, Final

from dispatcher.handover.simulator.draw import Draw, Recorded, Script
from dispatcher.handover.simulator.lanes import Lane
from dispatcher.handover.simulator.options import Options
from dispatcher.handover.simulator.run import Run, run
from dispatcher.handover.simulator.witness import Kind, Violation

SEEDS_EACH: Final = 60
"""How many seeds are tried for each smaller form of the options."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A run that is as short as was found: `lanes` is its schedule."""

    options: Options
    seed: int
    violation: Violation
    lanes: tuple[Lane, ...]

    def again(self) -> Run:
        """The run, not begun."""
        return Run(self.options, self.seed, draw=Script(self.lanes))


def shrink(options: Options, seed: int, kind: Kind) -> Failure:
    """Of a run that fails by `kind`."""
    found = options, seed
    smaller = True
    while smaller:
        smaller = False
        for simpler in _simpler(found[0]):
            failing = _failing(simpler, kind)
            if failing is not None:
                found, smaller = (simpler, failing), True
                break
    return _shortened(*found, kind)


def _simpler(options: Options) -> Iterator[Options]:
    """Fewer records and vnodes first by halves, then by ones; then nothing that is not needed."""
    for records in (options.records // 2, options.records - 1):
        if 0 < records < options.records:
            yield replace(options, records=records)
    for vnodes in (options.vnodes // 2, options.vnodes - 1):
        if 0 < vnodes < options.vnodes:
            yield replace(options, vnodes=vnodes)
    for name in ("crash", "overlap", "moving_sources"):
        without: dict[str, Any] = {name: False}
        if getattr(options, name):
            yield replace(options, **without)
    if options.operators > 1:
        yield replace(options, operators=1)
    if options.order is not None:
        yield replace(options, order=None)
    if options.parallel is not None:
        yield replace(options, parallel=None, order=None)


def _failing(options: Options, kind: Kind) -> int | None:
    for seed in range(SEEDS_EACH):
        violation = run(options, seed).violation
        if violation and violation.kind is kind:
            return seed
    return None


def _shortened(options: Options, seed: int, kind: Kind) -> Failure:
    """Leaves out parts of the schedule, ever smaller ones, as long as it fails by the same kind."""
    recorded = Recorded(Draw(Random(f"{seed} draw")))  # noqa: S311 - a schedule, no secret
    lanes, violation = _tried(options, seed, recorded)
    assert violation is not None
    at_end = kind in (Kind.STUCK, Kind.LOST)
    size = len(lanes) // 2
    while size and not at_end:
        at = 0
        while at < len(lanes):
            fewer, found = _tried(options, seed, Recorded(Script(lanes[:at] + lanes[at + size :])))
            if found and found.kind is kind:
                lanes, violation = fewer, found
            else:
                at += size
        size //= 2
    return Failure(options, seed, violation, lanes)


def _tried(options: Options, seed: int, recorded: Recorded) -> tuple[tuple[Lane, ...], Violation | None]:
    violation = Run(options, seed, draw=recorded).finish().violation
    return tuple(recorded.followed), violation
