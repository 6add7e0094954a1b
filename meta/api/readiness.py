"""Readiness over HTTP: for load balancers, so without a token."""

from http import HTTPStatus

from fastapi import APIRouter, Response

from meta.api.control import Controlled
from meta.api.problems import problem
from meta.api.wire.readiness import ReadyOut
from meta.reconciliation.readiness import Status

router = APIRouter(tags=["health"])


@router.get("/v1/ready", response_model=ReadyOut)
async def ready(control: Controlled) -> ReadyOut | Response:
    """Whether this replica can serve, and how etcd and the database stand to one another."""
    standing = await control.readiness.now()
    out = ReadyOut.of(standing)
    if standing.status is Status.UNAVAILABLE:
        return problem(
            HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", standing.detail, out.model_dump(mode="json")
        )
    return out
