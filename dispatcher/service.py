"""The service as a subscription needs it, over HTTP."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import stamina

from dispatcher.access import Access
from dispatcher.errors import ServiceRefused, ServiceUnreachable
from dispatcher.ledger import Coordination
from meta.mapping.publication import Current, MappingVersion, Phase, decode_body

# For each call to etcd and to the service.
TIMEOUT_MS = 2000

# A kept connection died with an earlier process of the service. Every call is idempotent, so it is made once more; a
# service that is away is asked again by the caller's next round.
_DIED_IN_USE = (httpx.RemoteProtocolError, httpx.ReadError, httpx.WriteError)


def open_http(url: str, access: Access, *, timeout_ms: int) -> httpx.Client:
    # No proxy out of the environment: it has no business between a job and its control plane.
    return httpx.Client(
        base_url=url,
        timeout=timeout_ms / 1000,
        trust_env=False,
        headers=access.headers,
        verify=access.trust,
    )


@dataclass(frozen=True, slots=True)
class Registration:
    """The answer to a beat. `current_version` is the fragment's newest; None where the service does not say."""

    expires_in_ms: int
    current_version: int | None


class Service:
    """One fragment at one service, whose URL is `url`; safe to use from several threads.

    Every method raises `ServiceUnreachable`, at most about the client's timeout later, or `ServiceRefused`.
    """

    def __init__(self, http: httpx.Client, url: str, fragment: str) -> None:
        self._http = http
        self._url = url
        self._fragment = f"/v1/fragments/{quote(fragment, safe='')}"

    def coordination(self) -> Coordination:
        match self._json(self._call("GET", "/v1/coordination")):
            case {"etcd": {"endpoints": [*endpoints], "root": str(root), **more}} if endpoints:
                wants_tls, wants_login = more.get("tls") is True, more.get("auth") is True
                coordination = Coordination(tuple(map(str, endpoints)), root, wants_tls, wants_login)
            case other:
                raise self._strange(other)
        # gRPC fails on half a surrogate, which JSON can hold.
        if not "".join((*coordination.endpoints, root)).isascii():
            raise self._strange(coordination.endpoints)
        return coordination

    def current(self) -> bytes:
        return self._call("GET", f"{self._fragment}/current").content

    def body(self, version: int) -> bytes:
        return self._call("GET", f"{self._fragment}/versions/{version}/body").content

    def beat(self, subscriber: str, name: str, role: str, acknowledged: int | None) -> Registration:
        """Registers, shows life and acknowledges."""
        document = {"name": name, "role": role, "acknowledged_version": acknowledged}
        match self._json(self._call("PUT", f"{self._fragment}/subscribers/{subscriber}", document)):
            case {"expires_in_ms": int(expires_in_ms), **more} if expires_in_ms > 0:
                newest = more.get("current_version")
                return Registration(expires_in_ms, newest if isinstance(newest, int) else None)
            case other:
                raise self._strange(other)

    def deregister(self, subscriber: str) -> None:
        self._call("DELETE", f"{self._fragment}/subscribers/{subscriber}")

    def report_loads(self, reporter: str, loads: Sequence[float], observed_for_ms: int) -> None:
        document = {"loads": loads, "observed_for_ms": observed_for_ms}
        self._call("PUT", f"{self._fragment}/loads/{reporter}", document)

    def accept(self, version: int) -> Phase:
        """Asks that `version` may be used; from then on it cannot be aborted. Returns its phase, past `rescaling`."""
        match self._json(self._call("POST", f"{self._fragment}/versions/{version}/acceptance")):
            case {"version": int(named), "phase": "accepted" | "settled" as phase} if named == version:
                return Phase(phase)
            case other:
                raise self._strange(other)

    def _call(self, method: str, path: str, document: Mapping[str, object] | None = None) -> httpx.Response:
        try:
            response = self._request(method, path, json=document)
        except httpx.RequestError as error:
            raise ServiceUnreachable(self._url, _reason(error)) from error
        except RuntimeError as error:
            # httpx's word for a client that another thread closed.
            if not self._http.is_closed:
                raise
            raise ServiceUnreachable(self._url, "this client is closed") from error
        if response.is_success:
            return response
        if response.is_client_error:
            raise self._refused(response)
        raise ServiceUnreachable(self._url, f"status {response.status_code} to {method} {path}")

    @stamina.retry(on=_DIED_IN_USE, attempts=2, timeout=None, wait_initial=0.02, wait_jitter=0.02)
    def _request(self, method: str, path: str, json: Mapping[str, object] | None) -> httpx.Response:
        return self._http.request(method, path, json=json)

    def _refused(self, response: httpx.Response) -> ServiceRefused:
        try:
            problem = response.json()
        except ValueError:
            problem = None
        fields = problem if isinstance(problem, dict) else {}
        return ServiceRefused(
            self._url,
            response.status_code,
            str(fields.get("type", "about:blank")).rpartition("/")[2],
            str(fields.get("detail", fields.get("title", response.reason_phrase))),
        )

    def _json(self, response: httpx.Response) -> Any:
        try:
            return response.json()
        except ValueError as error:
            raise self._strange(response.text) from error

    def _strange(self, answer: object) -> ServiceUnreachable:
        return ServiceUnreachable(
            self._url, f"an answer that is not the service's: {json.dumps(answer)[:200]}"
        )


def _reason(error: httpx.RequestError) -> str:
    said = f"{type(error).__name__} {error}".strip()
    untrusted = "CERTIFICATE_VERIFY_FAILED" in said
    return f"{said} (VNODEMAP_CA_FILE, or `ca_file`, says whose certificate to trust)" if untrusted else said


def newest_mapping(url: str, fragment: str, access: Access | None = None) -> MappingVersion:
    """The newest version that the service has, accepted or not: for a scan, to which all are good.

    Asked once; a `Subscription` follows it. Raises as `Service` does. `access` is the environment's by default.
    """
    url = url.rstrip("/")
    access = access or Access.given(None, None, None, None)
    with open_http(url, access, timeout_ms=TIMEOUT_MS) as http:
        service = Service(http, url, fragment)
        return decode_body(service.body(Current.decode(service.current()).version))
