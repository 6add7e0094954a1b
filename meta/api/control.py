"""What the routes are handed: the use cases, and where readers find etcd."""

from dataclasses import dataclass
from typing import Annotated, Self

from fastapi import Depends, Request

from meta.adapting import Adapting
from meta.adoption import Adoption
from meta.api.documents import MappingDocuments
from meta.audit import AuditLog
from meta.changes import Changes
from meta.comparison import Comparison
from meta.coordination.publisher import Publisher
from meta.doorkeeper import Doorkeeper
from meta.hearing import Hearing
from meta.history import History
from meta.idempotency import Idempotency
from meta.loading import Loading
from meta.locating import Locating
from meta.metrics import Metrics
from meta.observation import Observation, Span, unspanned
from meta.overview import Overview
from meta.publishing import Publishing
from meta.readiness import Readiness
from meta.reconciling import Reconciling
from meta.registry import Registry
from meta.rescale import Rescales
from meta.retention import KEPT_BY_DEFAULT, Kept, Retention
from meta.store.database import Database
from meta.subscribing import Subscribing
from meta.superseding import Superseding
from meta.tokens import Tokens
from meta.trouble import Troubles


@dataclass(frozen=True, slots=True)
class Control:
    registry: Registry
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
            registry=Registry(database, hearing),
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
