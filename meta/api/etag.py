"""Entity tags of mappings: `"<version>-<phase>-<digest>"`, with the form of the answer where there are several.

These are weak: two answers of one tag say the same, whatever their bytes.
"""

from typing import Annotated

from fastapi import Header

from meta.errors import PreconditionFailed
from meta.mapping.publication import Current
from meta.store.versions import MappingState

IfNoneMatch = Annotated[
    str | None, Header(alias="If-None-Match", description="an ETag of before: 304 where nothing has changed")
]
IfMatch = Annotated[
    str | None, Header(alias="If-Match", description="the mapping's ETag: 412 where it is another by now")
]

_DIGITS = 16


def tag_of(state: MappingState, form: str) -> str:
    return f'W/"{_state(state)}-{form}"'


def body_tag(digest: str) -> str:
    """Of the very bytes, so it is a strong one."""
    return f'"{digest}"'


def is_known(if_none_match: str | None, tag: str) -> bool:
    """Whether the client has this very answer."""
    if if_none_match is None:
        return False
    named = [_bare(one) for one in if_none_match.split(",")]
    return _bare(tag) in named or "*" in named


def require_match(fragment: str, current: Current, if_match: str | None) -> None:
    """Raises `PreconditionFailed` where the client decided on another state than `current`, whatever the form."""
    if if_match is None:
        return
    state = _state(current)
    named = [_bare(one) for one in if_match.split(",")]
    if "*" in named or any(one == state or one.startswith(f"{state}-") for one in named):
        return
    raise PreconditionFailed(fragment, f'"{state}"')


def _state(current: Current | MappingState) -> str:
    return f"{current.version}-{current.phase}-{current.digest[:_DIGITS]}"


def _bare(tag: str) -> str:
    return tag.strip().removeprefix("W/").strip('"')
