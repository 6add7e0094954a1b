"""Answers to requests with an Idempotency-Key, as rows: reserved before the request is carried out, filled after."""

from dataclasses import dataclass

import sqlalchemy as sa

from meta.store.insertion import added
from meta.store.tables import idempotent_answers as answers


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(frozen=True, slots=True)
class Reserved:
    """`answer` is None while the request is carried out, by whoever reserved it at `at_ms`."""

    request_digest: str
    at_ms: int
    answer: Answer | None


class Answers:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def reserve(self, caller: str, key: str, request_digest: str, now_ms: int) -> bool:
        """False where the key is taken."""
        values = {"caller": caller, "key": key, "request_digest": request_digest, "created_at_ms": now_ms}
        return added(self._connection, answers, values)

    def take_over(
        self, caller: str, key: str, request_digest: str, *, reserved_at_ms: int, now_ms: int
    ) -> bool:
        """False where somebody else did so first."""
        statement = (
            answers.update()
            .where(self._reservation(caller, key, reserved_at_ms))
            .values(request_digest=request_digest, created_at_ms=now_ms, status=None, headers=None, body=None)
        )
        return self._connection.execute(statement).rowcount == 1

    def keep(self, caller: str, key: str, reserved_at_ms: int, answer: Answer) -> None:
        """Fills the reservation of that instant, unless it was taken over meanwhile."""
        self._connection.execute(
            answers.update()
            .where(self._reservation(caller, key, reserved_at_ms))
            .values(
                status=answer.status, headers=[list(header) for header in answer.headers], body=answer.body
            )
        )

    def release(self, caller: str, key: str, reserved_at_ms: int) -> None:
        self._connection.execute(answers.delete().where(self._reservation(caller, key, reserved_at_ms)))

    def get(self, caller: str, key: str) -> Reserved | None:
        statement = sa.select(answers).where(answers.c.caller == caller, answers.c.key == key)
        row = self._connection.execute(statement).one_or_none()
        if row is None:
            return None
        answer = None
        if row.status is not None:
            headers = tuple((name, value) for name, value in row.headers)
            answer = Answer(row.status, headers, bytes(row.body))
        return Reserved(row.request_digest, row.created_at_ms, answer)

    def count(self, caller: str, up_to: int) -> int:
        some = sa.select(answers.c.key).where(answers.c.caller == caller).limit(up_to).subquery()
        return self._connection.execute(sa.select(sa.func.count()).select_from(some)).scalar_one()

    @staticmethod
    def _reservation(caller: str, key: str, reserved_at_ms: int) -> sa.ColumnElement[bool]:
        return sa.and_(
            answers.c.caller == caller, answers.c.key == key, answers.c.created_at_ms == reserved_at_ms
        )
