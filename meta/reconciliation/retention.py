"""How long history is kept, and what forgets the rest: in small transactions, by any replica at any time.

etcd follows: bodies of versions that SQL does not keep any more are removed there by `Comparison`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from meta.hearing import Hearing
from meta.store.database import Database, Transaction, retry_conflicts

# Enough to go back to; what a version in flight goes back to is in its own body.
KEEP_VERSIONS_MIN = 10
KEEP_VERSIONS = 1_000
KEEP_DAYS = 365
FORGET_MS = 24 * 3600 * 1000
HEARING_MS = 3600 * 1000
EVERY_MS = 60_000

_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Kept:
    """The newest `versions` of each fragment; audit entries and applied plans for `days`."""

    versions: int = KEEP_VERSIONS
    days: int = KEEP_DAYS

    def __post_init__(self) -> None:
        if self.versions < KEEP_VERSIONS_MIN or self.days < 1:
            raise ValueError(f"at least {KEEP_VERSIONS_MIN} versions and one day are kept")


KEPT_BY_DEFAULT = Kept()


@dataclass(frozen=True, slots=True)
class Retention:
    database: Database
    hearing: Hearing
    kept: Kept

    def run(self) -> None:
        """Forgets what is not kept any longer. What it did before an error stays done."""
        moment = self.hearing.now()
        day_ago_ms = moment.now_ms - FORGET_MS
        long_ago_ms = moment.now_ms - self.kept.days * 24 * 3600 * 1000
        self._until_none(
            lambda tx: tx.retention.forget_plans(
                expired_before_ms=day_ago_ms, applied_before_ms=long_ago_ms, limit=_AT_ONCE
            )
        )
        self._until_none(lambda tx: tx.retention.forget_audit(long_ago_ms, _AT_ONCE))
        self._until_none(lambda tx: tx.retention.forget_answers(day_ago_ms, _AT_ONCE))
        self._until_none(lambda tx: tx.retention.forget_loads(day_ago_ms, _AT_ONCE))
        # Who was silent while nobody could be heard is not forgotten: see `Moment`.
        if moment.silence_from_ms < moment.now_ms - HEARING_MS:
            self._until_none(lambda tx: tx.retention.forget_subscribers(day_ago_ms, _AT_ONCE))
        self._forget_versions()

    def _forget_versions(self) -> None:
        with self.database.reading() as tx:
            fragments = tx.retention.too_long(self.kept.versions)
        for fragment in fragments:
            self._until_none(partial(_forget_versions, fragment, self.kept.versions))

    def _until_none(self, forget: Callable[[Transaction], int]) -> None:
        while self._once(forget) == _AT_ONCE:
            pass

    @retry_conflicts
    def _once(self, forget: Callable[[Transaction], int]) -> int:
        with self.database.transaction() as tx:
            return forget(tx)


def _forget_versions(fragment: str, keep: int, tx: Transaction) -> int:
    tx.fragments.hold(fragment)
    return tx.retention.forget_versions(fragment, keep, _AT_ONCE)
