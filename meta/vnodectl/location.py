"""`vnodectl locate`: where a key is."""

import json
import math
import re
from collections.abc import Callable
from typing import Annotated, Any

import typer
from rich.table import Table

from meta.vnodectl.client import ServiceError, path
from meta.vnodectl.completion import FragmentName
from meta.vnodectl.session import DEFAULT_SERVER, Json, Server, connected, out, print_json

NULL = r"\N"
WHOLE = re.compile(r"[+-]?\d+")

# Of Spark's types, those whose JSON form is not the text itself; those with brackets are written as JSON.
WHOLE_NUMBERS = ("tinyint", "smallint", "int", "bigint", "timestamp", "timestamp_ntz", "interval")
FLOATS = ("float", "double")
NESTED = ("struct", "array")


def locate(
    fragment: FragmentName,
    values: Annotated[
        list[str],
        typer.Argument(
            metavar="VALUE...",
            help="One for each column of the distribution key. Text as it is; numbers as numbers; timestamps and "
            r"intervals in microseconds or months; binary as hex; struct and array as JSON; \N for NULL.",
        ),
    ],
    table_id: Annotated[
        int | None, typer.Option(min=0, help="Only this table's key range. Default: each of the fragment's.")
    ] = None,
    as_json: Json = False,
    server: Server = DEFAULT_SERVER,
) -> None:
    """Where a key is: its vnode, its unit and worker, and its tables' key ranges.

    Example: vnodectl locate flights N14228
    """
    with connected(server, as_json=as_json) as api:
        columns = api.get(path("fragments", fragment))["distribution_key"]
        if len(columns) != len(values):
            wanted = ", ".join(f"{column['name']} {column['type']}" for column in columns)
            raise ServiceError(
                f"{fragment} has the distribution key ({wanted}): give {len(columns)} values, not {len(values)}",
                "wrong-key",
            )
        key = [key_value(column, text) for column, text in zip(columns, values, strict=True)]
        asked = {"key": key} | ({} if table_id is None else {"table_id": table_id})
        found = api.post(path("fragments", fragment, "locate"), asked)
    if as_json:
        print_json(found)
        return
    out.print(
        f"vnode {found['vnode']}, on unit {found['unit']} of worker {found['worker']} (version {found['version']})"
    )
    out.print(f"hash {found['hash']}, prefix {found['prefix']}")
    if found["ranges"]:
        table = Table("table", "first key", "up to, without")
        for keys in found["ranges"]:
            table.add_row(str(keys["table_id"]), keys["start"], keys["end"] or "the end")
        out.print(table)


def key_value(column: Any, text: str) -> Any:
    """A column's value as `vnodectl key` has it, out of what was typed. Raises `ServiceError`."""
    name, type_name = column["name"], column["type"]
    base = re.split(r"[ (<]", type_name.lower(), maxsplit=1)[0]
    if text == NULL:
        return None
    try:
        return _parser(base)(text)
    except ValueError as error:
        raise ServiceError(f"{name}: {text!r} is no {type_name}: {error}", "wrong-key") from error


def _parser(base: str) -> Callable[[str], Any]:
    if base in WHOLE_NUMBERS:
        return _whole
    if base in FLOATS:
        return _float
    if base in NESTED:
        return json.loads
    if base == "boolean":
        return _boolean
    if base == "binary":
        return _binary
    return str


def _whole(text: str) -> int:
    # Python's int() also reads 1_000 and blanks around.
    if not WHOLE.fullmatch(text):
        raise ValueError("write a whole number")
    return int(text)


def _float(text: str) -> float | str:
    number = float(text)
    if math.isfinite(number):
        return number
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


def _boolean(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError("write true or false")
    return text.lower() == "true"


def _binary(text: str) -> dict[str, str]:
    digits = text.removeprefix("0x")
    return {"hex": bytes.fromhex(digits).hex()}
