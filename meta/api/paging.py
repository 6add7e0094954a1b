"""Lists in pages: `?limit=` items after `?cursor=`, which carries the key of the last item of the page before.

A page is cut by key and not by offset, so what is added or removed meanwhile neither repeats nor hides an item.
"""

import base64
import binascii
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

from fastapi import Depends, Query

from meta.api.wire.base import PageOut
from meta.callers.request_errors import BadCursor

LIMIT_DEFAULT = 100
LIMIT_MAX = 1_000

Key = str | int | tuple[int, str]
Row = TypeVar("Row")
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class PageRequest:
    """What a list's route is asked for. Which key a cursor carries is the list's, so `after_...` is the route's call.

    Each `after_...` is None on the first page and raises `BadCursor` where the cursor is not of such a list.
    """

    limit: int = LIMIT_DEFAULT
    cursor: str | None = None

    @property
    def rows_max(self) -> int:
        """What a repository is asked for: one row more than fits, which tells whether there is another page."""
        return self.limit + 1

    def after_name(self) -> str | None:
        match self._key():
            case None:
                return None
            case [str(name)] if _is_name(name):
                return name
        raise BadCursor(self.cursor)

    def after_number(self, below: int = 2**63) -> int | None:
        match self._key():
            case None:
                return None
            case [int(number)] if _is_number(number) and number < below:
                return number
        raise BadCursor(self.cursor)

    def after_instant(self) -> tuple[int, str] | None:
        """Of a list in order of instants, and of ids where two are of one millisecond."""
        match self._key():
            case None:
                return None
            case [int(at_ms), str(name)] if _is_number(at_ms) and _is_name(name):
                return at_ms, name
        raise BadCursor(self.cursor)

    def _key(self) -> object:
        if self.cursor is None:
            return None
        try:
            padded = self.cursor + "=" * (-len(self.cursor) % 4)
            key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        except (ValueError, RecursionError, binascii.Error) as error:
            raise BadCursor(self.cursor) from error
        # `null` would begin anew, and whoever follows the cursors would never come to an end.
        if not isinstance(key, list):
            raise BadCursor(self.cursor)
        return key


# Not in a thread: it waits for nothing.
async def _page_request(
    limit: Annotated[int, Query(ge=1, le=LIMIT_MAX, description="how many items at most")] = LIMIT_DEFAULT,
    cursor: Annotated[
        str | None,
        Query(max_length=512, description="`next_cursor` of the page before; without it, the first"),
    ] = None,
) -> PageRequest:
    return PageRequest(limit, cursor)


Page = Annotated[PageRequest, Depends(_page_request)]


def page_of(
    rows: Sequence[Row], page: PageRequest, key: Callable[[Row], Key], out: Callable[[Row], Item]
) -> PageOut[Item]:
    """The answer, of at most `page.rows_max` rows in order, each after the cursor's key."""
    shown = rows[: page.limit]
    more = len(rows) > page.limit
    return PageOut(items=[out(row) for row in shown], next_cursor=cursor_of(key(shown[-1])) if more else None)


def cursor_of(key: Key) -> str:
    parts = key if isinstance(key, tuple) else (key,)
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).rstrip(b"=").decode()


def _is_name(name: str) -> bool:
    """Of those that our lists are in order of: a database is not asked about half a surrogate."""
    return name.isascii() and name.isprintable()


def _is_number(number: int) -> bool:
    return not isinstance(number, bool) and 0 <= number < 2**63
