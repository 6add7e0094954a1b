"""`vnodectl token`: who may use the service."""

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.markup import escape
from rich.table import Column, Table

from meta.vnodectl.client import Service, path
from meta.vnodectl.options import flattened
from meta.vnodectl.session import (
    DEFAULT_SERVER,
    Json,
    ServeError,
    Server,
    connected,
    err,
    local_time,
    out,
    print_json,
)

if TYPE_CHECKING:
    from meta.vnodectl.bootstrap import Direct

app = typer.Typer(no_args_is_help=True, help="Tokens: who may use the service, and as what.")

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}


def seconds(text: str) -> int:
    """`90d` in seconds."""
    found = re.fullmatch(r"([1-9][0-9]{0,9})([smhd])", text)
    if found is None:
        raise typer.BadParameter(f"{text} is no span; write a number and s, m, h or d, such as 90d")
    return int(found[1]) * _UNITS_S[found[2]]


@dataclass(frozen=True, slots=True)
class Where:
    """The service, or its database where no service shall be asked: for the first token, and where none is left."""

    server: Server = DEFAULT_SERVER
    data_dir: Annotated[
        Path | None, typer.Option(help="Not by a service: in the database of this --data-dir of `serve`.")
    ] = None
    database: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Not by a service: in this database, as `serve --database`. The password in PGPASSWORD.",
        ),
    ] = None

    @contextmanager
    def tokens(self, *, as_json: bool = False) -> "Iterator[Remote | Direct]":
        """Raises `ServiceError` or `ServeError`, and so does what it yields."""
        if self.data_dir is None and self.database is None:
            with connected(self.server, as_json=as_json) as api:
                yield Remote(api)
            return
        if self.data_dir is not None and self.database is not None:
            raise ServeError("--data-dir and --database both name a database; name one")
        try:
            # Only here: an operator's machine does not need the database.
            from meta.vnodectl.bootstrap import direct  # noqa: PLC0415
        except ModuleNotFoundError as error:
            raise ServeError(f"{error.name} is not installed; `pip install vnodemap[service]`") from error
        with direct(self.data_dir, self.database) as tokens:
            yield tokens


@dataclass(frozen=True, slots=True)
class Remote:
    """The service's answers."""

    api: Service

    def create(self, request: Mapping[str, Any]) -> Any:
        return self.api.post(path("tokens"), request)

    def all(self) -> list[Any]:
        return self.api.items(path("tokens"))

    def revoke(self, token_id: str) -> None:
        self.api.delete(path("tokens", token_id))


@app.command()
@flattened
def create(
    name: Annotated[str, typer.Argument(help="Whose it is, for the audit log.")],
    role: Annotated[
        Literal["reader", "operator", "admin"],
        typer.Option(help="reader: looks. operator: changes. admin: tokens and the audit log too."),
    ],
    expires: Annotated[
        str | None, typer.Option(metavar="SPAN", help="It ends by itself, e.g. 90d. Default: when revoked.")
    ] = None,
    as_json: Json = False,
    *,
    where: Where,
) -> None:
    """Make a token. It is printed this once, alone on standard output.

    Example: export VNODEMAP_TOKEN=$(vnodectl token create ci --role operator --expires 90d)
    """
    expires_in_s = None if expires is None else seconds(expires)
    request = {"name": name, "role": role, "expires_in_s": expires_in_s}
    with where.tokens(as_json=as_json) as tokens:
        made = tokens.create(request)
    if as_json:
        print_json(made)
        return
    err.print(
        f"token {made['id']} for {escape(name)}, role {role}, expires: {expires or 'never'}. It is shown this once: "
        "keep it where secrets are kept, and give it to vnodectl and to jobs in VNODEMAP_TOKEN",
        soft_wrap=True,
    )
    print(made["token"])


@app.command("list")
@flattened
def list_(as_json: Json = False, *, where: Where) -> None:
    """All tokens that ever were, the newest first; never their secrets.

    Example: vnodectl token list
    """
    with where.tokens(as_json=as_json) as stored:
        tokens = stored.all()
    if as_json:
        print_json({"items": tokens})
        return
    table = Table(Column("id", no_wrap=True), "name", "role", "made", "expires", "revoked")
    for token in tokens:
        instants = (token["created_at_ms"], token["expires_at_ms"], token["revoked_at_ms"])
        table.add_row(token["id"], escape(token["name"]), token["role"], *map(local_time, instants))
    out.print(table)


@app.command()
@flattened
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="ID", help="As `vnodectl token list` shows it.")],
    as_json: Json = False,
    *,
    where: Where,
) -> None:
    """End a token: it counts nowhere any more, within a second.

    Example: vnodectl token revoke 0123456789abcdef
    """
    with where.tokens(as_json=as_json) as tokens:
        tokens.revoke(token_id)
    if as_json:
        print_json({"revoked": token_id})
    else:
        out.print(f"token {escape(token_id)} is revoked")
