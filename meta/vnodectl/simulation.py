"""`vnodectl handover`: the protocols by which state moves, in a simulated job."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Final

import typer

from meta.vnodectl.client import REFUSED
from meta.vnodectl.options import flattened
from meta.vnodectl.session import err, out, print_json
from meta.vnodectl.waiting import bars

if TYPE_CHECKING:
    from dispatcher.handover.simulator.options import Options
    from dispatcher.handover.simulator.run import Outcome, Run, Tally
    from dispatcher.handover.simulator.witness import Violation

BROKEN: Final = 1
PROGRESS_AFTER_S: Final = 2.0
ALL: Final = "all"
AS_WRITTEN: Final = "as-written"

app = typer.Typer(no_args_is_help=True, help="Try the protocols that move state, in a simulated job.")

Seed = Annotated[int, typer.Option(min=0, help="Of the run.")]
Shortest = Annotated[
    bool, typer.Option("--shortest", help="Instead, the shortest trace found of the same failure.")
]


class Hottest(StrEnum):
    FIRST = "first"
    LAST = "last"


@dataclass(frozen=True, slots=True)
class Simulated:
    """What a run is like, as options."""

    protocol: Annotated[str, typer.Option(help="By which state moves: ordered, icadd, controller.")] = (
        "ordered"
    )
    units_before: Annotated[int, typer.Option("--from", min=1, help="Units before the rescale.")] = 2
    units_after: Annotated[int, typer.Option("--to", min=1, help="Units after it.")] = 3
    remap: Annotated[bool, typer.Option("--remap", help="Vnodes move between units that stay, too.")] = False
    records: Annotated[int, typer.Option(min=1, help="Records of a run.")] = 24
    vnodes: Annotated[int, typer.Option(min=1, help="Vnodes of a run.")] = 4
    crash: Annotated[
        bool, typer.Option("--crash", help="Units are lost, deadlines missed, snapshots taken.")
    ] = False
    overlap: Annotated[
        bool, typer.Option("--overlap", help="More rescales, asked for while one is under way.")
    ] = False
    moving_sources: Annotated[
        bool, typer.Option("--moving-sources", help="Source partitions change their unit.")
    ] = False
    credit: Annotated[
        int | None, typer.Option(min=1, metavar="FRAMES", help="Of each unit to each; little, if 1.")
    ] = None
    parallel: Annotated[
        str, typer.Option(metavar="N|all", help="Vnodes that a unit gives at once, and receives.")
    ] = ALL
    hottest: Annotated[Hottest | None, typer.Option(help="Which vnodes move in the first rounds.")] = None
    variant: Annotated[
        str | None, typer.Option(help="A build with a rule left out, like without-rule-5.")
    ] = None
    as_written: Annotated[
        bool, typer.Option("--as-written", help="As its paper has it: --variant as-written.")
    ] = False
    distributors: Annotated[
        int | None, typer.Option(min=1, help="controller: units with sources, which stay; all, if not given.")
    ] = None
    operators: Annotated[
        int, typer.Option(min=1, help="Of each unit: a dataflow that is drawn; of controller, a chain.")
    ] = 1
    keys_at_once: Annotated[int, typer.Option(min=1, help="controller: vnodes a unit holds at a time.")] = 1

    @property
    def options(self) -> "Options":
        """Raises `typer.BadParameter`."""
        from dispatcher.handover.pacing import Order  # noqa: PLC0415
        from dispatcher.handover.simulator.options import FRAMES, Options  # noqa: PLC0415 - nobody else needs it

        if self.as_written and self.variant:
            raise typer.BadParameter("give either --as-written or --variant")
        return Options(
            protocol=self.protocol,
            units_before=self.units_before,
            units_after=self.units_after,
            remap=self.remap,
            records=self.records,
            vnodes=self.vnodes,
            credit_frames=FRAMES if self.credit is None else self.credit,
            crash=self.crash,
            overlap=self.overlap,
            moving_sources=self.moving_sources,
            parallel=_parallel(self.parallel),
            order=Order(f"hottest-{self.hottest}") if self.hottest else None,
            variant=AS_WRITTEN if self.as_written else self.variant,
            distributors=self.distributors,
            operators=self.operators,
            keys_at_once=self.keys_at_once,
        )


def _parallel(text: str) -> int | None:
    if text == ALL:
        return None
    if not text.isdecimal() or int(text) < 1:
        raise typer.BadParameter("give a number of vnodes, 1 or more, or all", param_hint="--parallel")
    return int(text)


@app.command()
@flattened
def simulate(
    simulated: Simulated,
    seeds: Annotated[int, typer.Option(min=1, help="How many runs.")] = 1000,
    first_seed: Annotated[int, typer.Option(min=0, help="The seed of the first.")] = 0,
) -> None:
    """Run a protocol under many seeds, and count what it broke; the answer is JSON.

    If anything broke, standard error has the shortest trace that was found of it, and the exit code is 1; with
    --as-written, which promises nothing, it is 0.

    Example: vnodectl handover simulate --from 3 --to 5 --crash --overlap --credit 1
    """
    with _refused():
        options = simulated.options
        tally = _tally(options, range(first_seed, first_seed + seeds))
    print_json(
        {
            "protocol": options.protocol,
            "runs": tally.runs,
            "steps": tally.steps,
            "violations": tally.of_each_kind,
            "failed_seeds": tally.failed_seeds,
            "hops_max": tally.hops_max,
            "hops_mean": tally.hops_mean,
            "disordered": {"runs": tally.disordered, "records": tally.overtaking},
        }
    )
    if tally.first_violation:
        _tell_shortest(options, tally.failed_seeds[0], tally.first_violation)
    _judge(options, broken=tally.first_violation is not None)


@app.command()
@flattened
def replay(
    simulated: Simulated,
    seed: Seed,
    shortest: Shortest = False,
) -> None:
    """Print the trace of one run: each event, and indented what it led to. Exit codes as of simulate.

    Example: vnodectl handover replay --variant without-rule-5 --from 3 --to 3 --remap --seed 4
    """
    from dispatcher.handover.simulator.transcript import transcribed  # noqa: PLC0415

    with _refused():
        options = simulated.options
        lines, outcome = transcribed(_chosen(options, seed, shortest=shortest)[0])
    for line in lines:
        print(line)
    print(_verdict(outcome))
    _judge(options, broken=outcome.violation is not None)


@app.command()
@flattened
def trace(
    simulated: Simulated,
    seed: Seed,
    svg: Annotated[
        Path,
        typer.Option(
            metavar="FILE",
            dir_okay=False,
            allow_dash=True,
            help="Where to draw it; a file there is replaced. - is standard output.",
        ),
    ],
    shortest: Shortest = False,
    everything: Annotated[bool, typer.Option("--all", help="Frames of credit and event time, too.")] = False,
) -> None:
    """Draw one run: time goes down, a line for each unit, an arrow for each frame. Exit codes as of simulate.

    Example: vnodectl handover trace --variant without-rule-5 --seed 7 --shortest --svg broken.svg
    """
    from dispatcher.handover.simulator.diagram.picture import pictured  # noqa: PLC0415

    with _refused():
        options = simulated.options
        picture, outcome = pictured(*_chosen(options, seed, shortest=shortest), everything=everything)
    verdict = _verdict(outcome)
    if svg == Path("-"):
        print(picture, end="")
        err.print(verdict, markup=False, soft_wrap=True)
    else:
        _write(svg, picture)
        out.print(f"{verdict}; drawn in {svg}", markup=False, soft_wrap=True)
    _judge(options, broken=outcome.violation is not None)


def _write(path: Path, picture: str) -> None:
    try:
        path.write_text(picture)
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {error.strerror}", param_hint="--svg") from error


def _tally(options: "Options", seeds: range) -> "Tally":
    from dispatcher.handover.simulator.run import Tally, run  # noqa: PLC0415

    tally, began_s = Tally(), monotonic()
    with bars() as shown:
        task = shown.add_task(f"{options.protocol}: {len(seeds)} runs", total=len(seeds), visible=False)
        try:
            for seed in seeds:
                tally.add(run(options, seed))
                shown.update(task, advance=1, visible=monotonic() - began_s > PROGRESS_AFTER_S)
        except KeyboardInterrupt:
            failed = " ".join(map(str, tally.failed_seeds)) or "none"
            err.print(f"stopped after {tally.runs} of {len(seeds)} runs; failed seeds: {failed}")
            raise
    return tally


def _tell_shortest(options: "Options", seed: int, violation: "Violation") -> None:
    """For people: how to see the first failure, and the shortest one."""
    from dispatcher.handover.simulator.shrink import shrink  # noqa: PLC0415
    from dispatcher.handover.simulator.transcript import transcribed  # noqa: PLC0415

    err.print(f"seed {seed}: {violation}", markup=False, soft_wrap=True)
    with err.status("looking for the shortest run that fails so"):
        failure = shrink(options, seed, violation.kind)
    err.print(f"the shortest run found, {len(failure.lanes)} steps:", markup=False)
    for line in transcribed(failure.again())[0]:
        err.print(line, markup=False, soft_wrap=True)
    err.print(str(failure.violation), markup=False, soft_wrap=True)


def _chosen(options: "Options", seed: int, *, shortest: bool) -> tuple["Run", str]:
    """The run to show, not begun, and which one it is."""
    from dispatcher.handover.simulator.run import Run, run  # noqa: PLC0415
    from dispatcher.handover.simulator.shrink import shrink  # noqa: PLC0415

    if not shortest:
        return Run(options, seed), f"seed {seed}"
    with err.status("looking for the shortest run that fails so"):
        violation = run(options, seed).violation
        if violation:
            return shrink(options, seed, violation.kind).again(), "the shortest run found"
    err.print("nothing breaks, so this is the whole run")
    return Run(options, seed), f"seed {seed}"


def _verdict(outcome: "Outcome") -> str:
    return str(outcome.violation or f"{outcome.steps} steps, and all held")


def _judge(options: "Options", *, broken: bool) -> None:
    """A protocol as it is written promises nothing."""
    if broken and options.variant != AS_WRITTEN:
        raise typer.Exit(BROKEN)


@contextmanager
def _refused() -> Iterator[None]:
    from dispatcher.handover.simulator.diagram.drawing import TooLarge  # noqa: PLC0415
    from dispatcher.handover.simulator.machine import Unknown  # noqa: PLC0415
    from dispatcher.handover.simulator.options import Unsuitable  # noqa: PLC0415

    try:
        yield
    except (Unknown, TooLarge) as error:
        name = f"unknown-{error.what}" if isinstance(error, Unknown) else "too-large"
        print_json({"error": name, "detail": str(error)})
        raise typer.Exit(REFUSED) from error
    except Unsuitable as error:
        print_json({"error": "unsuitable-options", "detail": str(error)})
        raise typer.Exit(REFUSED) from error
