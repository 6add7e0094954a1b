"""Errors as RFC 9457 problems: one table from the domain's errors to status and type."""

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import sqlalchemy as sa
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Match

from meta import errors
from meta.callers import request_errors
from meta.mapping.errors import MappingError
from meta.store.failures import Failure, failure_of

log = logging.getLogger(__name__)

STATUS: dict[type[Exception], HTTPStatus] = {
    errors.WorkerNotFound: HTTPStatus.NOT_FOUND,
    errors.WorkerDiffers: HTTPStatus.CONFLICT,
    errors.WorkerInUse: HTTPStatus.CONFLICT,
    errors.TooMany: HTTPStatus.CONFLICT,
    errors.FragmentNotFound: HTTPStatus.NOT_FOUND,
    errors.FragmentExists: HTTPStatus.CONFLICT,
    errors.BadFragment: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.VersionNotFound: HTTPStatus.NOT_FOUND,
    errors.VersionNotCurrent: HTTPStatus.CONFLICT,
    errors.PlanNotFound: HTTPStatus.NOT_FOUND,
    errors.PlanExpired: HTTPStatus.CONFLICT,
    errors.StaleBase: HTTPStatus.CONFLICT,
    errors.RescaleInFlight: HTTPStatus.CONFLICT,
    errors.UnitsNotAlive: HTTPStatus.CONFLICT,
    errors.TooManyLost: HTTPStatus.CONFLICT,
    errors.RescaleNotFound: HTTPStatus.NOT_FOUND,
    errors.NotInFlight: HTTPStatus.CONFLICT,
    errors.PlanLost: HTTPStatus.CONFLICT,
    errors.AlreadyAccepted: HTTPStatus.CONFLICT,
    errors.AlreadyAppliedOtherwise: HTTPStatus.CONFLICT,
    errors.NothingToRollBack: HTTPStatus.CONFLICT,
    errors.NotMoving: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.DatabaseBehind: HTTPStatus.CONFLICT,
    errors.FragmentPublishedElsewhere: HTTPStatus.CONFLICT,
    errors.DigestConflict: HTTPStatus.CONFLICT,
    errors.UnitTaken: HTTPStatus.CONFLICT,
    errors.CannotAdopt: HTTPStatus.CONFLICT,
    request_errors.BadCursor: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.BadGoal: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.UnitsNotLabelled: HTTPStatus.CONFLICT,
    errors.NoLoads: HTTPStatus.CONFLICT,
    errors.BadLoads: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.BadKey: HTTPStatus.UNPROCESSABLE_ENTITY,
    errors.PreconditionFailed: HTTPStatus.PRECONDITION_FAILED,
    request_errors.Unauthenticated: HTTPStatus.UNAUTHORIZED,
    request_errors.Forbidden: HTTPStatus.FORBIDDEN,
    request_errors.PageWithoutToken: HTTPStatus.FORBIDDEN,
    request_errors.BadToken: HTTPStatus.UNPROCESSABLE_ENTITY,
    request_errors.TokenNotFound: HTTPStatus.NOT_FOUND,
    request_errors.TooManyTokens: HTTPStatus.CONFLICT,
    request_errors.BadIdempotencyKey: HTTPStatus.UNPROCESSABLE_ENTITY,
    request_errors.IdempotencyKeyReused: HTTPStatus.UNPROCESSABLE_ENTITY,
    request_errors.IdempotencyKeyInUse: HTTPStatus.CONFLICT,
    request_errors.TooManyIdempotencyKeys: HTTPStatus.TOO_MANY_REQUESTS,
    request_errors.BodyTooLarge: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
    request_errors.BodyTooSlow: HTTPStatus.REQUEST_TIMEOUT,
    request_errors.TooManyStreams: HTTPStatus.SERVICE_UNAVAILABLE,
}

FAILURE_STATUS = {
    Failure.UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
    Failure.BUSY: HTTPStatus.SERVICE_UNAVAILABLE,
    Failure.FULL: HTTPStatus.INSUFFICIENT_STORAGE,
}

MEDIA_TYPE = "application/problem+json"
# A body may have 300,000 things wrong with it, and nobody reads beyond the first few.
FINDINGS_SHOWN = 20


def problem(
    status: HTTPStatus, kind: str, detail: str, fields: Mapping[str, Any] | None = None
) -> JSONResponse:
    """`type` is a relative reference, stable for programs; `detail` is for people."""
    body = {
        "type": f"/problems/{kind}",
        "title": kind.replace("-", " "),
        "status": status.value,
        "detail": detail,
    }
    return JSONResponse({**(fields or {}), **body}, status_code=status, media_type=MEDIA_TYPE)


def kind_of(error: type[Exception]) -> str:
    """`StaleBase` -> `stale-base`."""
    letters = (f"-{letter.lower()}" if letter.isupper() else letter for letter in error.__name__)
    return "".join(letters).lstrip("-")


def install(app: FastAPI) -> None:
    app.add_exception_handler(errors.MetaError, _meta_error)
    app.add_exception_handler(MappingError, _mapping_error)
    app.add_exception_handler(sa.exc.SQLAlchemyError, _database_failed)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Exception, _our_mistake)


def refusal(error: errors.MetaError | sa.exc.SQLAlchemyError) -> JSONResponse:
    """For what is refused before it comes to a route."""
    if isinstance(error, errors.MetaError):
        answer = problem(STATUS[type(error)], kind_of(type(error)), error.detail, vars(error))
        if isinstance(error, request_errors.TooManyStreams):
            answer.headers["Retry-After"] = str(error.retry_after_s)
        return answer
    failure = failure_of(error)
    if failure is None:
        raise error
    # What the database said of itself (hosts, users, folders) is for the log.
    log.warning("a request failed, the database is %s: %s", failure, getattr(error, "orig", error))
    return problem(FAILURE_STATUS[failure], f"database-{failure}", failure.advice)


def _meta_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.MetaError)
    return refusal(error)


def _mapping_error(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, MappingError)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, error.name, str(error), vars(error))


def _database_failed(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, sa.exc.SQLAlchemyError)
    return refusal(error)


def _invalid_request(_request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    found = [_finding(entry) for entry in error.errors()[:FINDINGS_SHOWN]]
    detail = "; ".join(f"{entry['field']}: {entry['reason']}" for entry in found)
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-request", detail, {"errors": found})


def _finding(entry: Mapping[str, Any]) -> dict[str, str]:
    if entry["type"] == "json_invalid":
        return {"field": "the request", "reason": f"it is no JSON, from character {entry['loc'][-1]} on"}
    # "<...>" is which form of several it was read as.
    steps = (str(step) for step in entry["loc"] if step not in ("body", "path", "query"))
    path = ".".join(step for step in steps if not step.startswith("<"))
    return {"field": path or "the request", "reason": entry["msg"].removeprefix("Value error, ")}


def _http_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    status = HTTPStatus(error.status_code)
    detail = f"{request.method} {request.url.path}: {error.detail}; the API is described at /openapi.json"
    answer = problem(status, status.phrase.lower().replace(" ", "-"), detail)
    answer.headers.update(error.headers or {})
    if status is HTTPStatus.METHOD_NOT_ALLOWED:
        answer.headers["Allow"] = ", ".join(_allowed(request))
    return answer


def _allowed(request: Request) -> list[str]:
    """Of all routes of the path: each has one method, and Starlette names that of the first one alone."""
    return [
        method
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        if any(
            route.matches({**request.scope, "method": method})[0] is Match.FULL
            for route in request.app.routes
        )
    ]


def _our_mistake(request: Request, _error: Exception) -> JSONResponse:
    detail = (
        f"{request.method} {request.url.path} failed; the service's log has the traceback. Please report it"
    )
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal-error", detail)
