"""Composes the service from its parts, and runs it until it is told to stop."""

import asyncio
import json
import logging
import os
import signal
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI
from stamina.instrumentation import get_on_retry_hooks, set_on_retry_hooks

from meta.api.app import Lifespan, create_app
from meta.api.control import Control
from meta.callers.access import is_loopback
from meta.changes import Changes
from meta.coordination.embedded import EmbeddedEtcd, EmbeddedEtcdError
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.mapping.publication import DEFAULT_ROOT
from meta.observability.logs import LogFormat, configure
from meta.observability.tracing import Tracing, tracing
from meta.observability.trouble import Troubles
from meta.reconciliation.retention import Kept
from meta.store.database import Database
from meta.store.failures import tell_failures
from meta.vnodectl.security import PLAIN, Security
from meta.vnodectl.session import ServeError, out
from meta.vnodectl.storage import embedded_url, make_folder, now_ms, opened
from meta.vnodectl.upkeep import BY_DEFAULT, Upkeep

log = logging.getLogger(__name__)

INTERVAL_S = 1.0
RETENTION_INTERVAL_S = 60.0
# Nobody waits for an etcd or a database that does not answer: what can be done without is done.
FIRST_COMPARISON_S = 10.0


def run(
    data_dir: Path,
    host: str,
    port: int,
    database_url: str | None,
    etcd: list[str] | None,
    upkeep: Upkeep = BY_DEFAULT,
    security: Security = PLAIN,
) -> None:
    """Serves until SIGINT or SIGTERM. Raises `ServeError` where it cannot start."""
    configure(LogFormat(upkeep.log_format))
    tls = security.tls()
    security.check_etcd(etcd)
    make_folder(data_dir)
    with (
        closing(_listen(host, port)) as listener,
        opened(database_url or embedded_url(data_dir)) as database,
        _exposed(host, database, safe=tls is not None or security.insecure_http),
        tracing(database.engine) as traces,
        _etcd(data_dir, etcd) as running,
        _client(running.endpoints, security) as client,
    ):
        shown_host = f"[{host}]" if ":" in host else host
        url = f"{'https' if tls else 'http'}://{shown_host}:{listener.getsockname()[1]}"
        control = replace(
            _control(database, client, running.endpoints, traces, upkeep),
            etcd_tls=security.etcd_tls() is not None,
            etcd_auth=security.etcd_credentials() is not None,
        )
        announced = partial(_announce, data_dir, url, running)
        failures: list[BaseException] = []
        app = create_app(control, _lifespan(control, running, announced, failures))
        traces.instrument(app)
        _serve(app, control.changes, listener, tls)
        if failures:
            # Who supervises it goes by the exit code.
            raise ServeError("the service ended since a part of it failed; its log says which, and why")


def _serve(app: FastAPI, changes: Changes, listener: socket.socket, tls: ssl.SSLContext | None) -> None:
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="on",
        ssl_context_factory=None if tls is None else lambda _config, _default: tls,
    )
    # uvicorn raises the signal again when it has shut down; the rest is to be closed too, as on Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        _Server(config, changes).run(sockets=[listener])


class _Server(uvicorn.Server):
    """Ends the event streams before it waits for all answers to end."""

    def __init__(self, config: uvicorn.Config, changes: Changes) -> None:
        super().__init__(config)
        self._changes = changes

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._changes.close()
        await super().shutdown(sockets)


@contextmanager
def _exposed(host: str, database: Database, *, safe: bool) -> Iterator[None]:
    """Listens for others only where nobody reads what is sent, and who sends it is known."""
    if is_loopback(host):
        yield
        return
    if not safe:
        raise ServeError(
            f"{host} is not a loopback address, and without TLS whoever is on the way could read the tokens and use "
            "them. Name a certificate with --tls-cert and --tls-key; or say --insecure-http, for a proxy on the same "
            "private network that has TLS"
        )
    with database.reading() as tx:
        if not tx.tokens.any_ever():
            raise ServeError(
                f"{host} is not a loopback address, and this service has no token yet, so anybody could change "
                "anything. Make one first: `vnodectl token create NAME --role admin --data-dir DIR` (or --database URL)"
            )
    yield


class _Etcd:
    """The etcd in use: endpoints of somebody else's, or ours, which is brought up again when it dies."""

    def __init__(self, endpoints: tuple[str, ...], embedded: EmbeddedEtcd | None = None) -> None:
        self.endpoints = endpoints
        self._embedded = embedded

    def keep_up(self) -> None:
        if self._embedded is not None:
            self._embedded.restart_if_dead()


@contextmanager
def _etcd(data_dir: Path, endpoints: list[str] | None) -> Iterator[_Etcd]:
    if endpoints:
        yield _Etcd(tuple(endpoints))
        return
    try:
        with _quietly():
            embedded = EmbeddedEtcd.start(data_dir / "etcd")
    except EmbeddedEtcdError as error:
        raise ServeError(str(error)) from error
    except OSError as error:
        raise ServeError(
            f"the embedded etcd cannot use {data_dir} ({error}); choose another --data-dir"
        ) from error
    try:
        yield _Etcd((embedded.endpoint,), embedded)
    finally:
        embedded.stop()


@contextmanager
def _quietly() -> Iterator[None]:
    """What is tried again here ends in one error, which says all."""
    hooks = get_on_retry_hooks()
    set_on_retry_hooks([])
    try:
        yield
    finally:
        set_on_retry_hooks(hooks)


def _client(endpoints: tuple[str, ...], security: Security) -> EtcdClient:
    tls, credentials = security.etcd_tls(), security.etcd_credentials()
    try:
        return EtcdClient(endpoints, tls=tls, credentials=credentials)
    except ValueError as error:
        raise ServeError(
            f"--etcd takes HOST:PORT, for example 127.0.0.1:2379, and not {', '.join(endpoints)}"
        ) from error


def _control(
    database: Database, client: EtcdClient, endpoints: tuple[str, ...], traces: Tracing, upkeep: Upkeep
) -> Control:
    publisher, hearing = Publisher(client, DEFAULT_ROOT), Hearing(now_ms)
    kept = Kept(upkeep.keep_versions, upkeep.keep_days)
    control = Control.over(database, publisher, hearing, endpoints, traces.span, kept)
    failures = control.observation.metrics.database_failures
    tell_failures(database.engine, lambda kind: failures.labels(kind).inc())
    return control


def _lifespan(
    control: Control, etcd: _Etcd, announce: Callable[[], None], failures: list[BaseException]
) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        compared = asyncio.Event()
        # One each, since an etcd that cannot be brought up or does not answer is no reason to wait for anybody.
        loops = (
            _tick_forever(control.hearing),
            _keep_up_forever(etcd, control.publishing.troubles),
            _reconcile_forever(control, compared),
            _forget_forever(control),
            control.changes.run(),
        )
        running = [asyncio.create_task(loop) for loop in loops]
        for task in running:
            task.add_done_callback(partial(_end_service_on_failure, failures))
        # Before anybody is answered: a restored database has versions of the past until etcd's are adopted.
        with suppress(TimeoutError):
            await asyncio.wait_for(compared.wait(), FIRST_COMPARISON_S)
        announce()
        yield
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    return lifespan


def _end_service_on_failure(failures: list[BaseException], task: asyncio.Task[None]) -> None:
    """A service that does not publish any more must not look healthy."""
    if not task.cancelled() and (error := task.exception()):
        log.critical("a part of the service failed, so it ends", exc_info=error)
        failures.append(error)
        signal.raise_signal(signal.SIGTERM)


async def _tick_forever(hearing: Hearing) -> None:
    """In the event loop itself: only a process that stood still makes a gap."""
    while True:
        hearing.now()
        await asyncio.sleep(INTERVAL_S)


# Those below work in threads, since each may take seconds, and the API answers meanwhile.


async def _keep_up_forever(etcd: _Etcd, troubles: Troubles) -> None:
    while True:
        try:
            await asyncio.to_thread(etcd.keep_up)
        except EmbeddedEtcdError as error:
            troubles.tell_once("embedded etcd", f"it cannot be started, will try again: {error}")
        else:
            troubles.over("embedded etcd")
        await asyncio.sleep(INTERVAL_S)


async def _reconcile_forever(control: Control, compared: asyncio.Event) -> None:
    """Sets `compared` after the first time, however that went."""
    while True:
        await _reconcile(control)
        compared.set()
        await asyncio.sleep(INTERVAL_S)


async def _reconcile(control: Control) -> None:
    """Brings etcd up to date. After the database was away, silence counts anew (one expiry of grace)."""
    troubles = control.publishing.troubles
    try:
        with control.observation.reconciling():
            await asyncio.to_thread(control.reconciling.run)
    except sa.exc.SQLAlchemyError as error:
        troubles.tell_once("database", f"nothing is settled or published meanwhile: {_words(error)}")
        control.hearing.interrupted()
    else:
        troubles.over("database")


async def _forget_forever(control: Control) -> None:
    troubles = control.publishing.troubles
    while True:
        try:
            await asyncio.to_thread(control.retention.run)
        except sa.exc.SQLAlchemyError as error:
            troubles.tell_once(
                "retention",
                f"old versions and records stay for the time being: {_words(error)}",
                logging.WARNING,
            )
        else:
            troubles.over("retention")
        await asyncio.sleep(RETENTION_INTERVAL_S)


def _words(error: Exception) -> str:
    return " ".join(str(getattr(error, "orig", error)).split())


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # asyncio switches Nagle's algorithm off only where the protocol is named; with it every answer would take 40 ms.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        raise ServeError(
            f"cannot listen on {host}:{port}: {error.strerror}; is a service running there already? "
            "Otherwise choose another --port"
        ) from error
    listener.listen()
    return listener


def _announce(data_dir: Path, url: str, etcd: _Etcd) -> None:
    """Says where it is: to people, and in a file to programs that started it on any free port."""
    whereabouts = {"url": url, "etcd": list(etcd.endpoints), "pid": os.getpid()}
    written = data_dir / "service.json.new"
    written.write_text(json.dumps(whereabouts))
    written.replace(data_dir / "service.json")
    out.print(
        f"vnodemap serves {url} (API: {url}/openapi.json), etcd {', '.join(etcd.endpoints)}, data in {data_dir}",
        markup=False,
        soft_wrap=True,
    )
