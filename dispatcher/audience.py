"""All that follow one fragment in this process, as one who listens."""

import logging
import threading
from collections.abc import Callable
from functools import cache

from dispatcher.errors import DigestConflict
from dispatcher.ledger import Coordination
from dispatcher.standing import Standing
from dispatcher.view import Source

log = logging.getLogger(__name__)


class Audience:
    """Thread-safe. Who leaves last ends it: once empty, it stays so."""

    def __init__(self, first: Standing) -> None:
        self.fragment = first.fragment
        self._changing = threading.Lock()
        self._members: tuple[Standing, ...] = (first,)

    def add(self, member: Standing) -> bool:
        """Whether `member` is told from now on: not where all others left or failed."""
        with self._changing:
            if self._members and (known := self.coordination):
                # For its copy on disk: the service is asked again only once etcd fails.
                member.coordinated(known)
            self._members = (*self._members, member) if self._members else ()
            return bool(self._members)

    def remove(self, member: Standing) -> bool:
        """Whether others remain."""
        with self._changing:
            self._members = tuple(other for other in self._members if other is not member)
            return bool(self._members)

    @property
    def listens(self) -> bool:
        return bool(self._members)

    @property
    def coordination(self) -> Coordination | None:
        return next((member.coordination for member in self._members if member.coordination), None)

    def coordinated(self, coordination: Coordination) -> None:
        # Under the lock: who is added meanwhile hears of this one too.
        with self._changing:
            for member in self._members:
                member.coordinated(coordination)

    def take(self, source: Source, current_bytes: bytes, body_of: Callable[[int], bytes]) -> bool:
        """Whether it confirms to every member that nothing newer exists than what that one knows.

        Raises what `Standing.take` does, but for a `DigestConflict`, which is the end of that member alone.
        """
        body_once = cache(body_of)
        # Every one, also after one that it confirms nothing to.
        confirmed = [self._took(member, source, current_bytes, body_once) for member in self._members]
        return all(confirmed)

    def round_ended(self, trouble: str | None) -> None:
        for member in self._members:
            member.round_ended(trouble)

    def fail(self, failure: Exception) -> None:
        """The end for all of them."""
        with self._changing:
            failed, self._members = self._members, ()
        for member in failed:
            member.fail(failure)

    def _took(
        self, member: Standing, source: Source, current_bytes: bytes, body_of: Callable[[int], bytes]
    ) -> bool:
        try:
            return member.take(source, current_bytes, body_of)
        except DigestConflict as conflict:
            log.error("fragment %s: the subscription stopped: %s", self.fragment, conflict)
            member.fail(conflict)
            self.remove(member)
            return True
