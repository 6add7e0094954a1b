"""The service's HTTP API, as the commands use it."""

from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx

TIMEOUT_S = 30.0


class ServiceError(Exception):
    """The service said no, or was not there. `str()` of it is for people and says what to do."""


def path(*steps: str | int) -> str:
    """`/v1/...`; whatever an operator types as a name stays one step of it."""
    # Dots too: httpx resolves `..` before it sends.
    return "/v1/" + "/".join(quote(str(step), safe="").replace(".", "%2E") for step in steps)


class Service:
    """One service by its URL. Answers are JSON; a problem is raised as `ServiceError` with its detail."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            if httpx.URL(url).scheme not in ("http", "https"):
                raise ServiceError(f"{url} is no URL of a service; write http://HOST:PORT")
            # No proxy out of the environment: it has no business between an operator and the control plane.
            self._http = httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False)
        except httpx.InvalidURL as error:
            raise ServiceError(f"{url} is no URL ({error}); write http://HOST:PORT") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, where: str) -> Any:
        return self._call("GET", where)

    def post(self, where: str, body: Mapping[str, Any]) -> Any:
        return self._call("POST", where, body)

    def put(self, where: str, body: Mapping[str, Any]) -> Any:
        return self._call("PUT", where, body)

    def _call(self, method: str, where: str, body: Mapping[str, Any] | None = None) -> Any:
        try:
            response = self._http.request(method, where, json=body)
        except httpx.TimeoutException as error:
            raise ServiceError(
                f"the service at {self.url} did not answer within {TIMEOUT_S:g} s; see its log"
            ) from error
        except httpx.TransportError as error:
            raise ServiceError(
                f"no vnodemap service answers at {self.url} ({error}); start one with `vnodectl serve`, "
                "or say where it is with --server or VNODEMAP_SERVER"
            ) from error
        media_type = response.headers.get("content-type")
        if response.is_success and media_type == "application/json":
            return response.json()
        if media_type == "application/problem+json":
            raise ServiceError(str(response.json()["detail"]))
        raise ServiceError(
            f"{response.request.url} answered {response.status_code}; is that a vnodemap service?"
        )
