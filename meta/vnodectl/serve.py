"""`vnodectl serve`."""

from pathlib import Path
from typing import Annotated

import typer

from meta.vnodectl.options import flattened
from meta.vnodectl.security import Security
from meta.vnodectl.session import DEFAULT_PORT, ServeError
from meta.vnodectl.upkeep import Upkeep


@flattened
def serve(
    data_dir: Annotated[
        Path, typer.Option(help="Where the database and the embedded etcd keep their files.")
    ] = Path("vnodemap-data"),
    host: Annotated[
        str, typer.Option(help="The address to listen on; others than loopback want a token and TLS.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="0: any free port.")] = DEFAULT_PORT,
    database_url: Annotated[
        str | None,
        typer.Option(
            "--database",
            "--database-url",
            envvar="VNODEMAP_DATABASE_URL",
            metavar="URL",
            help="postgresql://USER:PASSWORD@HOST:PORT/DATABASE; a password is safer in the environment variable, "
            "in PGPASSWORD or in ~/.pgpass. Default: SQLite in the data directory.",
            show_envvar=True,
        ),
    ] = None,
    etcd: Annotated[
        list[str] | None,
        typer.Option(
            envvar="VNODEMAP_ETCD", help="HOST:PORT of an etcd. Repeat for more. Default: embedded."
        ),
    ] = None,
    *,
    upkeep: Upkeep,
    security: Security,
) -> None:
    """Run the service: HTTP API, database, and (unless --etcd says otherwise) an embedded etcd.

    Example: vnodectl serve --data-dir /tmp/vnodemap
    """
    try:
        # Only here: an operator's machine needs neither the web framework nor the database.
        from meta.vnodectl import service  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ServeError(f"{error.name} is not installed; `pip install vnodemap[service]`") from error
    service.run(data_dir, host, port, database_url, etcd, upkeep, security)
