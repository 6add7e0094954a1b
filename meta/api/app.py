"""The FastAPI application over a `Control`."""

from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.types import Receive, Scope, Send

from meta.api import (
    audit,
    events,
    fragments,
    loads,
    mappings,
    metrics,
    plans,
    problems,
    readiness,
    rescales,
    subscribers,
    tokens,
    workers,
)
from meta.api.access import Authenticated, Reader
from meta.api.control import Control, Controlled
from meta.api.description import described
from meta.api.idempotency import Idempotent
from meta.api.limits import Limited, Unsniffed
from meta.api.requests import Requests
from meta.api.wire.service import CoordinationOut, EtcdOut, HealthOut, ProblemOut

PROBLEM: dict[str, Any] = {"model": ProblemOut, "description": "Refused; the detail says what to do"}


class Lifespan(Protocol):
    def __call__(self, app: FastAPI, /) -> AbstractAsyncContextManager[None]: ...


class Application(FastAPI):
    """Whatever answers, also where all else failed, answers with the request's id: see `Requests`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # No middleware, since FastAPI's own stand outside of those.
        outermost = Requests(super().__call__, self.state.control.observation.metrics)
        await outermost(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        return described(super().openapi())


def create_app(control: Control, lifespan: Lifespan | None = None) -> FastAPI:
    # No /docs: its page would load scripts from the internet, which a closed network does not have.
    app = Application(
        title="vnodemap",
        version=version("vnodemap"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        # The address would be the Host header's, and http:// behind a proxy that has TLS.
        redirect_slashes=False,
        responses={"4XX": PROBLEM, "5XX": PROBLEM, 422: PROBLEM},
    )
    app.state.control = control
    problems.install(app)
    # The last is the outermost: nobody's body is read before it is known whose it is.
    app.add_middleware(Idempotent, idempotency=control.idempotency)
    app.add_middleware(Limited)
    app.add_middleware(Authenticated, doorkeeper=control.doorkeeper)
    app.add_middleware(Unsniffed)
    for noun in (
        workers,
        fragments,
        mappings,
        plans,
        loads,
        events,
        rescales,
        subscribers,
        tokens,
        audit,
        metrics,
        readiness,
    ):
        app.include_router(noun.router)
    app.add_api_route("/v1/coordination", coordination, tags=["coordination"])
    app.add_api_route("/v1/health", health, tags=["health"])
    return app


# Not in a thread, these two: they wait for nothing, and answer where every thread waits for the database.


async def coordination(control: Controlled, _caller: Reader) -> CoordinationOut:
    """Where dispatchers follow the mapping."""
    endpoints = list(control.etcd_endpoints)
    return CoordinationOut(
        etcd=EtcdOut(
            endpoints=endpoints, root=control.etcd_root, tls=control.etcd_tls, auth=control.etcd_auth
        )
    )


async def health() -> HealthOut:
    return HealthOut()
