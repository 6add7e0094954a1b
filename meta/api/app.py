"""The FastAPI application over a `Control`."""

from contextlib import AbstractAsyncContextManager
from importlib.metadata import version
from typing import Any, Protocol

from fastapi import FastAPI

from meta.api import fragments, problems, rescales, subscribers, workers
from meta.api.control import Control, Controlled
from meta.api.wire.service import CoordinationOut, EtcdOut, HealthOut, ProblemOut

PROBLEM: dict[str, Any] = {"model": ProblemOut, "description": "Refused; the detail says what to do"}


class Lifespan(Protocol):
    def __call__(self, app: FastAPI, /) -> AbstractAsyncContextManager[None]: ...


def create_app(control: Control, lifespan: Lifespan | None = None) -> FastAPI:
    # No /docs: its page would load scripts from the internet, which a closed network does not have.
    app = FastAPI(
        title="vnodemap",
        version=version("vnodemap"),
        lifespan=lifespan,
        docs_url=None,
        redoc_url=None,
        responses={"4XX": PROBLEM, "5XX": PROBLEM, 422: PROBLEM},
    )
    app.state.control = control
    problems.install(app)
    for noun in (workers, fragments, rescales, subscribers):
        app.include_router(noun.router)
    app.add_api_route("/v1/coordination", coordination, tags=["coordination"])
    app.add_api_route("/v1/health", health, tags=["health"])
    return app


def coordination(control: Controlled) -> CoordinationOut:
    """Where dispatchers follow the mapping."""
    endpoints = list(control.etcd_endpoints)
    return CoordinationOut(etcd=EtcdOut(endpoints=endpoints, root=control.etcd_root))


def health() -> HealthOut:
    return HealthOut()
