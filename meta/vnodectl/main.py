"""`vnodectl`, the operators' command."""

import sys

import typer
from rich.markup import escape
from stamina.instrumentation import set_on_retry_hooks

from meta.vnodectl import fragments, keys, mappings, rescaling, workers
from meta.vnodectl.client import ServiceError
from meta.vnodectl.serve import serve
from meta.vnodectl.session import REFUSED, ServeError, err

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Scale partitioned Spark jobs while they run: the vnodemap control plane.",
)
app.command()(serve)
app.command()(rescaling.rescale)
app.command()(rescaling.plan)
app.command()(rescaling.apply)
app.command()(mappings.watch)
app.add_typer(workers.app, name="worker")
app.add_typer(fragments.app, name="fragment")
app.add_typer(mappings.app, name="mapping")
app.add_typer(keys.app, name="key")


def main() -> None:
    # Waiting is what some commands are for; it is no incident to log.
    set_on_retry_hooks([])
    try:
        app()
    except (ServiceError, ServeError) as error:
        err.print(f"[red]error:[/red] {escape(str(error))}", soft_wrap=True)
        sys.exit(REFUSED)
