"""Channels to the endpoints of one cluster, the token of one user, and what a failed call means.

Measured: without `grpc.http2.ping_timeout_ms` a stopped server (a half-open connection) is never noticed,
`keepalive_timeout_ms` notwithstanding; etcd answers pings less than 5 s apart with a GOAWAY. The token
travels as plain metadata, because gRPC sends call credentials over TLS only.
"""

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import grpc

from meta.etcd.errors import (
    EtcdError,
    PermissionDenied,
    Rejected,
    Unauthenticated,
    Unavailable,
)
from meta.etcd.messages import AUTHENTICATE, RANGE, Rpc, message, parser

_RECEIVE_BYTES_MAX = 64 << 20
_CHANNEL_OPTIONS = (
    # A stopped server is noticed after 10 s at most.
    ("grpc.keepalive_time_ms", 6_000),
    ("grpc.keepalive_timeout_ms", 4_000),
    ("grpc.http2.ping_timeout_ms", 4_000),
    ("grpc.http2.max_pings_without_data", 0),
    # The minimum is also the time that one attempt to connect may take.
    ("grpc.min_reconnect_backoff_ms", 4_000),
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 1_000),
    # gRPC's own limit is 4 MiB, and a snapshot of a prefix may be larger.
    ("grpc.max_receive_message_length", _RECEIVE_BYTES_MAX),
    # The pool of the whole process outlives a fork: a child's new channel would get its parent's connection.
    ("grpc.use_local_subchannel_pool", 1),
    # The store is never behind the proxy that the environment names for the web.
    ("grpc.enable_http_proxy", 0),
)
# INTERNAL and UNKNOWN are gRPC's words for a stream that broke in the middle.
_NO_ANSWER = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.UNKNOWN,
)
# What etcd says, with INVALID_ARGUMENT or in a cancelled watch, to a login or token that it does not accept
# (its rpctypes/error.go).
_BAD_LOGIN = (
    "authentication failed",
    "invalid auth token",
    "revision of auth store is old",
    "user name is empty",
)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files: whom to trust (None: the system's authorities) and, for mutual TLS, who we are.

    Raises `ValueError` for a certificate without its key, and for a file that cannot be read.
    """

    ca_file: Path | None = None
    certificate_file: Path | None = None
    key_file: Path | None = None

    def __post_init__(self) -> None:
        # gRPC ends the whole process over it.
        if (self.certificate_file is None) != (self.key_file is None):
            raise ValueError("a certificate for etcd and its key go together; name both, or neither")
        try:
            self.pem()
        except OSError as error:
            raise ValueError(
                f"{error.filename} cannot be read ({error.strerror}); name another file"
            ) from error

    def pem(self) -> tuple[bytes | None, bytes | None, bytes | None]:
        """Authorities, key and certificate. Raises `OSError`."""
        files = (self.ca_file, self.key_file, self.certificate_file)
        authorities, key, certificate = (file.read_bytes() if file else None for file in files)
        return authorities, key, certificate


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user of etcd. Without TLS, password and token cross the network in the clear."""

    user: str
    password: str = field(repr=False)


def _target(endpoint: str, tls: Tls | None) -> str:
    """`host:port` of an endpoint, which may carry a scheme."""
    url = urlsplit(endpoint if "://" in endpoint else f"//{endpoint}")
    wanted = ("", "https") if tls else ("", "http")
    if url.scheme not in wanted or url.hostname is None or url.port is None or url.path.strip("/"):
        raise ValueError(
            f"{endpoint!r} is no endpoint {'with' if tls else 'without'} TLS: "
            f"write {'https' if tls else 'http'}://host:port, and pass `tls` for https only"
        )
    return url.netloc


class _Process:
    """What one process has open: channels do not survive a fork, nor does a lock that a thread held."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.channels: dict[str, Any] = {}
        self.token: str | None = None


class Connection:
    """Thread-safe. Channels open at the first call, in each process anew."""

    def __init__(
        self, endpoints: Sequence[str], *, tls: Tls | None, credentials: Credentials | None, timeout_ms: int
    ) -> None:
        if not endpoints:
            raise ValueError("no endpoint: name at least one, such as http://127.0.0.1:2379")
        self._targets = tuple(_target(endpoint, tls) for endpoint in endpoints)
        self._tls = tls
        self._credentials = credentials
        self._timeout_s = timeout_ms / 1000
        self._preferred = 0
        self._processes: dict[int, _Process] = {}
        self._closed = False

    @property
    def target(self) -> str:
        """The endpoint to which the next call goes."""
        return self._targets[self._preferred]

    def close(self) -> None:
        """Close what this process has open. Calls under way end as Unavailable."""
        self._closed = True
        process = self._process()
        with process.lock:
            for channel in process.channels.values():
                channel.close()
            process.channels.clear()

    def read(self, rpc: Rpc, request: Any, action: str) -> Any:
        """The answer of the first endpoint that gives one; each is asked once."""
        for _ in self._targets[1:]:
            with suppress(Unavailable):
                return self.write(rpc, request, action)
        return self.write(rpc, request, action)

    def write(self, rpc: Rpc, request: Any, action: str) -> Any:
        """The answer of one endpoint. If it gives none, the next call goes to the next endpoint."""

        def attempt(token: str | None) -> Any:
            return self._unary(rpc, request, action, token)

        return self._renewing(attempt)

    def exchange(self, rpc: Rpc, request: Any, action: str) -> Any:
        """The first answer of a two-way stream, which is then dropped."""

        def attempt(token: str | None) -> Any:
            target = self.target
            call = self.stream(rpc, iter([request]), target, token, timeout_s=self._timeout_s)
            try:
                return next(call)
            except grpc.RpcError as error:
                raise self.failure(action, target, error) from error
            finally:
                call.cancel()

        return self._renewing(attempt)

    def stream(
        self,
        rpc: Rpc,
        requests: Iterator[Any],
        target: str,
        token: str | None,
        timeout_s: float | None = None,
    ) -> Any:
        """A two-way stream, until it is cancelled. `failure` says what its gRPC errors mean."""
        call = self._channel(target).stream_stream(
            rpc.path, request_serializer=_serialized, response_deserializer=parser(rpc.response)
        )
        # Without a leader a member has nothing new to tell, so the stream shall end.
        return call(requests, timeout=timeout_s, metadata=(*_metadata(token), ("hasleader", "true")))

    def wait_ready(self, timeout_ms: int) -> bool:
        """Whether the endpoint could be connected to and answered a read in this time."""
        request = message("RangeRequest", key=b"\0")
        try:
            self._unary(RANGE, request, "the first read", None, ready_s=timeout_ms / 1000)
        except Unavailable:
            return False
        return True

    def token(self, *, instead_of: str | None = None) -> str | None:
        """The user's token, a new one if there is none yet or just the one that etcd refused."""
        if self._credentials is None:
            return None
        process = self._process()
        if process.token is None or process.token == instead_of:
            login = message(
                "AuthenticateRequest", name=self._credentials.user, password=self._credentials.password
            )
            process.token = str(self._unary(AUTHENTICATE, login, "login", None).token)
        return process.token

    def failure(self, action: str, target: str, error: Any) -> EtcdError:
        """What a gRPC error means in our words."""
        code, reason = error.code(), error.details() or "no details"
        if code in _NO_ANSWER:
            if target == self.target:
                self._preferred = (self._preferred + 1) % len(self._targets)
            return Unavailable(target, f"{code.name}: {reason}")
        return self.refusal(action, code.name, reason)

    def refusal(self, action: str, code: str, reason: str) -> EtcdError:
        """What etcd's own words mean."""
        user = self._credentials.user if self._credentials else None
        if code == "UNAUTHENTICATED" or any(words in reason for words in _BAD_LOGIN):
            return Unauthenticated(user, reason)
        if "permission denied" in reason:
            return PermissionDenied(action, user, reason)
        return Rejected(action, code, reason)

    def _renewing(self, attempt: Callable[[str | None], Any]) -> Any:
        """Tokens end (after 300 s, or with a restart): the attempt, and once more with a new one."""
        token = self.token()
        try:
            return attempt(token)
        except Unauthenticated:
            if token is None:
                raise
        return attempt(self.token(instead_of=token))

    def _unary(
        self,
        rpc: Rpc,
        request: Any,
        action: str,
        token: str | None,
        ready_s: float | None = None,
    ) -> Any:
        target = self.target
        call = self._channel(target).unary_unary(
            rpc.path, request_serializer=_serialized, response_deserializer=parser(rpc.response)
        )
        timeout_s = ready_s or self._timeout_s
        try:
            return call(request, timeout=timeout_s, metadata=_metadata(token), wait_for_ready=bool(ready_s))
        except grpc.RpcError as error:
            raise self.failure(action, target, error) from error

    def _process(self) -> _Process:
        pid = os.getpid()
        return self._processes.get(pid) or self._processes.setdefault(pid, _Process())

    def _channel(self, target: str) -> Any:
        process = self._process()
        with process.lock:
            if self._closed:
                raise RuntimeError("this EtcdClient is closed")
            if target not in process.channels:
                process.channels[target] = self._open(target)
            return process.channels[target]

    def _open(self, target: str) -> Any:
        if self._tls is None:
            return grpc.insecure_channel(target, options=_CHANNEL_OPTIONS)
        trust = grpc.ssl_channel_credentials(*self._tls.pem())
        return grpc.secure_channel(target, trust, options=_CHANNEL_OPTIONS)


def _metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    return () if token is None else (("token", token),)


def _serialized(request: Any) -> bytes:
    return bytes(request.SerializeToString())
