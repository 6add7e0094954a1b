"""Subscribers of fragments, as rows."""

from dataclasses import asdict
from typing import Any

import sqlalchemy as sa

from meta.lifecycle import HandedOver, Role, Subscriber
from meta.store.insertion import insert_into
from meta.store.tables import subscribers


class Subscribers:
    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection

    def save(self, subscriber: Subscriber) -> Subscriber:
        """Registers, beats and acknowledges in one. An acknowledgement never goes back.

        Without `handed_over` what was said of it before stays.
        """
        values: dict[str, Any] = {
            "name": subscriber.name,
            "role": subscriber.role,
            "seen_at_ms": subscriber.seen_at_ms,
        }
        if subscriber.handed_over is not None:
            values["handed_over"] = asdict(subscriber.handed_over)
        version = subscriber.acknowledged_version
        self._connection.execute(
            insert_into(subscribers, self._connection)
            .values(fragment=subscriber.fragment, id=subscriber.id, acknowledged_version=version, **values)
            .on_conflict_do_update(
                index_elements=[subscribers.c.fragment, subscribers.c.id],
                set_={**values, "acknowledged_version": _later(version)},
            )
        )
        saved = self.get(subscriber.fragment, subscriber.id)
        assert saved is not None
        return saved

    def get(self, fragment: str, subscriber_id: str) -> Subscriber | None:
        found = sa.select(subscribers).where(_key(fragment, subscriber_id))
        row = self._connection.execute(found).one_or_none()
        return _subscriber(row) if row else None

    def of(self, fragment: str) -> list[Subscriber]:
        rows = self._connection.execute(sa.select(subscribers).where(subscribers.c.fragment == fragment))
        return sorted((_subscriber(row) for row in rows), key=lambda found: (found.name, found.id))

    def count(self, fragment: str) -> int:
        counted = (
            sa.select(sa.func.count()).select_from(subscribers).where(subscribers.c.fragment == fragment)
        )
        found: int = self._connection.execute(counted).scalar_one()
        return found

    def remove(self, fragment: str, subscriber_id: str) -> bool:
        """Whether it was there."""
        gone = subscribers.delete().where(_key(fragment, subscriber_id))
        return self._connection.execute(gone).rowcount == 1


def _key(fragment: str, subscriber_id: str) -> sa.ColumnElement[bool]:
    return sa.and_(subscribers.c.fragment == fragment, subscribers.c.id == subscriber_id)


def _later(version: int | None) -> sa.ColumnElement[int | None]:
    known = subscribers.c.acknowledged_version
    return known if version is None else sa.case((known >= version, known), else_=version)


def _subscriber(row: sa.Row[Any]) -> Subscriber:
    return Subscriber(
        id=row.id,
        fragment=row.fragment,
        name=row.name,
        role=Role(row.role),
        acknowledged_version=row.acknowledged_version,
        seen_at_ms=row.seen_at_ms,
        handed_over=_handed_over(row.handed_over) if row.handed_over else None,
    )


def _handed_over(fields: dict[str, Any]) -> HandedOver:
    return HandedOver(fields["version"], tuple((first, last) for first, last in fields["vnodes"]))
