"""Composes the service from its parts, and runs it until it is told to stop."""

import asyncio
import ipaddress
import json
import logging
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path

import sqlalchemy as sa
import uvicorn
from fastapi import FastAPI

from meta.api.app import Lifespan, create_app
from meta.api.control import Control
from meta.coordination.embedded import EmbeddedEtcd, EmbeddedEtcdError
from meta.coordination.publisher import Publisher
from meta.etcd.client import EtcdClient
from meta.hearing import Hearing
from meta.mapping.publication import DEFAULT_ROOT
from meta.registry import Registry
from meta.rescale import Rescales
from meta.store.database import Database
from meta.store.failures import why_not_opened
from meta.store.migrations import DatabaseFromTheFuture, upgrade
from meta.store.url import UnusableDatabase
from meta.vnodectl.session import ServeError, out

log = logging.getLogger(__name__)

INTERVAL_S = 1.0


def run(data_dir: Path, host: str, port: int, database_url: str | None, etcd: list[str] | None) -> None:
    """Serves until SIGINT or SIGTERM. Raises `ServeError` where it cannot start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)-7s %(name)s: %(message)s")
    logging.getLogger("alembic").setLevel(logging.WARNING)
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ServeError(
            f"{data_dir} cannot be used ({error.strerror}); choose another --data-dir"
        ) from error
    with (
        closing(_listen(host, port)) as listener,
        _database(database_url or f"sqlite:///{data_dir / 'meta.db'}") as database,
        _etcd(data_dir, etcd) as running,
        _client(running.endpoints) as client,
    ):
        shown_host = f"[{host}]" if ":" in host else host
        url = f"http://{shown_host}:{listener.getsockname()[1]}"
        control = _control(database, client, running.endpoints)
        app = create_app(control, _lifespan(control, running, lambda: _announce(data_dir, url, running)))
        config = uvicorn.Config(app, log_config=None, access_log=False, lifespan="on")
        # uvicorn raises the signal again when it has shut down; the rest is to be closed too, as on Ctrl-C.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            uvicorn.Server(config).run(sockets=[listener])


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


def _client(endpoints: tuple[str, ...]) -> EtcdClient:
    try:
        return EtcdClient(endpoints)
    except ValueError as error:
        raise ServeError(
            f"--etcd takes HOST:PORT, for example 127.0.0.1:2379, and not {', '.join(endpoints)}"
        ) from error


@contextmanager
def _database(url: str) -> Iterator[Database]:
    try:
        database = Database(url)
    except UnusableDatabase as error:
        raise ServeError(str(error)) from error
    try:
        upgrade(database.engine)
        yield database
    except DatabaseFromTheFuture as error:
        raise ServeError(str(error)) from error
    except sa.exc.DBAPIError as error:
        raise ServeError(why_not_opened(database.engine.url, error)) from error
    finally:
        database.close()


def _control(database: Database, client: EtcdClient, endpoints: tuple[str, ...]) -> Control:
    hearing = Hearing(_now_ms)
    rescales = Rescales(database, Publisher(client, DEFAULT_ROOT), hearing)
    return Control(Registry(database, hearing), rescales, endpoints, DEFAULT_ROOT, hearing)


def _lifespan(control: Control, etcd: _Etcd, announce: Callable[[], None]) -> Lifespan:
    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        # One each, since an etcd that cannot be brought up or does not answer is no reason to wait for anybody.
        loops = (_tick_forever(control.hearing), _keep_up_forever(etcd), _reconcile_forever(control))
        running = [asyncio.create_task(loop) for loop in loops]
        for task in running:
            task.add_done_callback(_end_service_on_failure)
        announce()
        yield
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    return lifespan


def _end_service_on_failure(task: asyncio.Task[None]) -> None:
    """A service that does not publish any more must not look healthy."""
    if not task.cancelled() and (error := task.exception()):
        log.critical("a part of the service failed, so it ends", exc_info=error)
        signal.raise_signal(signal.SIGTERM)


async def _tick_forever(hearing: Hearing) -> None:
    """In the event loop itself: only a process that stood still makes a gap."""
    while True:
        hearing.now()
        await asyncio.sleep(INTERVAL_S)


# The two below work in threads, since each may take seconds, and the API answers meanwhile.


async def _keep_up_forever(etcd: _Etcd) -> None:
    while True:
        try:
            await asyncio.to_thread(etcd.keep_up)
        except EmbeddedEtcdError as error:
            log.error("etcd is away, will try again: %s", error)
        await asyncio.sleep(INTERVAL_S)


async def _reconcile_forever(control: Control) -> None:
    """Keeps etcd up to date. After the database was away, silence counts anew (one expiry of grace)."""
    while True:
        try:
            await asyncio.to_thread(control.rescales.reconcile)
        except sa.exc.SQLAlchemyError as error:
            log.error("cannot reconcile, will try again: %s", error)
            control.hearing.interrupted()
        await asyncio.sleep(INTERVAL_S)


def _listen(host: str, port: int) -> socket.socket:
    if not _is_loopback(host):
        raise ServeError(
            f"{host} is not a loopback address. This version has no authentication, so it listens on 127.0.0.1 "
            "or ::1 only; reach it from elsewhere through an SSH tunnel or an authenticating proxy"
        )
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
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


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
