"""Where a table is: a path or an object store's URL."""

import os
from pathlib import Path

from dispatcher.table.errors import NotAStateTable


def location_of(uri: str | Path) -> str:
    """Paths made absolute: an executor has another working folder."""
    if isinstance(uri, str) and "://" in uri:
        if not {*"%?#"}.isdisjoint(uri):
            raise NotAStateTable(uri, "'%', '?' and '#' have a meaning in URLs; use a URL without them")
        return uri.rstrip("/")
    if uri == "":
        raise NotAStateTable("''", "it is empty; name a path or a URL")
    path = str(Path(uri).absolute())
    if "%" in path:
        raise NotAStateTable(path, "deltalake takes '%' for an escape; use a path without '%'")
    if os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where one may not look
        raise NotAStateTable(path, "it is a file, and a table is a folder; use another path")
    return path


def literal_path(path: str) -> str:
    """As Spark's reader takes it, which expands patterns and looks for bare paths in the default file system."""
    escaped = "".join(f"\\{char}" if char in "*?[]{}\\" else char for char in path)
    return escaped if "://" in path else f"file:{escaped}"


def is_object_store(uri: str) -> bool:
    return "://" in uri and not uri.startswith("file:")
