"""How `serve` looks after itself: its log, and how long history is kept."""

from dataclasses import dataclass
from typing import Annotated, Literal

import typer

# As in `meta.reconciliation.retention`, which an operator's machine cannot import: it needs the database.
KEEP_VERSIONS_MIN = 10


@dataclass(frozen=True, slots=True)
class Upkeep:
    """Options of `serve`."""

    log_format: Annotated[
        Literal["text", "json"],
        typer.Option(envvar="VNODEMAP_LOG_FORMAT", help="How the log is written, to standard error."),
    ] = "text"
    keep_versions: Annotated[
        int,
        typer.Option(
            min=KEEP_VERSIONS_MIN,
            envvar="VNODEMAP_KEEP_VERSIONS",
            help="How many versions of each fragment are kept, the newest.",
        ),
    ] = 1_000
    keep_days: Annotated[
        int,
        typer.Option(
            min=1,
            envvar="VNODEMAP_KEEP_DAYS",
            help="How long the audit log and the plans that were applied are kept.",
        ),
    ] = 365


BY_DEFAULT = Upkeep()
