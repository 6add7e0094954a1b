"""`vnodectl table`: state tables, to look at and to keep small."""

import logging
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from meta.mapping.errors import MappingError
from meta.vnodectl.client import ServiceError
from meta.vnodectl.session import Json, Yes, confirm, err, out, print_json, refused_as_asked
from meta.vnodectl.waiting import bars
from storage_keys.errors import StorageKeyError
from storage_keys.vnode import check_vnode_count

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dispatcher.table.compaction import Compaction
    from dispatcher.table.log import Snapshot
    from dispatcher.table.state_table import StateTable
    from meta.mapping.mapping import VnodeMapping

# All that needs Spark, deltalake or numpy is imported within: no other command does, and it takes a while to load.

app = typer.Typer(no_args_is_help=True, help="State tables: what they hold, and their upkeep.")

Uri = Annotated[str, typer.Argument(metavar="URI", help="The table's path, or an object store's URL.")]
Option = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        help="One of deltalake's storage options; secrets rather in the environment.",
    ),
]

FILES_MAX = 20
# Without an appender Spark takes its own configuration, and without a level of its shell's it says that it sets one.
SILENCE = """\
rootLogger.level = off
rootLogger.appenderRef.none.ref = none
appender.none.type = Null
appender.none.name = none
logger.shell.name = org.apache.spark.api.python.PythonGatewayServer
logger.shell.level = off
"""
ERROR_LINE = re.compile(r"[\w.]+(Error|Exception): \S")


@app.command()
def show(uri: Uri, option: Option = None, as_json: Json = False) -> None:
    """What a table holds: its versions, files, bytes and key, and what a compaction would merge.

    Example: vnodectl table show /data/orders
    """
    with _opened(uri, option, as_json=as_json) as table:
        found = _facts(table)
    if as_json:
        print_json(found)
        return
    kept = found["versions"]
    out.print(f"[bold]{escape(found['uri'])}[/bold], by {escape(found['key'])}", soft_wrap=True)
    out.print(
        f"version {kept['last']}; versions {kept['first']} to {kept['last']} are kept ({kept['count']})",
        soft_wrap=True,
    )
    shown = Table("", "files", "rows", "size")
    for kind, of_kind in found["kinds"].items():
        shown.add_row(kind, str(of_kind["files"]), str(of_kind["rows"]), decimal(of_kind["bytes"]))
    out.print(shown)
    waiting = found["to_compact"]
    if waiting["files"]:
        out.print(
            f"{waiting['commits']} commits in {waiting['files']} files ({decimal(waiting['bytes'])}) are worth a "
            "compaction: `vnodectl table compact`",
            soft_wrap=True,
        )
    else:
        out.print("nothing is worth a compaction")


@app.command()
def compact(
    uri: Uri,
    groups: Annotated[
        int | None,
        typer.Option(min=1, help="In as many tasks, each with a group of vnodes. Default: by bytes."),
    ] = None,
    mapping: Annotated[
        str | None,
        typer.Option(
            metavar="OWNERS", help='One task and one file for each unit of a mapping, as "0*128 1*128".'
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="All commits, also where it does not pay.")] = False,
    master: Annotated[
        str, typer.Option(help="Spark's master. Spark runs here, for this command.")
    ] = "local[*]",
    option: Option = None,
    as_json: Json = False,
) -> None:
    """Merge the files of small commits into larger ones. Writers and readers go on meanwhile.

    Example: vnodectl table compact /data/orders --force
    """
    begun = time.monotonic()
    owners = None if mapping is None else _mapping(mapping)
    with _opened(uri, option, as_json=as_json) as table:
        before = table.snapshot()
        with bars() as shown:
            task = shown.add_task("starting Spark", total=None)

            def told(merges: "Sequence[Compaction]") -> None:
                files = [file for merge in merges for file in merge.files]
                size = decimal(sum(file.size_bytes for file in files))
                parts = f" in {len(merges)} parts" if len(merges) > 1 else ""
                shown.update(task, description=f"merging {len(files)} files, {size}{parts}")

            with _spark(master) as spark:
                shown.update(task, description="looking for files to merge")
                commit = table.compact(spark, owners, groups=groups, force=force, told=told)
        after = table.snapshot(commit.version)
    seconds = time.monotonic() - begun
    answer = {
        "uri": table.uri,
        "version": commit.version,
        "compacted": not commit.skipped,
        "before": _size(before),
        "after": _size(after),
        "seconds": round(seconds, 3),
    }
    if as_json:
        print_json(answer)
    elif commit.skipped:
        out.print("nothing is worth a compaction; --force merges everything")
    else:
        (files, size), (files_now, size_now) = _size(before).values(), _size(after).values()
        out.print(
            f"version {commit.version}: {files} -> {files_now} files, {decimal(size)} -> {decimal(size_now)}, in "
            f"{seconds:.1f} s",
            soft_wrap=True,
        )


@app.command()
def vacuum(
    uri: Uri,
    older_than: Annotated[
        int,
        typer.Option(min=0, metavar="HOURS", help="Longer than the longest write or query takes."),
    ] = 168,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    yes: Yes = False,
    option: Option = None,
    as_json: Json = False,
) -> None:
    """Remove the files that no version of the last so many hours has, and the versions before.

    Example: vnodectl table vacuum /data/orders --older-than 24
    """
    with _opened(uri, option, as_json=as_json) as table:
        kept = table.versions()
        names = table.vacuum(older_than_hours=older_than, dry_run=True)
        if not dry_run:
            question = (
                f"Remove {len(names)} files of {escape(table.uri)}, and all versions that are older than {older_than} "
                f"hours (of {kept[0]} to {kept[-1]})?"
            )
            confirm(question, yes=yes)
            names = table.vacuum(older_than_hours=older_than)
        kept = table.versions()
    if as_json:
        versions = {"first": kept[0], "last": kept[-1]}
        print_json({"uri": table.uri, "dry_run": dry_run, "files": list(names), "versions": versions})
        return
    if dry_run:
        for name in names[:FILES_MAX]:
            out.print(name, markup=False, soft_wrap=True)
        if len(names) > FILES_MAX:
            out.print(f"and {len(names) - FILES_MAX} files more: --json has them all")
        out.print(f"{len(names)} files would go, and the versions that need them", soft_wrap=True)
        return
    out.print(f"{len(names)} files removed; versions {kept[0]} to {kept[-1]} are kept", soft_wrap=True)


def _facts(table: "StateTable") -> dict[str, Any]:
    from dispatcher.table.compaction import plan_compaction  # noqa: PLC0415
    from dispatcher.table.file import Kind  # noqa: PLC0415

    snapshot, kept = table.snapshot(), table.versions()
    planned = plan_compaction(snapshot.files)
    waiting = () if planned is None else planned.files
    columns = ", ".join(f"{column.name} {column.type.sql_name}" for column in table.schema.columns)
    return {
        "uri": table.uri,
        "version": snapshot.version,
        "versions": {"first": kept[0], "last": kept[-1], "count": len(kept)},
        "key": f"({columns}), distributed by ({', '.join(table.schema.distribution)})",
        "schema": table.schema.to_json(),
        "columns": [
            {"name": column.name, "type": column.dataType.simpleString()} for column in table.columns
        ],
        "commits": len({file.sequence for file in snapshot.files}),
        "kinds": {
            str(kind): {
                "files": sum(file.kind is kind for file in snapshot.files),
                "rows": sum(file.rows for file in snapshot.files if file.kind is kind),
                "bytes": sum(file.size_bytes for file in snapshot.files if file.kind is kind),
            }
            for kind in Kind
        },
        "to_compact": {
            "commits": len({file.sequence for file in waiting}),
            "files": len(waiting),
            "bytes": sum(file.size_bytes for file in waiting),
        },
    }


def _size(snapshot: "Snapshot") -> dict[str, int]:
    return {
        "files": len(snapshot.files),
        "bytes": sum(file.size_bytes for file in snapshot.files),
    }


@contextmanager
def _opened(uri: str, option: list[str] | None, *, as_json: bool) -> "Iterator[StateTable]":
    """The table. What it refuses is refused like what a service refuses."""
    with refused_as_asked(as_json=as_json):
        try:
            from dispatcher.errors import DispatcherError  # noqa: PLC0415
            from dispatcher.table.state_table import StateTable  # noqa: PLC0415
        except ImportError as error:
            raise ServiceError(
                f"tables need Spark and deltalake, of which {error.name} is not installed; install vnodemap[spark]",
                "not-installed",
            ) from error
        try:
            yield StateTable.open(uri, _options(option or []))
        except (DispatcherError, MappingError) as error:
            raise ServiceError(str(error), "refused-by-table") from error


@contextmanager
def _spark(master: str) -> "Iterator[SparkSession]":
    """A session of the command's own. Spark's log is left out: what fails is raised."""
    from pyspark.errors import PySparkException  # noqa: PLC0415
    from pyspark.sql import SparkSession  # noqa: PLC0415

    with TemporaryDirectory(prefix="vnodectl-") as folder, ExitStack() as stack:
        silence = Path(folder, "log4j2.properties")
        silence.write_text(SILENCE)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        root = logging.getLogger()
        root.addFilter(_is_not_of_py4j)
        stack.callback(root.removeFilter, _is_not_of_py4j)
        advice = "it needs Java 17 or newer (JAVA_HOME), and a --master that is there"
        try:
            session = SparkSession.getActiveSession()
            if session is None:
                session = (
                    SparkSession.builder.master(master)
                    .appName("vnodectl table compact")
                    .config("spark.driver.extraJavaOptions", f"-Dlog4j2.configurationFile={silence.as_uri()}")
                    .config("spark.ui.enabled", "false")
                    .config("spark.ui.showConsoleProgress", "false")
                    .getOrCreate()
                )
                stack.callback(session.stop)
            advice = "what readers see is unchanged"
            yield session
        except KeyboardInterrupt:
            err.print(
                "stopped; what readers see is unchanged, and what was written goes with a later vacuum",
                soft_wrap=True,
            )
            raise
        except PySparkException as error:
            raise ServiceError(
                f"Spark could not do it: {_first_words(error)}; {advice}", "spark-failed"
            ) from error


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """It logs the traces of calls that Ctrl-C broke off."""
    return "py4j" not in Path(record.pathname).parts


def _first_words(error: Exception) -> str:
    """Spark's messages end with a trace of each process that they came through; the last line of one is its reason."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    reasons = [line for line in lines if ERROR_LINE.match(line)]
    return (reasons or lines or [type(error).__name__])[0]


def _options(given: Sequence[str]) -> dict[str, str]:
    for one in given:
        if "=" not in one:
            # Not shown, since it may be a secret.
            raise typer.BadParameter("one of them is no KEY=VALUE", param_hint="--option")
    return dict(one.split("=", 1) for one in given)


def _mapping(text: str) -> "VnodeMapping":
    from meta.mapping.groups import groups as groups_of  # noqa: PLC0415
    from meta.mapping.mapping import VnodeMapping  # noqa: PLC0415

    try:
        found = VnodeMapping.parse(text)
        # What a compaction would refuse, before Spark has taken seconds to start.
        check_vnode_count(found.vnode_count)
        groups_of(found)
    except (MappingError, StorageKeyError) as error:
        raise typer.BadParameter(str(error), param_hint="--mapping") from error
    return found
