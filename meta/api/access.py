"""Who calls, and the role that each route wants.

Every route takes one of `Reader`, `Operator` and `Admin`, or its path is in `OPEN`.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any

import sqlalchemy as sa
from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from meta.api.problems import refusal
from meta.callers.access import LOCAL, AccessRole, Caller, is_loopback, require
from meta.callers.doorkeeper import Doorkeeper
from meta.callers.request_errors import PageWithoutToken, Unauthenticated
from meta.errors import MetaError

# For load balancers and supervisors, which have no token: they learn nothing that is anybody's.
OPEN = frozenset({"/v1/health", "/v1/ready", "/openapi.json"})

_PORT = re.compile(r":\d*$", re.ASCII)

# Only described here, for /openapi.json.
_bearer = HTTPBearer(auto_error=False, description="A token of `vnodectl token create`: vnm_...")


class Authenticated:
    """Gives the caller as `request.state.caller`, or refuses the request before its body is read."""

    def __init__(self, app: ASGIApp, doorkeeper: Doorkeeper) -> None:
        self._app = app
        self._doorkeeper = doorkeeper

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            state = scope.setdefault("state", {})
            try:
                state["caller"] = await self._caller(Headers(scope=scope), state.get("request_id", "-"))
            except (MetaError, sa.exc.SQLAlchemyError) as error:
                answer = refusal(error)
                if isinstance(error, Unauthenticated):
                    answer.headers["www-authenticate"] = "Bearer"
                await answer(scope, receive, send)
                return
        await self._app(scope, receive, send)

    async def _caller(self, headers: Headers, request_id: str) -> Caller:
        scheme, _, shown = headers.get("authorization", "").partition(" ")
        token = shown.strip() if scheme.lower() == "bearer" else None
        caller = await self._doorkeeper.caller(token, request_id)
        if caller.name == LOCAL:
            _refuse_pages(headers)
        return caller


def _refuse_pages(headers: Headers) -> None:
    # A browser sends it for whatever page it shows, wherever that is from.
    if "origin" in headers:
        raise PageWithoutToken(headers["origin"])
    # A name of elsewhere that means this machine is how a page gets around that (DNS rebinding).
    host = headers.get("host", "localhost")
    if not is_loopback(_PORT.sub("", host).strip("[]")):
        raise PageWithoutToken(host)


@dataclass(frozen=True, slots=True)
class Needs:
    """The caller, if its role is enough. Raises `Forbidden`."""

    role: AccessRole

    async def __call__(self, request: Request, _described: Annotated[Any, Security(_bearer)]) -> Caller:
        return require(caller_of(request), self.role)


def caller_of(request: Request) -> Caller:
    found = request.state.caller
    assert isinstance(found, Caller)
    return found


Reader = Annotated[Caller, Depends(Needs(AccessRole.READER))]
Operator = Annotated[Caller, Depends(Needs(AccessRole.OPERATOR))]
Admin = Annotated[Caller, Depends(Needs(AccessRole.ADMIN))]
