"""What the routes are handed: the use cases, and where readers find etcd."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Request

from meta.api.documents import MappingDocuments
from meta.callers.audit import AuditLog
from meta.callers.doorkeeper import Doorkeeper
from meta.callers.idempotency import Idempotency
from meta.callers.tokens import Tokens
from meta.changes import Changes
from meta.coordination.publisher import Publisher
from meta.hearing import Hearing
from meta.history import History
from meta.locating import Locating
from meta.observability.metrics import Metrics
from meta.observability.observation import Observation, Span, unspanned
from meta.observability.overview import Overview
from meta.observability.trouble import Troubles
from meta.reconciliation.adoption import Adoption
from meta.reconciliation.comparison import Comparison
from meta.reconciliation.publishing import Publishing
from meta.reconciliation.readiness import Readiness
from meta.reconciliation.reconciling import Reconciling
from meta.reconciliation.retention import KEPT_BY_DEFAULT, Kept, Retention
from meta.registry.fragments import FragmentRegistry
from meta.registry.workers import WorkerRegistry
from meta.rescaling.adapting import Adapting
from meta.rescaling.loading import Loading
from meta.rescaling.rescale import Rescales
from meta.rescaling.subscribing import Subscribing
from meta.rescaling.superseding import Superseding
from meta.store.database import Database


@dataclass(frozen=True, slots=True)
class Control:
    workers: WorkerRegistry
    fragments: FragmentRegistry
    rescales: Rescales
    subscribing: Subscribing
    history: History
    loading: Loading
    locating: Locating
    documents: MappingDocuments
    reconciling: Reconciling
    readiness: Readiness
    retention: Retention
    publishing: Publishing
    tokens: Tokens
    doorkeeper: Doorkeeper
    idempotency: Idempotency
    audit: AuditLog
    hearing: Hearing
    observation: Observation
    overview: Overview
    changes: Changes
    etcd_endpoints: tuple[str, ...]
    etcd_root: str
    etcd_tls: bool = False
    etcd_auth: bool = False

    @classmethod
    def over(
        cls,
        database: Database,
        publisher: Publisher,
        hearing: Hearing,
        etcd_endpoints: tuple[str, ...],
        span: Span = unspanned,
        kept: Kept = KEPT_BY_DEFAULT,
    ) -> Self:
        """The use cases over one database and one etcd."""
        troubles, changes = Troubles(), Changes(database)
        observation = Observation(Metrics(), span, changes.wake)
        adoption = Adoption(database, publisher, hearing)
        publishing = Publishing(database, publisher, adoption, troubles, observation)
        comparison = Comparison(database, publisher, hearing, troubles)
        rescales = Rescales(database, publishing, hearing)
        reconciling = Reconciling(
            database,
            publishing,
            comparison,
            Superseding(database, publishing, troubles),
            Adapting(database, rescales, troubles),
            hearing,
        )
        return cls(
            workers=WorkerRegistry(database, hearing),
            fragments=FragmentRegistry(database, hearing),
            rescales=rescales,
            subscribing=Subscribing(database, publishing, hearing, troubles),
            history=History(database),
            loading=Loading(database, hearing),
            locating=Locating(database),
            documents=MappingDocuments(),
            reconciling=reconciling,
            readiness=Readiness(database, reconciling, hearing),
            retention=Retention(database, hearing, kept),
            publishing=publishing,
            tokens=Tokens(database, hearing),
            doorkeeper=Doorkeeper(database, hearing),
            idempotency=Idempotency(database, hearing),
            audit=AuditLog(database),
            hearing=hearing,
            observation=observation,
            overview=Overview(database, hearing, observation.metrics),
            changes=changes,
            etcd_endpoints=etcd_endpoints,
            etcd_root=publisher.root,
        )


# Not in a thread: it waits for nothing.
async def control(request: Request) -> Control:
    found = request.app.state.control
    assert isinstance(found, Control)
    return found


Controlled = Annotated[Control, Depends(control)]
