"""Whether this replica can serve: asked by load balancers, and answered in time though nothing else answers."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

from meta.etcd.errors import EtcdError
from meta.hearing import Hearing
from meta.reconciliation.reconciling import Reconciling
from meta.store.database import Database
from meta.store.schema import DatabaseTrouble, SchemaProbe

T = TypeVar("T")

ANSWER_S = 1.5
RECONCILED_WITHIN_MS = 30_000


class Status(StrEnum):
    """`DEGRADED` serves, since SQL is the truth; readers in etcd may be behind."""

    OK = "ok"
    DEGRADED = "degraded"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True, slots=True)
class Standing:
    """What was found; a trouble that is None is none."""

    database_trouble: DatabaseTrouble | None
    etcd_trouble: str | None
    reconciled_ms_ago: int | None
    conflicts: dict[str, str] = field(default_factory=dict)
    unknown_fragments: tuple[str, ...] = ()

    @property
    def reconciles(self) -> bool:
        ago_ms = self.reconciled_ms_ago
        return ago_ms is not None and ago_ms <= RECONCILED_WITHIN_MS

    @property
    def status(self) -> Status:
        if not self.reconciles or (self.database_trouble and not self.database_trouble.serves):
            return Status.UNAVAILABLE
        if self.database_trouble or self.etcd_trouble or self.conflicts or self.unknown_fragments:
            return Status.DEGRADED
        return Status.OK

    @property
    def detail(self) -> str:
        """What to do, if anything is to be done."""
        found = [str(trouble) for trouble in (self.database_trouble, self.etcd_trouble) if trouble]
        if not self.reconciles and not found:
            found.append("the service has not compared the database with etcd lately; see its log")
        found += self.conflicts.values()
        if self.unknown_fragments:
            found.append(
                f"etcd has fragments that the database does not know: {', '.join(self.unknown_fragments)}"
            )
        return "; ".join(found)


class Probe(Generic[T]):
    """What is the matter, which may take long to find out: once at a time, in a thread, for all who ask meanwhile."""

    def __init__(self, question: Callable[[], T | None], too_late: T) -> None:
        self._question = question
        self._too_late = too_late
        self._asked: asyncio.Future[T | None] | None = None

    async def trouble(self) -> T | None:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.ensure_future(asyncio.to_thread(self._question))
        try:
            return await asyncio.wait_for(asyncio.shield(self._asked), ANSWER_S)
        except TimeoutError:
            return self._too_late


class Readiness:
    def __init__(self, database: Database, reconciling: Reconciling, hearing: Hearing) -> None:
        self._reconciling = reconciling
        self._hearing = hearing
        self._schema = SchemaProbe(database.engine)
        late = DatabaseTrouble(f"the database has not answered for {ANSWER_S} s")
        self._database = Probe(self._schema.trouble, late)
        self._etcd = Probe(self._etcd_trouble, f"etcd has not answered for {ANSWER_S} s")

    async def now(self) -> Standing:
        database, etcd = await asyncio.gather(self._database.trouble(), self._etcd.trouble())
        done_at_ms, comparison = self._reconciling.done_at_ms, self._reconciling.comparison
        conflicts = dict(self._reconciling.publishing.conflicts)
        for (fragment, _), conflict in list(comparison.foreign.items()):
            conflicts.setdefault(fragment, str(conflict))
        return Standing(
            database_trouble=database,
            etcd_trouble=etcd,
            # Not below 0, where a clock was set back.
            reconciled_ms_ago=None if done_at_ms is None else max(0, self._hearing.now().now_ms - done_at_ms),
            conflicts=dict(sorted(conflicts.items())),
            unknown_fragments=comparison.unknown,
        )

    def close(self) -> None:
        self._schema.close()

    def _etcd_trouble(self) -> str | None:
        try:
            self._reconciling.publishing.publisher.look()
        except EtcdError as error:
            return str(error)
        return None
