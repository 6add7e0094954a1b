"""What /openapi.json says: FastAPI takes every answer of a route for the media type of its success."""

from typing import Any

from meta.api.problems import MEDIA_TYPE

_REFUSALS = frozenset({"4XX", "5XX", "422"})


def described(found: dict[str, Any]) -> dict[str, Any]:
    """`found`, changed in place: refusals are problems."""
    for operations in found["paths"].values():
        for operation in operations.values():
            for status in _REFUSALS & operation["responses"].keys():
                answer = operation["responses"][status]
                (content,) = answer["content"].values()
                answer["content"] = {MEDIA_TYPE: content}
    return found
