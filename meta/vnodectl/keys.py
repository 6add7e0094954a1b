"""`vnodectl key`: the codec of storage keys, as JSON in and JSON out."""

from typing import Annotated

import typer

from meta.vnodectl.session import answer_json
from storage_keys import offline
from storage_keys.errors import StorageKeyError

app = typer.Typer(no_args_is_help=True, help="Encode, decode and locate storage keys: JSON in, JSON out.")

Lines = Annotated[bool, typer.Option("--lines", help="One JSON document a line in, one a line out.")]


@app.command()
def encode(lines: Lines = False) -> None:
    """One column to its bytes: {"type": "int", "value": 5, "descending": true, "nulls": "first"}

    Types are Spark's SQL names. Values are JSON's; decimals are strings ("12.50"), binary is {"hex": "00ff"}, dates
    are "2013-01-31", timestamps and intervals integers of microseconds or months, structs and arrays JSON arrays,
    and a float may be "NaN", "Infinity" or "-Infinity".
    """
    answer_json(offline.encode, StorageKeyError, lines=lines)


@app.command()
def decode(lines: Lines = False) -> None:
    """One column from its bytes: {"type": "int", "hex": "0180000005"}"""
    answer_json(offline.decode, StorageKeyError, lines=lines)


@app.command()
def storage(lines: Lines = False) -> None:
    """A whole key: {"table_id": 7, "columns": [{"type": "bigint", "value": 5}], "distribution": [0],
    "vnode_count": 256}"""
    answer_json(offline.storage, StorageKeyError, lines=lines)


@app.command()
def vnode(lines: Lines = False) -> None:
    """Hash, prefix and vnode: {"columns": [{"type": "bigint", "value": 5}], "vnode_count": 256}"""
    answer_json(offline.vnode, StorageKeyError, lines=lines)


@app.command(name="range")
def range_(lines: Lines = False) -> None:
    """The keys of a table or of vnodes: {"table_id": 7, "first": 3, "last": 9, "vnode_count": 256}"""
    answer_json(offline.range_, StorageKeyError, lines=lines)
