"""The service's HTTP API, as the commands use it."""

import os
import ssl
import uuid
from collections.abc import Iterator, Mapping
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote

import httpx
import stamina

TIMEOUT_S = 30.0
# A host that nobody is at does not say so.
CONNECT_S_MAX = 5.0
PAGE_ITEMS = 1000

# Nobody can do it now, and somebody may in a moment: the service itself, or a proxy on its behalf.
BUSY = (httpx.codes.BAD_GATEWAY, httpx.codes.SERVICE_UNAVAILABLE)

REFUSED = 2
NOT_SETTLED = 1

Query = Mapping[str, str | int | bool | None]


class ServiceError(Exception):
    """The service said no, or was not there. `str()` of it is for people and says what to do.

    `problem` is the same for programs, as RFC 9457 has it.
    """

    exit_code = REFUSED

    def __init__(self, detail: str, kind: str = "refused", problem: Mapping[str, Any] | None = None) -> None:
        super().__init__(detail)
        title = kind.replace("-", " ")
        self.problem = problem or {"type": f"/problems/{kind}", "title": title, "detail": detail}


class Away(ServiceError):
    """Nobody answers, or nobody that can do it now: it may work in a moment."""


class Interrupted(Away):
    """The connection broke while it was in use: nobody knows whether the service has done it."""


class Unavailable(Away):
    """The service answered that it cannot, for now."""


def path(*steps: str | int) -> str:
    """`/v1/...`; whatever an operator types as a name stays one step of it."""
    # Dots too: httpx resolves `..` before it sends.
    return "/v1/" + "/".join(
        quote(str(step), safe="", errors="surrogateescape").replace(".", "%2E") for step in steps
    )


class Service:
    """One service by its URL. Answers are JSON; a problem is raised as `ServiceError` with its detail.

    What broke on the way, or met a service that is busy, is asked once more; a change under the same Idempotency-Key,
    so that it is done once.
    """

    def __init__(self, url: str, *, timeout_s: float = TIMEOUT_S) -> None:
        self.url = url
        self.timeout_s = timeout_s
        try:
            scheme = httpx.URL(url).scheme
            if scheme not in ("http", "https"):
                raise ServiceError(f"{url} is no URL of a service; write http://HOST:PORT", "bad-url")
            # No proxy out of the environment: it has no business between an operator and the control plane.
            self._http = httpx.Client(
                base_url=url,
                timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_S_MAX)),
                trust_env=False,
                headers=_shown_token(),
                verify=_trusted(scheme, os.environ.get("VNODEMAP_CA_FILE")),
            )
        except httpx.InvalidURL as error:
            raise ServiceError(f"{url} is no URL ({error}); write http://HOST:PORT", "bad-url") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def get(self, where: str, query: Query | None = None) -> Any:
        return self._call("GET", where, query=query)

    def items(self, where: str, query: Query | None = None, *, items_max: int | None = None) -> list[Any]:
        """All of a list, or its first `items_max`, however many pages that takes."""
        found: list[Any] = []
        for page in self._pages(where, query or {}, items_max or PAGE_ITEMS):
            found += page
            if items_max is not None and len(found) >= items_max:
                return found[:items_max]
        return found

    def post(self, where: str, body: Mapping[str, Any] | None = None, query: Query | None = None) -> Any:
        return self._call("POST", where, body, query)

    def put(self, where: str, body: Mapping[str, Any]) -> Any:
        return self._call("PUT", where, body)

    def patch(self, where: str, body: Mapping[str, Any]) -> Any:
        return self._call("PATCH", where, body)

    def delete(self, where: str) -> Any:
        return self._call("DELETE", where)

    def readiness(self) -> Any:
        """What the service says of itself, also where that is that it is not ready."""
        response = self._sent(self._http.build_request("GET", "/v1/ready"))
        found = _json(response)
        if isinstance(found, dict) and "reconciled_ms_ago" in found:
            return found
        self._answer(response)
        raise ServiceError(*_not_a_service(response))

    def _pages(self, where: str, query: Query, limit: int) -> Iterator[list[Any]]:
        cursor = None
        while True:
            answer = self.get(where, {**query, "limit": min(limit, PAGE_ITEMS), "cursor": cursor})
            if not isinstance(answer.get("items"), list):
                raise ServiceError(
                    f"{self.url}{where} answered no list; is that a vnodemap service?", "not-a-service"
                )
            yield answer["items"]
            cursor = answer.get("next_cursor")
            if cursor is None:
                return

    def _call(
        self, method: str, where: str, body: Mapping[str, Any] | None = None, query: Query | None = None
    ) -> Any:
        headers = {} if method == "GET" else {"Idempotency-Key": str(uuid.uuid4())}
        given = {name: value for name, value in (query or {}).items() if value is not None}
        try:
            request = self._http.build_request(
                method, where, json=body, params=given or None, headers=headers
            )
        except ValueError as error:
            # No number (NaN, infinity), or bytes of a command line that are no text.
            raise ServiceError(
                f"what was typed cannot be sent: {error}; correct it", "bad-request"
            ) from error
        return self._answered(request)

    @stamina.retry(on=(Interrupted, Unavailable), attempts=2, timeout=None, wait_initial=0.3, wait_jitter=0.2)
    def _answered(self, request: httpx.Request) -> Any:
        return self._answer(self._sent(request))

    def _sent(self, request: httpx.Request) -> httpx.Response:
        try:
            return self._http.send(request)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise self._not_connected(error) from error
        except httpx.TimeoutException as error:
            raise Away(
                f"the service at {self.url} did not answer within {self.timeout_s:g} s; see its log",
                "timeout",
            ) from error
        except httpx.TransportError as error:
            raise Interrupted(
                f"the connection to {self.url} broke ({error}); see whether the service runs, and whether it is "
                "https:// that it speaks",
                "interrupted",
            ) from error

    def _not_connected(self, error: httpx.TransportError) -> ServiceError:
        if "SSL" in str(error):
            return ServiceError(
                f"no TLS with {self.url} ({error}); give the certificate that signed the service's with --ca-file or "
                "in VNODEMAP_CA_FILE, or write http:// where it has none",
                "tls-failed",
            )
        return Away(
            f"no vnodemap service answers at {self.url} ({error}); start one with `vnodectl serve`, "
            "or say where it is with --server or VNODEMAP_SERVER",
            "unreachable",
        )

    def _answer(self, response: httpx.Response) -> Any:
        if response.status_code == httpx.codes.NO_CONTENT:
            return None
        found = _json(response)
        if response.is_success and isinstance(found, dict):
            return found
        error = Unavailable if response.status_code in BUSY else ServiceError
        if response.is_error and isinstance(found, dict) and "detail" in found:
            raise error(str(found["detail"]), problem=found)
        raise error(*_not_a_service(response))


def _not_a_service(response: httpx.Response) -> tuple[str, str]:
    """The detail and its kind."""
    said = f"{response.request.url} answered {response.status_code}"
    if response.has_redirect_location:
        return f"{said}: it is at {response.headers['location']}; name that as --server", "redirected"
    media_type = _media_type(response) or "nothing"
    return f"{said} with {media_type}; is that a vnodemap service, or a proxy before one?", "not-a-service"


def _json(response: httpx.Response) -> Any:
    """The answer, where it is one of the service's; else None."""
    if _media_type(response) not in ("application/json", "application/problem+json"):
        return None
    try:
        return response.json()
    except ValueError:
        return None


def _shown_token() -> dict[str, str]:
    """Out of the environment: an argument is for everybody on the machine to see."""
    token = os.environ.get("VNODEMAP_TOKEN", "").strip()
    if not (token.isascii() and (token.isprintable())):
        raise ServiceError(
            "VNODEMAP_TOKEN holds no token; what `vnodectl token create` printed begins with vnm_",
            "bad-token",
        )
    return {"Authorization": f"Bearer {token}"} if token else {}


def _trusted(scheme: str, ca_file: str | None) -> ssl.SSLContext | bool:
    if not ca_file:
        # Plain HTTP has no use for the usual certificates, which take longer to load than a command takes.
        return scheme == "https"
    try:
        return ssl.create_default_context(cafile=ca_file)
    except ssl.SSLError as error:
        raise ServiceError(
            f"{ca_file} holds no certificate in PEM form; name another --ca-file", "bad-ca-file"
        ) from error
    except OSError as error:
        raise ServiceError(
            f"{ca_file} cannot be read ({error.strerror}); name another --ca-file", "bad-ca-file"
        ) from error


def _media_type(response: httpx.Response) -> str:
    return str(response.headers.get("content-type", "")).partition(";")[0].strip().lower()
