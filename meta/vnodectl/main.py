"""`vnodectl`, the operators' command."""

import os
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape
from stamina.instrumentation import set_on_retry_hooks

from meta.vnodectl import (
    fragments,
    keys,
    mappings,
    policy,
    rescaling,
    reversal,
    scan,
    simulation,
    sources,
    table,
    tokens,
    workers,
)
from meta.vnodectl.audit import audit
from meta.vnodectl.client import REFUSED, ServiceError
from meta.vnodectl.draining import drain
from meta.vnodectl.explanation import explain
from meta.vnodectl.groups import groups
from meta.vnodectl.loads import loads
from meta.vnodectl.location import locate
from meta.vnodectl.serve import serve
from meta.vnodectl.session import AnswerLost, ServeError, err, out
from meta.vnodectl.status import status
from meta.vnodectl.subscribers import subscribers
from meta.vnodectl.watching import watch


def show_version(wanted: bool) -> None:
    if wanted:
        # Only here: it takes as long to load as many a command takes.
        from importlib.metadata import version  # noqa: PLC0415

        out.print(f"vnodemap {version('vnodemap')}")
        raise typer.Exit


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

RESCALE, LOOK, NOUNS, OFFLINE = "Rescale", "Look", "Nouns", "Without a service"

app.command()(serve)
for command in (
    rescaling.rescale,
    rescaling.plan,
    rescaling.apply,
    reversal.abort,
    reversal.rollback,
    drain,
):
    app.command(rich_help_panel=RESCALE)(command)
for command in (status, mappings.diff, explain, subscribers, loads, groups, watch, audit):
    app.command(rich_help_panel=LOOK)(command)
# A key's value may begin with a minus sign.
app.command(rich_help_panel=LOOK, context_settings={"ignore_unknown_options": True})(locate)
fragments.app.command()(policy.policy)
app.add_typer(workers.app, name="worker", rich_help_panel=NOUNS)
app.add_typer(tokens.app, name="token", rich_help_panel=NOUNS)
app.add_typer(fragments.app, name="fragment", rich_help_panel=NOUNS)
app.add_typer(mappings.app, name="mapping", rich_help_panel=NOUNS)
app.add_typer(table.app, name="table", rich_help_panel=OFFLINE)
app.command(rich_help_panel=OFFLINE)(sources.expand)
app.add_typer(keys.app, name="key", rich_help_panel=OFFLINE)
app.add_typer(scan.app, name="scan", rich_help_panel=OFFLINE)
app.add_typer(simulation.app, name="handover", rich_help_panel=OFFLINE)


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            envvar="VNODEMAP_CA_FILE",
            metavar="FILE",
            help="Whose certificates to trust as the service's (PEM).",
        ),
    ] = None,
) -> None:
    """Scale partitioned Spark jobs while they run: the vnodemap control plane.

    Exit codes: 0 done; 1 not settled in time or taken back, or you said no; 2 refused, standard error says what to do;
    130 Ctrl-C.
    With --json, standard output has one JSON document and nothing else; what the service refuses is one on standard
    error.
    A service with tokens wants one in VNODEMAP_TOKEN.
    """
    if ca_file is not None:
        # For `Service`, wherever a command makes one.
        os.environ["VNODEMAP_CA_FILE"] = str(ca_file)
    # Waiting is what some commands are for; it is no incident to log.
    set_on_retry_hooks([])


def main() -> None:
    try:
        app()
    except ServiceError as error:
        _refuse(error, error.exit_code)
    except (ServeError, AnswerLost) as error:
        _refuse(error, REFUSED)
    except OSError as error:
        # A file that a command opens says so itself; what is left is the output, full or gone.
        _refuse(AnswerLost(f"cannot write the answer: {error.strerror}"), REFUSED)


def _refuse(error: Exception, exit_code: int) -> None:
    err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
    sys.exit(exit_code)
