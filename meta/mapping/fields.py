"""The fields of a JSON document that people write by hand."""

import json
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Final

from meta.mapping.errors import Malformed

# "statefull" and "stateless" are that close to "stateful"; "notes" to "units", with difflib's own 0.6, is no slip.
_CLOSE: Final = 0.7


def require_known(document: Mapping[str, object], names: Iterable[str]) -> None:
    """Raises `Malformed` for a field that must be one of `names`, misspelt; other unknown ones are the writer's own."""
    known = tuple(names)
    for name in document:
        if not isinstance(name, str) or name in known:
            continue
        if meant := get_close_matches(name.lower(), known, n=1, cutoff=_CLOSE):
            raise Malformed(f'{json.dumps(name)} is not a field; did you mean "{meant[0]}"?')
