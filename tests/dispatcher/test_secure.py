"""A subscription of a service with TLS and tokens, over an etcd with TLS and a login."""

import logging
import pickle
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx
import pytest
import trustme

from deploy.process import ServiceProcess
from dispatcher.access import Access
from dispatcher.connection import Connection
from dispatcher.errors import ServiceRefused, SubscriptionNotPicklable
from dispatcher.subscription import Subscription
from dispatcher.view import Role, Source
from meta.etcd.connection import Credentials, Tls
from tests.etcd.conftest import Server

READER = Credentials("alice", "secret")


class World:
    """One secure service with a fragment; the tokens of an operator and of a reader."""

    def __init__(self, folder: Path, open_in: ExitStack) -> None:
        ca = trustme.CA()
        issued = ca.issue_cert("127.0.0.1")
        self.ca, cert, key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        ca.cert_pem.write_to_path(self.ca)
        issued.cert_chain_pems[0].write_to_path(cert)
        issued.private_key_pem.write_to_path(key)
        self.tls = Tls(ca_file=self.ca)
        (folder / "etcd").mkdir()
        self.etcd = Server(folder / "etcd", "--cert-file", str(cert), "--key-file", str(key), tls=self.tls)
        self.etcd.start()
        open_in.callback(self.etcd.end)
        self.etcd.require_login()
        self.etcd.ctl(
            "role", "grant-permission", "open", "readwrite", "/vnodemap", "--prefix", password="rootpw"
        )
        settings = {
            "VNODEMAP_TLS_CERT": str(cert),
            "VNODEMAP_TLS_KEY": str(key),
            "VNODEMAP_ETCD_CA": str(self.ca),
            "VNODEMAP_ETCD_USER": READER.user,
            "VNODEMAP_ETCD_PASSWORD": READER.password,
        }
        endpoint = self.etcd.endpoint.removeprefix("https://")
        running = ServiceProcess(folder / "service", endpoint, settings=settings, ca_file=self.ca)
        self.service = open_in.enter_context(running)
        trust = Access(ca_file=self.ca).trust
        self.http = open_in.enter_context(httpx.Client(base_url=self.service.url, verify=trust))
        self.operator = self.token("job", "operator")
        self.http.headers["Authorization"] = f"Bearer {self.token_of_an_admin}"
        self.reader = self.token("dashboard", "reader")

    def token(self, name: str, role: str) -> str:
        """The first is an admin's, since from then on one is needed."""
        if "Authorization" not in self.http.headers:
            made = self.http.post("/v1/tokens", json={"name": "admin", "role": "admin"})
            self.token_of_an_admin = str(made.raise_for_status().json()["token"])
            self.http.headers["Authorization"] = f"Bearer {self.token_of_an_admin}"
        made = self.http.post("/v1/tokens", json={"name": name, "role": role})
        return str(made.raise_for_status().json()["token"])

    def fragment(self, name: str) -> str:
        self.http.put("/v1/workers/w", json={"parallelism": 2}).raise_for_status()
        key = [{"name": "tailnum", "type": "string"}]
        document = {"name": name, "distribution_key": key, "parallelism": 2, "vnode_count": 8}
        self.http.post("/v1/fragments", json=document).raise_for_status()
        return name

    @contextmanager
    def subscribe(self, fragment: str, role: Role = "applier", **access: Any) -> Iterator[Subscription]:
        given = {"token": self.operator, "ca_file": self.ca, **access}
        with (
            Connection(self.service.url, poll_ms=200, **given) as connection,
            Subscription(connection, fragment, name="a job", role=role) as subscription,
        ):
            yield subscription


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with (
        tempfile.TemporaryDirectory(prefix="etcd-", ignore_cleanup_errors=True) as folder,
        ExitStack() as open_in,
    ):
        yield World(Path(folder), open_in)


def test_with_all_it_needs_it_follows_through_etcd(
    world: World, name: str, eventually: Callable[..., None]
) -> None:
    coordination = world.http.get("/v1/coordination").json()["etcd"]
    assert (coordination["tls"], coordination["auth"]) == (True, True)
    fragment = world.fragment(name)
    with world.subscribe(fragment, etcd_tls=world.tls, etcd_credentials=READER) as subscription:

        def check() -> None:
            assert subscription.latest.source is Source.ETCD

        eventually(check)
        with subscription.pin() as pinned:
            assert pinned.version == 1
        for secret in (world.operator.split("_", 2)[2], READER.password):
            assert secret not in repr(vars(subscription)) + repr(subscription)
        with pytest.raises(SubscriptionNotPicklable):
            pickle.dumps(subscription)


@pytest.mark.parametrize("lacks", ["etcd_tls", "etcd_credentials"])
def test_without_etcd_s_secrets_it_follows_over_http_and_says_so_once(
    world: World, name: str, lacks: str, caplog: pytest.LogCaptureFixture, eventually: Callable[..., None]
) -> None:
    caplog.set_level(logging.WARNING, "dispatcher")
    fragment = world.fragment(name)
    access = {"etcd_tls": world.tls, "etcd_credentials": READER, lacks: None}
    with world.subscribe(fragment, **access) as subscription:
        ages = [subscription.latest.age_ms]

        def check() -> None:
            ages.append(subscription.latest.age_ms)
            confirmed = sum(later < earlier for earlier, later in pairwise(ages))
            assert confirmed > 2, "it follows, round after round"

        assert subscription.latest.source is Source.HTTP
        eventually(check)
    (told,) = [
        record.getMessage() for record in caplog.records if "followed over HTTP" in record.getMessage()
    ]
    assert ("VNODEMAP_ETCD_CA" if lacks == "etcd_tls" else "VNODEMAP_ETCD_USER") in told


def test_the_environment_says_what_is_not_given(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fragment = world.fragment(name)
    for variable, value in {
        "VNODEMAP_TOKEN": f"{world.operator}\n",
        "VNODEMAP_CA_FILE": str(world.ca),
        "VNODEMAP_ETCD_CA": str(world.ca),
        "VNODEMAP_ETCD_USER": READER.user,
        "VNODEMAP_ETCD_PASSWORD": READER.password,
    }.items():
        monkeypatch.setenv(variable, value)
    assert Access.given(None, None, None, None) == Access(world.operator, world.ca, world.tls, READER)
    with world.subscribe(fragment, token=None, ca_file=None) as subscription:
        assert subscription.latest.mapping.version == 1


def test_who_has_no_token_or_a_wrong_one_is_told_what_to_do(
    world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("VNODEMAP_TOKEN", raising=False)
    fragment = world.fragment(name)
    for token, status in ((None, 401), (world.operator + "x", 401), (world.reader, 403)):
        with (
            pytest.raises(ServiceRefused, match="vnodectl token create") as caught,
            world.subscribe(fragment, token=token),
        ):
            pass
        assert caught.value.status == status
        assert "VNODEMAP_TOKEN" in str(caught.value) or "role operator" in str(caught.value)
        assert world.operator not in str(caught.value)


def test_a_reader_s_token_is_enough_to_read(world: World, name: str) -> None:
    fragment = world.fragment(name)
    with world.subscribe(fragment, "reader", token=world.reader) as subscription:
        assert subscription.latest.mapping.version == 1


def test_an_untrusted_service_is_not_told_anything(
    world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    with world.subscribe(name, ca_file=None):
        pass
    assert "VNODEMAP_CA_FILE" in caplog.text
    assert world.operator not in caplog.text


def test_what_cannot_be_used_is_told_without_the_secret(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="VNODEMAP_TOKEN") as caught:
        Access.given("vnm_a_b\nc", None, None, None)
    assert "vnm_a_b" not in str(caught.value)
    (tmp_path / "empty.pem").touch()
    for file in (tmp_path / "empty.pem", tmp_path / "none.pem"):
        with pytest.raises(ValueError, match="VNODEMAP_CA_FILE"):
            _ = Access(ca_file=file).trust
    assert "secret" not in repr(Access("vnm_a_secret", etcd_credentials=READER))
