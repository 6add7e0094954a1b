"""A job that the service sends to an etcd of the past, or to none."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from deploy.process import ServiceProcess
from dispatcher.subscription import Subscription
from dispatcher.view import Source
from meta.coordination.embedded import EmbeddedEtcd
from meta.etcd.client import EtcdClient
from meta.mapping.publication import DEFAULT_ROOT, current_key, version_key

if TYPE_CHECKING:
    from tests.dispatcher.conftest import Fragment

Eventually = Callable[[Callable[[], None]], None]
SOON_MS = 10_000


@contextmanager
def naming_etcd(service_url: str, *endpoints: str) -> Iterator[str]:
    """The URL of a way to the service on which it names these endpoints."""
    coordination = json.dumps({"etcd": {"endpoints": endpoints, "root": DEFAULT_ROOT}}).encode()

    class Way(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self) -> None:
            content = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            if self.path == "/v1/coordination":
                status, answer = 200, coordination
            else:
                passed_on = http.request(
                    self.command, self.path, content=content, headers={"Content-Type": "application/json"}
                )
                status, answer = passed_on.status_code, passed_on.content
            self.send_response(status)
            if status != httpx.codes.NO_CONTENT:
                self.send_header("Content-Length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        do_GET = do_PUT = do_POST = do_DELETE = forward  # noqa: N815 - the library looks for these

        def log_message(self, *_: object) -> None: ...

    with (
        httpx.Client(base_url=service_url, trust_env=False) as http,
        ThreadingHTTPServer(("127.0.0.1", 0), Way) as server,
    ):
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def test_an_etcd_that_is_behind_does_not_hide_what_the_service_knows(
    shared_service: ServiceProcess, fragment: "Fragment", tmp_path: Path, eventually: Eventually
) -> None:
    def settled(version: int) -> None:
        assert fragment.progress()["phase"] == "settled"
        assert subscription.latest.mapping.version == version
        assert subscription.latest.source is Source.HTTP
        assert not subscription.latest.stale

    old = json.loads(fragment.published("current"))["version"]
    with EmbeddedEtcd.start(tmp_path) as etcd, EtcdClient([etcd.endpoint]) as client:
        client.put(version_key(fragment.name, old), fragment.published(f"versions/{old}/body"))
        client.put(current_key(fragment.name), fragment.published("current"))
        fragment.rescale(fragment.units[:2])
        with (
            naming_etcd(shared_service.url, etcd.endpoint) as url,
            Subscription(url, fragment.name, name="a job", poll_ms=200) as subscription,
        ):
            with subscription.pin() as pinned:
                assert pinned.version == old + 1, "settled before, so the version before is nobody's any more"
            settled(old + 1)
            fragment.rescale(fragment.units[2:])
            subscription.wait_for(old + 2, SOON_MS)
            eventually(lambda: settled(old + 2))


def test_an_endpoint_that_is_none_is_told_once_and_the_service_followed(
    shared_service: ServiceProcess,
    fragment: "Fragment",
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    eventually: Eventually,
) -> None:
    def follow(url: str) -> Subscription:
        return Subscription(url, fragment.name, name="a job", poll_ms=50, state_dir=tmp_path)

    with naming_etcd(shared_service.url, "https://nowhere") as url, follow(url) as subscription:
        assert subscription.latest.source is Source.HTTP
        version = subscription.latest.mapping.version
        fragment.rescale(fragment.units[:2])
        assert subscription.wait_for(version + 1, SOON_MS).source is Source.HTTP
    assert caplog.text.count("'https://nowhere' is no endpoint without TLS") == 1

    with follow("http://127.0.0.1:1") as subscription:
        assert subscription.latest.source is Source.DISK
        with subscription.pin() as pinned:
            assert pinned.version >= version
