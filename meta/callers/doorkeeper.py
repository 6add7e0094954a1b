"""Who is there: callers by the tokens that they show, which the database has."""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass

import sqlalchemy as sa

from meta.callers.access import LOCAL, AccessRole, Caller, Token
from meta.callers.request_errors import Unauthenticated
from meta.callers.tokens import matching
from meta.hearing import Hearing
from meta.store.database import Database

# A revocation counts everywhere within a second, while the database answers.
SNAPSHOT_S = 0.9
# Whoever is refused waits for a snapshot of after it asked; this many seconds apart, however many guess.
SPACING_S = 0.05
# For the database, before the last snapshot decides.
PATIENCE_S = 1.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class _Snapshot:
    """From the first token on that was ever made, everybody needs one."""

    any_ever: bool
    by_id: Mapping[str, Token]


class Doorkeeper:
    """For one event loop, beside which a thread reads the database."""

    def __init__(self, database: Database, hearing: Hearing) -> None:
        self._database = database
        self._hearing = hearing
        self._snapshot: _Snapshot | None = None
        self._begun_s = self._changed_s = float("-inf")
        self._failure: sa.exc.SQLAlchemyError | None = None
        self._reading: asyncio.Task[None] | None = None

    async def caller(self, shown: str | None, request_id: str) -> Caller:
        """Who shows this token; None: none was shown. Raises `Unauthenticated`.

        With the database away the last snapshot decides. Before the first, its error is raised.
        """
        asked_s = time.monotonic()
        await self._read_since(max(asked_s - SNAPSHOT_S, self._changed_s))
        try:
            return self._known(shown, request_id)
        except Unauthenticated:
            # It may have been made just now, at another replica or beside the service.
            await self._read_since(asked_s)
        return self._known(shown, request_id)

    def tokens_changed(self) -> None:
        """Here, so that it counts here at once. From any thread."""
        self._changed_s = time.monotonic()

    def _known(self, shown: str | None, request_id: str) -> Caller:
        if self._snapshot is None:
            assert self._failure is not None
            raise self._failure
        if not self._snapshot.any_ever:
            return Caller(LOCAL, AccessRole.ADMIN, request_id)
        if shown is None:
            raise Unauthenticated("no token was sent")
        token = matching(shown, self._snapshot.by_id)
        if token is None or not token.usable(self._hearing.now().now_ms):
            raise Unauthenticated("the token is not known here, or was revoked, or has expired")
        return Caller(token.name, token.role, request_id)

    async def _read_since(self, instant_s: float) -> None:
        """Has the tokens as they were then or later, if the database tells in time."""
        while self._begun_s < instant_s:
            if self._reading is None:
                self._reading = asyncio.create_task(self._read())
            # Not cancelled with the one who waits: others do too.
            done, _ = await asyncio.wait({self._reading}, timeout=PATIENCE_S if self._snapshot else None)
            if not done:
                return
            done.pop().result()

    async def _read(self) -> None:
        try:
            await asyncio.sleep(self._begun_s + SPACING_S - time.monotonic())
            begun_s = time.monotonic()
            try:
                self._snapshot, failure = await asyncio.to_thread(self._take_snapshot), None
            except sa.exc.SQLAlchemyError as error:
                failure = error
            if failure is not None and self._failure is None:
                log.warning("the tokens cannot be read, so the last known decide: %s", failure)
            self._failure, self._begun_s = failure, begun_s
        finally:
            self._reading = None

    def _take_snapshot(self) -> _Snapshot:
        now_ms = self._hearing.now().now_ms
        with self._database.reading() as tx:
            return _Snapshot(tx.tokens.any_ever(), {token.id: token for token in tx.tokens.usable(now_ms)})
