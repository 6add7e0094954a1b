"""Use cases on requests with an Idempotency-Key: the first is carried out, the same again has the same answer.

A reservation whose service died is taken over after a while, and the request is carried out anew: at most once is for
the writes themselves to see to, and each of them does (a compare-and-set, a name that is taken, a token applied).
"""

from dataclasses import dataclass

from meta.callers.request_errors import IdempotencyKeyInUse, IdempotencyKeyReused, TooManyIdempotencyKeys
from meta.hearing import Hearing
from meta.store.answers import Answer, Reserved
from meta.store.database import Database, Transaction, retry_conflicts

KEPT_MS = 24 * 3600 * 1000
# No request takes so long, so whoever made the reservation is dead.
DEAD_MS = 60_000
KEYS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Reservation:
    """To be answered: by `keep`, or by `release` where the answer is not one to give again."""

    caller: str
    key: str
    at_ms: int


@dataclass(frozen=True, slots=True)
class Idempotency:
    database: Database
    hearing: Hearing

    @retry_conflicts
    def reserve(self, caller: str, key: str, request_digest: str) -> Reservation | Answer:
        """The reservation, or the answer that there is already.

        Raises `IdempotencyKeyReused`, `IdempotencyKeyInUse` and `TooManyIdempotencyKeys`.
        """
        now_ms = self.hearing.now().now_ms
        with self.database.transaction() as tx:
            found = tx.answers.get(caller, key)
            if found is None:
                return _reserve(tx, Reservation(caller, key, now_ms), request_digest)
            outlived = now_ms - found.at_ms > KEPT_MS
            if not outlived:
                answer = _answer_of(found, key, request_digest, now_ms)
                if answer is not None:
                    return answer
            taken = tx.answers.take_over(
                caller, key, request_digest, reserved_at_ms=found.at_ms, now_ms=now_ms
            )
        if not taken:
            raise IdempotencyKeyInUse(key)
        return Reservation(caller, key, now_ms)

    @retry_conflicts
    def keep(self, reservation: Reservation, answer: Answer) -> None:
        with self.database.transaction() as tx:
            tx.answers.keep(reservation.caller, reservation.key, reservation.at_ms, answer)

    @retry_conflicts
    def release(self, reservation: Reservation) -> None:
        with self.database.transaction() as tx:
            tx.answers.release(reservation.caller, reservation.key, reservation.at_ms)


def _reserve(tx: Transaction, reservation: Reservation, request_digest: str) -> Reservation:
    if tx.answers.count(reservation.caller, KEYS_MAX) >= KEYS_MAX:
        raise TooManyIdempotencyKeys(KEYS_MAX)
    if not tx.answers.reserve(reservation.caller, reservation.key, request_digest, reservation.at_ms):
        raise IdempotencyKeyInUse(reservation.key)
    return reservation


def _answer_of(found: Reserved, key: str, request_digest: str, now_ms: int) -> Answer | None:
    """None where nobody is left to answer."""
    if found.request_digest != request_digest:
        raise IdempotencyKeyReused(key)
    if found.answer is None and now_ms - found.at_ms <= DEAD_MS:
        raise IdempotencyKeyInUse(key)
    return found.answer
