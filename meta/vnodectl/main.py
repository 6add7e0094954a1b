"""`vnodectl`, the operators' command."""

import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.markup import escape
from stamina.instrumentation import set_on_retry_hooks

from meta.vnodectl import fragments, keys, mappings, rescaling, sources, workers
from meta.vnodectl.client import ServiceError
from meta.vnodectl.serve import serve
from meta.vnodectl.session import REFUSED, AnswerLost, ServeError, err, out


def show_version(wanted: bool) -> None:
    if wanted:
        out.print(f"vnodemap {version('vnodemap')}")
        raise typer.Exit


app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command()(serve)
app.command()(rescaling.rescale)
app.command()(rescaling.plan)
app.command()(rescaling.apply)
app.command()(sources.expand)
app.command()(mappings.watch)
app.add_typer(workers.app, name="worker")
app.add_typer(fragments.app, name="fragment")
app.add_typer(mappings.app, name="mapping")
app.add_typer(keys.app, name="key")


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Show the version.")
    ] = False,
) -> None:
    """Scale partitioned Spark jobs while they run: the vnodemap control plane."""


def main() -> None:
    # Waiting is what some commands are for; it is no incident to log.
    set_on_retry_hooks([])
    try:
        app()
    except (ServiceError, ServeError, AnswerLost) as error:
        err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(REFUSED)
