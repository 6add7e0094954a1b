"""Typed look-ups in a JSON-shaped document from outside, which may hold anything."""

from collections.abc import Mapping
from typing import cast

from storage_keys.column import Nulls, Order
from storage_keys.errors import MalformedKey, shown

Document = Mapping[str, object]


def as_document(found: object, what: str = "the document") -> Document:
    if not isinstance(found, Mapping) or not all(isinstance(name, str) for name in found):
        raise MalformedKey(f"{what} must be a JSON object, not {shown(found)}")
    return found


def field(document: Document, name: str) -> object:
    """The field as it is; null is a value, a missing field is refused."""
    if name not in document:
        raise MalformedKey(f"the field {name!r} is missing")
    return document[name]


def text(document: Document, name: str) -> str:
    found = field(document, name)
    if not isinstance(found, str):
        raise MalformedKey(f"the field {name!r} must be a string, not {shown(found)}")
    return found


def integer(document: Document, name: str) -> int:
    return as_integer(field(document, name), f"the field {name!r}")


def as_integer(found: object, what: str) -> int:
    if isinstance(found, bool) or not isinstance(found, int):
        raise MalformedKey(f"{what} must be an integer, not {shown(found)}")
    return found


def items(document: Document, name: str) -> list[object]:
    found = field(document, name)
    if not isinstance(found, list):
        raise MalformedKey(f"the field {name!r} must be an array, not {shown(found)}")
    return found


def order(document: Document) -> Order:
    """The order in `descending` and `nulls`, which may both be left out."""
    # Order itself refuses what is neither.
    descending, nulls = document.get("descending", False), document.get("nulls")
    return Order(cast("bool", descending), cast("Nulls | None", nulls))
